"""Description of this machine, and the speed of its matrix products and memory copies."""

import os
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from s7.bench.measures import Row
from s7.bench.timing import Run, best_of
from s7.machine import processor, usable_cores, versions

SIZES = (1024, 2048)
# Seconds to wait after NumPy's matrix product: its threads keep spinning and would slow down the next measurement.
SETTLING = 0.3
# Most bytes that one case may use, so that the machine stays responsive.
LARGEST = 4e9


def describe(command: str, sizes: tuple[int, ...] = SIZES, clock: Callable[[], float] = time.perf_counter) -> Row:
    """Return the first line of a saved file: the command, the machine and its matrix-product speed by a clock."""
    return {
        "command": command,
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": usable_cores(),
        "platform": jax.default_backend(),
        "versions": versions() | {"numpy": np.__version__},
        "sgemm_gflops": sgemm_rate(sizes, clock),
    }


def sgemm_rate(sizes: tuple[int, ...] = SIZES, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return GFLOP/s of square float32 matrix products on all threads: the best of NumPy and JAX at these sizes."""
    rates = []
    rng = np.random.default_rng(0)
    product = jax.jit(jnp.matmul)
    for size in sizes:
        a, b = (rng.standard_normal((size, size), np.float32) for _ in range(2))
        implementations: dict[str, Run] = {
            "numpy": partial(np.matmul, a, b, out=np.empty_like(a)),
            "jax": partial(lambda a, b: product(a, b).block_until_ready(), jnp.asarray(a), jnp.asarray(b)),
        }
        for run in implementations.values():
            run()
        rates += [2 * size**3 / seconds / 1e9 for seconds in best_of(10, implementations, 0.5, clock).values()]
    time.sleep(SETTLING)
    return max(rates)


def copier(size: int, workers: int) -> Run:
    """Return a function that copies `size` bytes between two allocated arrays, on `workers` threads."""
    source, target = np.ones(size, np.uint8), np.ones(size, np.uint8)
    if workers == 1:
        return lambda: np.copyto(target, source)
    pool = ThreadPoolExecutor(workers)
    parts = (np.array_split(target, workers), np.array_split(source, workers))
    # The threads run in parallel because NumPy releases the interpreter lock while it copies.
    return lambda: deque(pool.map(np.copyto, *parts), maxlen=0)


def new_copier(size: int) -> Run:
    """Return a function that copies `size` bytes into newly allocated memory, on one thread."""
    source = np.ones(size, np.uint8)
    return lambda: source.copy()


def fits(size: float) -> bool:
    """Whether a case may use this many bytes."""
    return size <= min(LARGEST, available_memory())


def available_memory() -> float:
    """Return the bytes available without swapping, or infinity if the system does not say."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024
    except OSError:
        pass
    return float("inf")
