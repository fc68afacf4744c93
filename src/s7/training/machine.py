"""The machine a run is on: what is said about it in results, and one setting that makes training faster on it."""

import ctypes
import os
import platform
import resource
import sys

import jax

from s7.data.folder import cache_folder

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -4, -8


def keep_freed_memory() -> bool:
    """Lets this process keep the memory that it frees; returns whether that could be arranged.

    A training step allocates the same tens of megabytes again and again. By default glibc gives each back to the
    system and the system clears every page anew, which is slow. One arena, for those of other threads do so even when
    told not to.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # a C library without it
        return False
    settings = ((_M_ARENA_MAX, 1), (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 64 * 2**20))
    return all([mallopt(*setting) == 1 for setting in settings])


def peak_memory_mb() -> float:
    """The most memory that this process has held."""
    # Where the system says so itself: getrusage counts what the parent held when it started this process, too.
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 2**10
    except OSError:
        pass
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**20 if sys.platform == "darwin" else most / 2**10


def versions() -> dict[str, str]:
    """Of what the numbers depend on."""
    from s7 import __version__

    return {"s7": __version__, "jax": jax.__version__, "python": platform.python_version()}


def description() -> str:
    """The processor, its cores, and what JAX runs on."""
    cores = usable_cores()
    return f"{processor()}, {cores} core{'' if cores == 1 else 's'}, {jax.default_backend()}"


def usable_cores() -> int:
    """Cores that this process may use; XLA and NumPy start as many threads."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """Its name, as the system gives it."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def keep_compiled_code() -> None:
    """Lets JAX keep what it compiles in the user's cache, unless it was told where: the next start is quicker."""
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "compiled"))
