"""Timing on a machine that does other things too: rivals take turns, and the best of several runs counts."""

import time
from collections.abc import Callable, Sequence

import jax


def best_of(runs: int, rivals: Sequence[Callable[[], object]]) -> list[float]:
    """The least seconds that each rival took, after a first run that compiles."""
    for run in rivals:
        jax.block_until_ready(run())
    best = [float("inf")] * len(rivals)
    for _ in range(runs):
        for n, run in enumerate(rivals):
            start = time.perf_counter()
            jax.block_until_ready(run())
            best[n] = min(best[n], time.perf_counter() - start)
    return best
