"""Dropout from a counter: the mask is a function of a key, the event's position and the channel.

The same bits come out of the native kernels and of XLA, for any number of threads and after a resume. A draw of 32 bits
decides for two neighbouring channels, so the probability is rounded to a multiple of 1/65536.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

STEPS = 65536


class Dropout(NamedTuple):
    """Dropout of one sequence.

    Attributes:
        key: 64 random bits as four numbers of 16 bits, which every floating-point type holds exactly.
        threshold: The probability that a value is dropped, in units of 1/65536.
    """

    key: Float[Array, "4"]
    threshold: int

    @classmethod
    def of(cls, key: PRNGKeyArray | None, probability: float, dtype: DTypeLike) -> "Dropout | None":
        """None without a key or if nothing would be dropped."""
        threshold = round(probability * STEPS)
        if key is None or threshold == 0:
            return None
        words = jax.random.key_data(key).astype(jnp.uint32).reshape(-1)[-2:]
        return cls(jnp.stack([words & 0xFFFF, words >> 16], 1).reshape(4).astype(dtype), threshold)

    def keep(self, length: int, width: int) -> Float[Array, "L H"]:
        """0 where a value is dropped, 1 / (1 - probability) elsewhere."""
        first, second = self.key.astype(jnp.uint32).reshape(2, 2) @ jnp.array([1, STEPS], jnp.uint32)
        event = _scramble(jnp.arange(length, dtype=jnp.uint32) * np.uint32(0x9E3779B1) + first)
        pair = jnp.arange(-(-width // 2), dtype=jnp.uint32) * np.uint32(0x85EBCA77) + second
        bits = _scramble(event[:, None] ^ pair)
        draws = jnp.stack([bits & 0xFFFF, bits >> 16], -1).reshape(length, -1)[:, :width]
        return jnp.where(draws >= self.threshold, STEPS / (STEPS - self.threshold), 0).astype(self.key.dtype)


def _scramble(x: Array) -> Array:
    """A bijection of 32-bit words with low bias; the constants are those of C. Wellons' lowbias32."""
    x = (x ^ (x >> 16)) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * np.uint32(0x846CA68B)
    return x ^ (x >> 16)
