"""The machine: its description for results, and two settings that make training faster. JAX is imported on use."""

import ctypes
import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from s7.version import __version__

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -4, -8


def keep_freed_memory() -> bool:
    """Let this process keep the memory that it frees. Returns whether the system supports it.

    A training step allocates the same tens of megabytes each time. By default glibc returns them to the system, which
    then clears every page again. A single arena is used because other arenas ignore the trim threshold.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # a C library without mallopt
        return False
    settings = ((_M_ARENA_MAX, 1), (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 64 * 2**20))
    return all([mallopt(*setting) == 1 for setting in settings])


def cache_folder() -> Path:
    """The folder for files that can be made again: $XDG_CACHE_HOME/s7 or ~/.cache/s7."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "s7"


def keep_compiled_code() -> None:
    """Cache compiled programs on disk, so that the next start is faster, unless JAX is already configured to."""
    import jax

    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "compiled"))


def peak_memory_mb() -> float:
    """The peak memory of this process, in MB."""
    # getrusage also counts what the parent held when it started this process, so the kernel's own value comes first.
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 2**10
    except OSError:
        pass
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**20 if sys.platform == "darwin" else most / 2**10


def memory_bytes() -> int:
    """The memory that this process may use: that of the machine, or the limit of its container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**63
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(limit).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return total


def versions() -> dict[str, str]:
    """The versions of S7, JAX and Python."""
    import jax

    return {"s7": __version__, "jax": jax.__version__, "python": platform.python_version()}


def description() -> str:
    """The processor, the number of usable cores, and JAX's device type."""
    import jax

    cores = usable_cores()
    return f"{processor()}, {cores} core{'' if cores == 1 else 's'}, {jax.default_backend()}"


def working_clock() -> Callable[[], float]:
    """The clock for measurements of speed: the time that this process would take on an otherwise idle machine.

    With one thread, that is the processor time. With several, it is the elapsed time, since waiting counts too.
    """
    threads = int(os.environ.get("S7_THREADS") or usable_cores())
    return time.process_time if threads == 1 else time.perf_counter


def usable_cores() -> int:
    """The number of cores that this process may use; XLA and NumPy start as many threads."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The processor's name as the system reports it."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
