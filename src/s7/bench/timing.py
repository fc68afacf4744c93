"""Timing on a machine that does other things too: rivals take turns, and the best of several runs counts."""

import time
from collections.abc import Callable, Mapping

# Seconds that one rival may take in all: a slow one has fewer runs, the others have theirs.
PATIENCE = 2.0

# Runs of a rival in one turn: after the first, memory and caches are its own, as they are in a loop that trains.
TURN = 3

Run = Callable[[], object]


def best_of(runs: int, rivals: Mapping[str, Run], seconds: float = PATIENCE) -> dict[str, float]:
    """The least seconds that each rival took in `runs` runs. Each has run before: what is compiled is compiled."""
    best = dict.fromkeys(rivals, float("inf"))
    spent = dict.fromkeys(rivals, 0.0)
    for done in range(0, runs, TURN):
        for name, run in rivals.items():
            for _ in range(min(TURN, runs - done)):
                if spent[name] < seconds:
                    start = time.perf_counter()
                    run()
                    took = time.perf_counter() - start
                    best[name] = min(best[name], took)
                    spent[name] += took
    return best
