"""Random initial values.

One draw serves all arrays of a component and is compiled once for all components of the same shapes: compiling a
random generator anew for every array takes longer than training a small model.
"""

from collections.abc import Mapping
from functools import partial
from math import prod

import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, PRNGKeyArray

Parameters = dict[str, Array]
# Shape and standard deviation.
Normal = tuple[tuple[int, ...], float]


def draw(wanted: Mapping[str, Normal], *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
    """Normal values for each of the arrays that are wanted."""
    return _draw(key, tuple(wanted.items()), jnp.dtype(dtype))


@partial(jax.jit, static_argnums=(1, 2))
def _draw(key, wanted: tuple[tuple[str, Normal], ...], dtype) -> Parameters:
    values = jax.random.normal(key, (sum(prod(shape) for _, (shape, _) in wanted),), dtype)
    parameters, start = {}, 0
    for name, (shape, scale) in wanted:
        parameters[name] = scale * values[start : start + prod(shape)].reshape(shape)
        start += prod(shape)
    return parameters
