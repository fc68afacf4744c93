"""The native kernels, found, loaded and made known to XLA on first use.

They are built when the package is installed (hatch_build.py) if there is a C++ compiler. The C++ here knows nothing of
Python or JAX except for ffi.cc, a thin layer over the rest.
"""

import ctypes
import os
from functools import cache
from pathlib import Path

import jax

_FOLDER = Path(__file__).parent
CALLS = ("block", "scan", "quadratic", "bilinear", "window_scan", "gate")


@cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    """The library, or None and why there is none."""
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
    for call in CALLS:
        for name in (f"s7_{call}", f"s7_{call}_gradient"):
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="cpu")
    return library, ""


def available() -> bool:
    """Whether the kernels can be used."""
    return _load()[0] is not None


def unavailable_reason() -> str:
    """What is missing if they can't."""
    return _load()[1]


def library() -> ctypes.CDLL:
    """The loaded library; an error says why there is none."""
    loaded, reason = _load()
    if loaded is None:
        raise RuntimeError(f"no native kernels here: {reason}")
    return loaded


def instruction_set() -> str:
    """The instructions that the kernels use on this processor: "avx512", "avx2" or "baseline"."""
    name = library().s7_instruction_set
    name.restype = ctypes.c_char_p
    return name().decode()
