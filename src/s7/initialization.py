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


def smoothed(table: Float[Array, "N H"], std: float, places: tuple[int, ...] | None = None) -> Float[Array, "N H"]:
    """Make random vectors of neighbouring places alike, by a Gaussian filter over the places.

    Args:
        table: Independent vectors of equal variance, one per row. The result has the same variance.
        std: The standard deviation of the filter, in places; 0 changes nothing.
        places: The sizes of the grid of places along the leading axes of the rows, in C order; None for a line.
    """
    if not std:
        return table
    sizes = table.shape[:1] if places is None else places
    grid = table.reshape(*sizes, -1, table.shape[-1])
    for axis, size in enumerate(sizes):
        distance = np.arange(size)[:, None] - np.arange(size)
        weights = np.exp(-0.5 * (distance / std) ** 2)
        weights /= np.sqrt(np.square(weights).sum(1, keepdims=True))
        grid = jnp.moveaxis(jnp.tensordot(weights.astype(table.dtype), grid, (1, axis)), 0, axis)
    return grid.reshape(table.shape)


@partial(jax.jit, static_argnames="dtype")
def _block(key: PRNGKeyArray, n, *, dtype) -> Array:
    return jax.random.normal(jax.random.fold_in(key, n), (_BLOCK,), dtype)
