"""Baselines: the architectures that `--model` accepts, by name.

A baseline is one file, in this package or in a user's own: an `Architecture` and, unless it consists of S7's own parts,
the `LayerKind` that replaces the S7 layer in each block.
"""

from s7.baselines.architecture import Architecture
from s7.registry import is_builtin, load_modules, load_plugins

load_modules(__name__)

_FAMILIES = ("s7", "state-space", "cells", "transformer")


def architectures() -> dict[str, type[Architecture]]:
    """The architectures by name, sorted by family; those of users' modules are last."""
    load_plugins()

    def order(item: tuple[str, type[Architecture]]) -> tuple[bool, int, str]:
        name, kind = item
        family = _FAMILIES.index(kind.family) if kind.family in _FAMILIES else len(_FAMILIES)
        return not is_builtin(kind), family, name

    return dict(sorted(Architecture.registry.classes.items(), key=order))


def find_architecture(name: str) -> type[Architecture]:
    """Find an architecture.

    Args:
        name: Its name as in `s7 models`, or "module:Class" for a class in a module that is imported or listed in
            S7_PLUGINS.
    """
    return Architecture.registry.find(name)


__all__ = ["Architecture", "architectures", "find_architecture"]
