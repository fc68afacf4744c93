"""Ways to compute one thing: this install's backends, and what they are measured against."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np

import s7

# Of the largest number: ways that sum in another order differ by much less, ways that compute something else by more.
TOLERANCE = 2e-3


def backend_names() -> list[str]:
    """The backends of this install, the native one first: ratios are to the first."""
    here = [name for name, about in s7.backends().items() if not about.startswith("missing")]
    return sorted(here, key=lambda name: name != "native")


def under(backend: str | None) -> AbstractContextManager:
    """Within it a computation is traced for this backend; None leaves the choice as it is."""
    return nullcontext() if backend is None else s7.backend(backend)


def compiled(function: Callable, backend: str | None, *arguments: Any) -> Callable[[], Any]:
    """The function compiled for these arguments; a call runs it and waits for the result."""
    with under(backend):
        program = jax.jit(function).lower(*arguments).compile()
    return lambda: jax.block_until_ready(program(*arguments))


def require_agreement(results: Mapping[str, Any], where: str, tolerance: float = TOLERANCE) -> None:
    """Raises an error if the ways have not computed the same, each array up to a small part of its largest number."""
    (first, expected), *others = results.items()
    for name, result in others:
        for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(result), strict=True):
            a, b = np.asarray(a), np.asarray(b)
            largest = float(np.abs(a).max())
            difference = float(np.abs(a - b).max())
            if not difference <= tolerance * largest:
                raise ArithmeticError(
                    f"{where}: {name} differs from {first} by {difference:.2g} where the largest number is "
                    f"{largest:.2g}; not timed"
                )
