"""Dropout from a counter: the mask is a function of a key, the event's position and the channel.

The same bits come out of the native kernels and of XLA, for any number of threads and after a resume. A draw of 32 bits
decides for two neighbouring channels, so the probability is rounded to a multiple of 1/65536.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

STEPS = 65536


def threshold(probability: float) -> int:
    """The probability in units of 1/65536."""
    return round(probability * STEPS)


def halves(key: PRNGKeyArray, dtype: DTypeLike) -> Float[Array, "4"]:
    """The 64 bits of a key as four numbers of 16 bits, which every floating-point type holds exactly."""
    words = jax.random.key_data(key).astype(jnp.uint32).reshape(-1)[-2:]
    return jnp.stack([words & 0xFFFF, words >> 16], 1).reshape(4).astype(dtype)


def keep(key: Float[Array, "4"], length: int, width: int, threshold: int) -> Float[Array, "L H"]:
    """0 where a value is dropped, 1 / (1 - probability) elsewhere."""
    word = key.astype(jnp.uint32).reshape(2, 2)
    first, second = word[:, 0] | word[:, 1] << 16
    event = _scramble(jnp.arange(length, dtype=jnp.uint32) * np.uint32(0x9E3779B1) + first)
    pair = jnp.arange(-(-width // 2), dtype=jnp.uint32) * np.uint32(0x85EBCA77) + second
    bits = _scramble(event[:, None] ^ pair)
    draws = jnp.stack([bits & 0xFFFF, bits >> 16], -1).reshape(length, -1)[:, :width]
    return jnp.where(draws >= threshold, STEPS / (STEPS - threshold), 0).astype(key.dtype)


def _scramble(x: Array) -> Array:
    """A bijection of 32-bit words with low bias; the constants are those of C. Wellons' lowbias32."""
    x = (x ^ (x >> 16)) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * np.uint32(0x846CA68B)
    return x ^ (x >> 16)
