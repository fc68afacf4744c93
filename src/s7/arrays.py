"""NumPy arrays under JAX transformations.

`jax.vmap` over a NumPy array that a compiled function closes over passes on a tracer with that array inside. Custom
gradient rules cannot save such a tracer, and checks want to look at the values in it.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def innermost(array: Any) -> Any:
    """The array that the tracers of `jax.vmap` wrap, or the array itself."""
    while hasattr(array, "batch_dim"):
        array = array.val
    return array


def as_jax(*arrays: Any) -> tuple[Array, ...]:
    """The arrays as JAX arrays or tracers without a NumPy array inside."""
    return tuple(jnp.array(array, copy=True) if isinstance(innermost(array), np.ndarray) else array for array in arrays)
