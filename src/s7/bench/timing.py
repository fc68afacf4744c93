"""Timing on a shared machine: implementations take turns, and the fastest of several runs counts."""

import time
from collections.abc import Callable, Mapping

# Seconds for all runs of one implementation. Slow implementations get fewer runs.
BUDGET = 2.0

# Consecutive runs of an implementation. After the first, caches are warm, as in a training loop.
TURN = 3

Run = Callable[[], object]


def best_of(runs: int, implementations: Mapping[str, Run], seconds: float = BUDGET) -> dict[str, float]:
    """Return the shortest time of each implementation in seconds. They must be compiled already."""
    best = dict.fromkeys(implementations, float("inf"))
    spent = dict.fromkeys(implementations, 0.0)
    for done in range(0, runs, TURN):
        for name, run in implementations.items():
            for _ in range(min(TURN, runs - done)):
                if spent[name] < seconds:
                    start = time.perf_counter()
                    run()
                    took = time.perf_counter() - start
                    best[name] = min(best[name], took)
                    spent[name] += took
    return best
