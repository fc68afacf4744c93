"""Calls outside of `jax.jit`: compiled as a whole, instead of one operation after the other.

JAX would compile every operation of such a call separately, hundreds for a model, and run them one by one.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
from jax.core import Tracer

from s7.arrays import innermost

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """The function, compiled when it is called outside of `jax.jit`; inside, the caller is compiled anyway.

    Arguments that are not arrays must be hashable.
    """
    whole = eqx.filter_jit(function)

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        leaves = jax.tree.leaves((arguments, keywords))
        return (function if any(_is_staged(leaf) for leaf in leaves) else whole)(*arguments, **keywords)

    return call


def _is_staged(value: Any) -> bool:
    """Whether a value belongs to a program that is being compiled, rather than mapped or differentiated at once."""
    while isinstance(value := innermost(value), Tracer):
        if not hasattr(value, "primal"):
            return True
        value = value.primal
    return False
