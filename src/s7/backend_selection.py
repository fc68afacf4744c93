"""Which way layers are computed: `with s7.backend("native")`, `s7.backends()`.

All ways give the same numbers. What there is to choose from is listed here; recurrence.py, contractions.py and layer.py
ask `current_backend` when they are traced.
"""

import os
from contextlib import AbstractContextManager

import jax

from s7 import native

# A user context is part of JAX's compilation key: changing the backend recompiles, never reuses.
_chosen = jax.make_user_context(None)

# From so many steps on a native call is worth its fixed cost, the weights laid out anew.
SHORTEST_NATIVE = 32


def backends() -> dict[str, str]:
    """The ways to compute a layer, each with a line about it; for one that is missing here, what it lacks."""
    if native.available():
        kernels = f"C++ kernels, {native.instruction_set()} instructions: the fastest on a CPU"
    else:
        kernels = f"missing: {native.unavailable_reason()}"
    return {
        "native": kernels,
        "xla": "compiled by XLA, the recurrence as a sequential loop: runs anywhere",
        "parallel": "compiled by XLA, the recurrence as an associative scan: for accelerators",
    }


def backend(name: str) -> AbstractContextManager:
    """Chooses how layers are computed: `with s7.backend("xla"): ...`. "auto" takes the fastest that is here."""
    _check(name, "s7.backend")
    return _chosen(name)


def current_backend(length: int) -> str:
    """The backend for `length` steps: the innermost `with s7.backend(...)`, else $S7_BACKEND, else the fastest."""
    name = _chosen.value or os.environ.get("S7_BACKEND") or "auto"
    _check(name, "S7_BACKEND")
    if name != "auto":
        return name
    if jax.default_backend() != "cpu":
        return "parallel"
    return "native" if length >= SHORTEST_NATIVE and native.available() else "xla"


def _check(name: str, asked_by: str) -> None:
    if name == "native" and not native.available():
        raise ValueError(f"{asked_by}: no native kernels here: {native.unavailable_reason()}")
    if name not in ("auto", "native", "xla", "parallel"):
        raise ValueError(f"{asked_by}: no backend {name!r}; choose from auto, native, xla, parallel")
