"""The backends of this installation, compilation for one of them, and comparison of their results."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np

import s7

# Relative to the largest value. A different order of summation gives much smaller differences, an error larger ones.
TOLERANCE = 2e-3


def backend_names() -> list[str]:
    """Return the available backends, `native` first: ratios are relative to the first."""
    here = [name for name, about in s7.backends().items() if not about.startswith("missing")]
    return sorted(here, key=lambda name: name != "native")


def under(backend: str | None) -> AbstractContextManager:
    """Return a context that selects a backend. None keeps the current one."""
    return nullcontext() if backend is None else s7.backend(backend)


def compiled(function: Callable, backend: str | None, *arguments: Any) -> Callable[[], Any]:
    """Compile the function for these arguments. Calling the result runs it and waits until it is done."""
    with under(backend):
        program = jax.jit(function).lower(*arguments).compile()
    return lambda: jax.block_until_ready(program(*arguments))


def require_agreement(results: Mapping[str, Any], where: str, tolerance: float = TOLERANCE) -> None:
    """Raise an error unless all results agree, each array up to `tolerance` times its largest absolute value."""
    (first, expected), *others = results.items()
    for name, result in others:
        for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(result), strict=True):
            a, b = np.asarray(a), np.asarray(b)
            largest = float(np.abs(a).max())
            difference = float(np.abs(a - b).max())
            if not difference <= tolerance * largest:
                raise ArithmeticError(
                    f"{where}: {name} differs from {first} by {difference:.2g}, with a largest value of "
                    f"{largest:.2g}; not timed"
                )
