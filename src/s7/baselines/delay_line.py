"""Delays of several events in a recurrent cell: what each event contributes to itself and to the events after it."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def arrivals(
    contributions: Float[Array, " DH"], waiting: Float[Array, "W H"]
) -> tuple[Float[Array, " H"], Float[Array, "W H"]]:
    """What arrives at an event, and what waits for the events after it.

    Args:
        contributions: Those of the event, for delays of 0 to D - 1 events.
        waiting: What earlier events contribute to this event and to the D - 2 after it.
    """
    own = contributions.reshape(len(waiting) + 1, -1)
    ahead = jnp.concatenate([waiting, jnp.zeros_like(own[:1])]) + own
    return ahead[0], ahead[1:]
