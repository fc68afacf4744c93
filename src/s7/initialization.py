"""Fast initialization of parameters.

Compiling a random generator for every shape would take seconds. Random numbers are therefore drawn in blocks of one
size and cut to shape outside of compiled code, and constants are created there too. Inside a transformation, such as
jax.vmap over keys, traced operations give the same numbers.
"""

from collections.abc import Mapping
from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

Parameters = dict[str, Array]
# Shape and standard deviation.
Normal = tuple[tuple[int, ...], float]

_BLOCK = 4096


def split(key: PRNGKeyArray, count: int) -> list[PRNGKeyArray]:
    """Return `count` independent keys. Unlike jax.random.split, this compiles once for all counts."""
    return [jax.random.fold_in(key, n) for n in range(count)]


def constant(value: float, size: int, dtype: DTypeLike) -> Float[Array, " N"]:
    """A vector of `size` equal values."""
    return jnp.asarray(np.full(size, value), dtype)


def draw(wanted: Mapping[str, Normal], *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
    """Draw normally distributed arrays.

    Args:
        wanted: The shape and the standard deviation of each array, by name.
        key: A JAX random key.
        dtype: The type of the arrays.
    """
    total = sum(prod(shape) for shape, _ in wanted.values())
    blocks = range(-(-total // _BLOCK))
    if isinstance(key, Tracer):
        values = jax.vmap(partial(_block, key, dtype=jnp.dtype(dtype)))(jnp.arange(len(blocks))).reshape(-1)
    else:
        values = np.concatenate([np.asarray(_block(key, n, dtype=jnp.dtype(dtype))) for n in blocks])
    parameters, start = {}, 0
    for name, (shape, scale) in wanted.items():
        parameters[name] = jnp.asarray(scale * values[start : start + prod(shape)].reshape(shape), dtype)
        start += prod(shape)
    return parameters


@partial(jax.jit, static_argnames="dtype")
def _block(key: PRNGKeyArray, n, *, dtype) -> Array:
    return jax.random.normal(jax.random.fold_in(key, n), (_BLOCK,), dtype)
