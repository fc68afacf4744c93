"""Initial values, without the wait.

Building a model should take no longer than a moment. Compiling a random generator anew for every shape would take
seconds, so numbers are drawn in blocks of one size and cut to shape outside of compiled code; constants are made
there too. Within a transformation (jax.vmap over keys, say) the same numbers come from traced operations.
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
    """As many independent keys. Unlike jax.random.split, compiled once for all counts."""
    return [jax.random.fold_in(key, n) for n in range(count)]


def constant(value: float, size: int, dtype: DTypeLike) -> Float[Array, " N"]:
    """A vector of one value."""
    return jnp.asarray(np.full(size, value), dtype)


def draw(wanted: Mapping[str, Normal], *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
    """Normal values for each of the arrays that are wanted."""
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
