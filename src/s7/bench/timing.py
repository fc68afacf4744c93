"""Timing on a shared machine: implementations take turns, and the fastest of several runs counts."""

import time
from collections.abc import Callable, Mapping

from s7.bench.measures import Row
from s7.bench.operations import rate

# Seconds for all runs of one implementation. Slow implementations get fewer runs.
BUDGET = 2.0

# Consecutive runs of an implementation. After the first, caches are warm, as in a training loop.
TURN = 3

Run = Callable[[], object]


def best_of(
    runs: int,
    implementations: Mapping[str, Run],
    seconds: float = BUDGET,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the shortest time of each implementation in seconds. They must be compiled already.

    Args:
        runs: Repetitions.
        implementations: What to run, by name.
        seconds: The time for all runs of one implementation.
        clock: The clock. `time.process_time` does not count the time of other processes; it adds up all threads.
    """
    best = dict.fromkeys(implementations, float("inf"))
    spent = dict.fromkeys(implementations, 0.0)
    for done in range(0, runs, TURN):
        for name, run in implementations.items():
            for _ in range(min(TURN, runs - done)):
                if spent[name] < seconds:
                    start = clock()
                    run()
                    took = clock() - start
                    best[name] = min(best[name], took)
                    spent[name] += took
    return best


def timed(
    part: str, seconds: Mapping[str, float], name: str, steps: int, multiply_adds: int | None, sgemm: float
) -> Row:
    """Return the fields of one measured time, such as `forward_ns`. They are None if it was not measured.

    Args:
        part: The start of the names of the fields.
        seconds: The time of each implementation. Ratios are relative to the first.
        name: The implementation.
        steps: The number of events.
        multiply_adds: Those of all events; None if they are not counted.
        sgemm: GFLOP/s of a matrix product.
    """
    if name not in seconds:
        return {f"{part}_{field}": None for field in ("ns", "ratio", "gflops", "of_sgemm")}
    took = seconds[name]
    gflops = None if multiply_adds is None else rate(multiply_adds, took)
    return {
        f"{part}_ns": took / steps * 1e9,
        f"{part}_ratio": took / next(iter(seconds.values())),
        f"{part}_gflops": gflops,
        f"{part}_of_sgemm": None if gflops is None else gflops / sgemm,
    }
