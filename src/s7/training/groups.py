"""Optimizer groups: which learning rate and weight decay each parameter takes.

A module declares the groups of its parameters in `groups`, by their path below it: `{"A_log": "ssm"}` for a field,
`{"rates.w": "ssm"}` for an entry of a dictionary. Parameters without a declared group are in the group "rest".
"""

from collections.abc import Iterator, Mapping
from typing import Any

import equinox as eqx
import jax

from s7.files import leaf_name
from s7.registry import unknown

GROUPS = ("ssm", "selective", "rest")


def parameter_groups(model: Any) -> dict[str, str]:
    """The optimizer group of every array of a model, by the array's name in the model's file.

    The innermost module that declares a group for an array decides.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(model, eqx.is_array))
    return {leaf_name(path): _group(model, path) for path, _ in leaves}


def _group(model: Any, path: tuple) -> str:
    found = "rest"
    for depth, owner in enumerate(_along(model, path)):
        declared = getattr(owner, "groups", None) if isinstance(owner, eqx.Module) else None
        if isinstance(declared, Mapping):
            found = declared.get(leaf_name(path[depth:]), found)
    if found not in GROUPS:
        raise ValueError(f"{leaf_name(path)}: {unknown('optimizer group', found, GROUPS)}")
    return found


def _along(node: Any, path: tuple) -> Iterator[Any]:
    """The nodes that a path leads through."""
    for key in path:
        yield node
        match key:
            case jax.tree_util.GetAttrKey():
                node = getattr(node, key.name)
            case jax.tree_util.SequenceKey():
                node = node[key.idx]
            case jax.tree_util.DictKey():
                node = node[key.key]
            case _:  # a node of another kind: nothing below it declares groups
                return
