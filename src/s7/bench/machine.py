"""The machine that is measured: its processor, and how fast it multiplies matrices and copies memory."""

import os
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from s7.bench.measures import Row
from s7.bench.timing import Run, best_of
from s7.machine import processor, usable_cores, versions

SIZES = (1024, 2048)
# Seconds: the threads of NumPy's matrix product wait for more to do, busily, and would slow down what is timed next.
SETTLING = 0.3
# Bytes that one case may take: a machine of any size stays usable.
LARGEST = 4e9


def describe(command: str, sizes: tuple[int, ...] = SIZES) -> Row:
    """The first line of a file: what was run, where, and how fast a plain matrix product is there."""
    return {
        "command": command,
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": usable_cores(),
        "platform": jax.default_backend(),
        "versions": versions() | {"numpy": np.__version__},
        "sgemm_gflops": sgemm_rate(sizes),
    }


def sgemm_rate(sizes: tuple[int, ...] = SIZES) -> float:
    """GFLOP/s of square float32 matrix products on all threads: the best of NumPy's and JAX's, at these sizes."""
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
        rates += [2 * size**3 / seconds / 1e9 for seconds in best_of(10, implementations, seconds=0.5).values()]
    time.sleep(SETTLING)
    return max(rates)


def copier(size: int, workers: int) -> Run:
    """A copy of so many bytes from one array to another, both in place before, by so many threads."""
    source, target = np.ones(size, np.uint8), np.ones(size, np.uint8)
    if workers == 1:
        return lambda: np.copyto(target, source)
    pool = ThreadPoolExecutor(workers)
    parts = (np.array_split(target, workers), np.array_split(source, workers))
    # The threads do run at once: NumPy lets go of the interpreter's lock while it copies.
    return lambda: deque(pool.map(np.copyto, *parts), maxlen=0)


def new_copier(size: int) -> Run:
    """A copy of so many bytes into memory that is new each time, by one thread."""
    source = np.ones(size, np.uint8)
    return lambda: source.copy()


def fits(size: float) -> bool:
    """Whether so many bytes may be taken."""
    return size <= min(LARGEST, available_memory())


def available_memory() -> float:
    """Bytes that can be had without swapping, as far as the system says."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024
    except OSError:
        pass
    return float("inf")
