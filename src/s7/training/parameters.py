"""A model as one vector of its trained parameters, and named arrays that are not trained.

An optimizer does the same to every number, so a single vector is compiled once and not once for each array. Names are
those of the model's file (blocks.0.layer.maps.W_B), which groups and messages use too.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from s7.backend_selection import current_backend
from s7.files import leaf_name
from s7.native import kernels
from s7.training.groups import parameter_groups

Arrays = dict[str, Array]


@dataclass(frozen=True)
class ParamLayout:
    """The structure of a model, and the position of each of its arrays in the flat vector."""

    structure: Any
    static: Any
    names: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]]
    groups: dict[str, str]

    def model(self, trained: Arrays, carried: Arrays) -> Any:
        """The model with these arrays."""
        arrays = trained | carried
        return eqx.combine(jax.tree.unflatten(self.structure, [arrays[name] for name in self.names]), self.static)

    def unravel(self, vector: Float[Array, " N"]) -> Arrays:
        """The arrays that training adjusts."""
        if current_backend(vector.shape[0]) == "native":
            shapes = tuple(self.shapes.values())
            return dict(zip(self.shapes, kernels.split(vector, shapes), strict=True))
        arrays, start = {}, 0
        for name, shape in self.shapes.items():
            arrays[name] = vector[start : start + prod(shape)].reshape(shape)
            start += prod(shape)
        return arrays

    def ravel(self, arrays: Arrays) -> Float[Array, " N"]:
        """All of them in one vector."""
        return jnp.concatenate([arrays[name].ravel() for name in self.shapes])

    def name_at(self, place: int) -> str:
        """The array that a place in the vector belongs to."""
        ends = np.cumsum([prod(shape) for shape in self.shapes.values()])
        return list(self.shapes)[int(np.searchsorted(ends, place, side="right"))]

    def spread(self, value_of: Any) -> Float[np.ndarray, " N"]:
        """A vector with one value for each array, chosen by its name and shape."""
        parts = [np.full(prod(shape), value_of(name, shape)) for name, shape in self.shapes.items()]
        return np.concatenate(parts).astype(np.float32)


def flatten(model: Any) -> tuple[ParamLayout, Float[Array, " N"], Arrays]:
    """The layout, the vector, and the arrays that no gradient changes: integers, batch norms' running statistics."""
    arrays, static = eqx.partition(model, eqx.is_array)
    leaves, structure = jax.tree_util.tree_flatten_with_path(arrays)
    running = {id(leaf) for leaf in jax.tree.leaves(getattr(model, "moments", None))}
    named = {leaf_name(path): leaf for path, leaf in leaves}
    trained = {name: leaf for name, leaf in named.items() if eqx.is_inexact_array(leaf) and id(leaf) not in running}
    if not trained:
        raise ValueError(f"{type(model).__name__} has no parameters to train")
    kinds = {leaf.dtype for leaf in trained.values()}
    if len(kinds) > 1 or not jnp.issubdtype(kinds.pop(), jnp.floating):
        raise ValueError(f"{type(model).__name__}: parameters must all be of one real type to be trained")
    shapes = {name: leaf.shape for name, leaf in trained.items()}
    layout = ParamLayout(structure, static, tuple(named), shapes, parameter_groups(model))
    # In NumPy: compiling a concatenation for each model would take longer than doing it.
    vector = jnp.asarray(np.concatenate([np.asarray(leaf).ravel() for leaf in trained.values()]))
    return layout, vector, {name: jnp.array(leaf) for name, leaf in named.items() if name not in trained}


def carried_by(model: Any, names: tuple[str, ...]) -> Arrays:
    """The arrays of a model under these names."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(model, eqx.is_array))
    named = {leaf_name(path): leaf for path, leaf in leaves}
    return {name: named[name] for name in names}
