"""Short causal convolutions over events: padding between events is skipped, and sequences do not mix."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float


def convolve_events(
    taps: Float[Array, "K E"],
    inputs: Float[Array, "L E"],
    mask: Bool[Array, " L"] | None,
    reset: Bool[Array, " L"] | None,
    before: Float[Array, "K E"],
) -> tuple[Float[Array, "L E"], Float[Array, "K E"]]:
    """Compute Σ_j taps_j * inputs_{k-j}, channel by channel.

    K inputs are stored although the next event needs K - 1: a padded position repeats the result of the last event,
    which may have come before this call.

    Args:
        taps: The weights, those of the newest event first.
        inputs: The inputs of the events.
        mask: False on padding; None if there is none.
        reset: True at the first event of each of several packed sequences; None for one sequence.
        before: The last inputs before this call, the newest last.

    Returns:
        The result at every position, and the last inputs, for the next call.
    """
    count, length = len(taps), inputs.shape[0]
    sequence = jnp.zeros(length, int) if reset is None else jnp.cumsum(reset)
    newest = sequence[-1:]
    events = jnp.arange(1, length + 1) if mask is None else jnp.cumsum(mask)
    if mask is not None:  # events are moved together
        (places,) = jnp.nonzero(mask, size=length)
        inputs, sequence = inputs[places], sequence[places]
    inputs = jnp.concatenate([before, inputs])
    sequence = jnp.concatenate([jnp.zeros(count, int), sequence])
    own = sequence[count - 1 :]
    # Row n belongs to the n-th event, row 0 to the last event before this call.
    result = jnp.zeros_like(inputs[count - 1 :])
    for ago, weight in enumerate(taps):
        reached = slice(count - 1 - ago, count + length - ago)
        result = result + weight * jnp.where((sequence[reached] == own)[:, None], inputs[reached], 0)
    last, of = (lax.dynamic_slice_in_dim(q, events[-1], count) for q in (inputs, sequence))
    return result[1:] if mask is None else result[events], jnp.where((of == newest)[:, None], last, 0)
