"""Training steps of several models on one task, in processor time, next to the arithmetic that they consist of.

A model is compared with its own arithmetic at a fifth of the speed of a matrix product (`BAR`): small matrices,
activations and the steps of a recurrence do not run faster on one core. Operations are counted in the traced step under
the backend `xla` (see arithmetic.py).
"""

import time
from collections.abc import Callable, Iterator, Sequence

import jax

from s7.bench.arithmetic import operations
from s7.bench.implementations import under
from s7.bench.machine import sgemm_rate
from s7.bench.measures import Row
from s7.bench.problems import TrainCase, train_case
from s7.bench.timing import best_of
from s7.bench.train import Training, prepared
from s7.training.steps import arrays_of

# The rate, relative to sgemm, at which a step's arithmetic is expected to run, and how much longer a step may take.
BAR, SLOWEST = 0.2, 3.0
# Why models exceed the bar.
REASONS: dict[str, str] = {}


def rows(
    task: str,
    models: Sequence[str],
    *,
    preset: str = "ours",
    length: int | None = None,
    runs: int = 10,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Row]:
    """Yield a row per model. Times are also relative to that of the first model that can be trained on the task.

    Args:
        task: A task with this preset.
        models: Names of architectures. A model that cannot be trained on the task has a row that says why.
        preset: The preset.
        length: The length of sequences; None for the length that is typical of the task.
        runs: Repetitions, of which the fastest counts.
        say: Called with a line about what is being done.
    """
    say("measuring matrix multiplication")
    sgemm = sgemm_rate(clock=time.process_time)
    first = None
    for model in models:
        try:
            case = train_case(task, preset, length, model)
        except ValueError as error:
            yield {"benchmark": "models", "task": task, "implementation": model, "skipped": str(error)}
            continue
        say(f"{task}, compiling {model}")
        row = _row(case, model, sgemm, runs)
        first = first or row["step_ms"]
        yield row | {"step_relative": row["step_ms"] / first}


def _row(case: TrainCase, name: str, sgemm: float, runs: int) -> Row:
    model, step, optimizer, state, batch = prepared(case)
    with under("xla"):
        counted = operations(step.train, arrays_of(optimizer), state, batch, jax.random.key(0))
    training = Training(step, optimizer, state, batch, None)
    training()
    seconds = best_of(runs, {name: training}, clock=time.process_time)[name]
    slowness = seconds * BAR * sgemm * 1e9 / counted
    return {
        "benchmark": "models",
        "task": case.task,
        "preset": case.preset,
        "batch": case.batch,
        "length": case.length,
        "implementation": name,
        "parameters": model.parameter_count,
        "operations": counted,
        "sgemm_gflops": sgemm,
        "step_ms": seconds * 1e3,
        "step_mflop": counted / 1e6,
        "step_of_sgemm": counted / seconds / 1e9 / sgemm,
        "slowness": slowness,
        "note": REASONS.get(name, "") if slowness > SLOWEST else "",
    }
