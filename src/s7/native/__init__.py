"""The native kernels. The library is loaded and its calls are registered with XLA on first use.

It is built when the package is installed (hatch_build.py) if there is a C++ compiler. The C++ sources do not depend on
Python or JAX, except for ffi.cc, a thin layer over the rest.
"""

import ctypes
import os
from functools import cache
from pathlib import Path

import jax

_FOLDER = Path(__file__).parent
# Calls with a gradient, and calls without one.
CALLS = ("block", "window_block", "scan", "quadratic", "bilinear", "window_scan", "pool_rows", "gate")
SIMPLE_CALLS = ("split", "moments")


@cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    """Load the library; return it and an empty string, or None and the reason why it cannot be used."""
    threads = os.environ.get("S7_THREADS")
    if threads is not None and not (threads.isdecimal() and int(threads) > 0):
        raise ValueError(f"S7_THREADS={threads!r}: expected a whole number of at least 1")
    path = _FOLDER / "libs7.so"
    if not path.exists():
        note = _FOLDER / "not-built.txt"
        reason = note.read_text().strip() if note.exists() else "the library was not built when s7 was installed"
        return None, f"{reason}; with a C++ compiler, `pip install` s7 again"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return None, f"{path} cannot be loaded: {error}"
    names = [f"s7_{call}{suffix}" for call in CALLS for suffix in ("", "_gradient")]
    for name in names + [f"s7_{call}" for call in SIMPLE_CALLS]:
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="cpu")
    return library, ""


def available() -> bool:
    """Return whether the kernels can be used."""
    return _load()[0] is not None


def unavailable_reason() -> str:
    """Return why the kernels cannot be used, or an empty string."""
    return _load()[1]


def library() -> ctypes.CDLL:
    """Return the loaded library; raise RuntimeError with the reason if there is none."""
    loaded, reason = _load()
    if loaded is None:
        raise RuntimeError(f"no native kernels here: {reason}")
    return loaded


def include_folder() -> Path:
    """The folder of s7.h, s7.hpp and, if it was built, libs7.so, for programs in C and C++."""
    return _FOLDER


def instruction_set() -> str:
    """The instructions that the kernels use on this processor: "avx512", "avx2" or "baseline"."""
    name = library().s7_instruction_set
    name.restype = ctypes.c_char_p
    return name().decode()
