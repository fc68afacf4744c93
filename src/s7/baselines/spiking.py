"""Spikes: the step function, with a surrogate gradient."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

THRESHOLD = 1.0


@jax.custom_jvp
def spikes(membrane: Float[Array, " H"]) -> Float[Array, " H"]:
    """1 where the membrane potential is at least the threshold, else 0.

    The derivative of the step is replaced by that of a box: 1/2 within 1/2 of the threshold.
    """
    return (membrane >= THRESHOLD).astype(membrane.dtype)


@spikes.defjvp
def _spikes_jvp(primals, tangents):
    (membrane,), (tangent,) = primals, tangents
    near = jnp.abs(membrane - THRESHOLD) <= 0.5
    return spikes(membrane), 0.5 * near * tangent
