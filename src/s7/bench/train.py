"""Complete training steps (forward, backward and optimizer) of the models of the presets under each backend.

The step is that of `s7 train`, on one random batch (see problems.py). The batch size is the preset's, limited to a
number of events. Rates count the multiply-adds of operations.py; the optimizer is not counted.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from s7.bench.implementations import backend_names, require_agreement, under
from s7.bench.machine import sgemm_rate
from s7.bench.measures import Row
from s7.bench.operations import of_model, rate
from s7.bench.problems import KINDS, TrainCase, train_case
from s7.bench.timing import best_of
from s7.data.batching import Batch
from s7.model import S7Model
from s7.presets import tasks_with
from s7.settings import unknown
from s7.training.optimizer import AdamW
from s7.training.parameters import flatten
from s7.training.steps import TrainState, TrainStep, arrays_of, planned_bytes

# Relative difference between losses: six untrained blocks amplify rounding errors.
TOLERANCE = 0.05
# The associative scan, which is for accelerators, takes longest to compile and is never the fastest.
OMITTED = "parallel"


def preset_tasks(presets: Sequence[str], names: Sequence[str] | None = None) -> dict[str, list[str]]:
    """Return the tasks to measure with each preset: all, or those of the given names that have the preset."""
    known = {preset: [task for task in tasks_with(preset) if preset == "paper" or task in KINDS] for preset in presets}
    every = sorted({task for tasks in known.values() for task in tasks})
    for name in names or ():
        if name not in every:
            raise ValueError(f"--tasks: {unknown('task', name, every)}")
    return {preset: [task for task in names or tasks if task in tasks] for preset, tasks in known.items()}


class Training:
    """A model being trained under one backend. Each call is one step."""

    def __init__(self, step: TrainStep, optimizer: AdamW, state: TrainState, batch: Batch, backend: str | None):
        # A step donates the memory of its state, so each backend trains a copy.
        self._state = jax.tree.map(jnp.array, state)
        self._numbers, self._batch, self._key = (
            arrays_of(optimizer),
            jax.tree.map(jnp.asarray, batch),
            jax.random.key(0),
        )
        start = time.perf_counter()
        with under(backend):
            self._step = step.compiled.lower(self._numbers, self._state, self._batch, self._key).compile()
        self.compile_seconds = time.perf_counter() - start

    def __call__(self) -> Any:
        """Run one step and return the loss before it."""
        self._state, outcome = self._step(self._numbers, self._state, self._batch, self._key)
        return jax.block_until_ready(outcome.sums.values["loss"])

    @property
    def memory_mb(self) -> float | None:
        """The memory that the compiled program plans for arguments, results and temporary arrays, in MB."""
        planned = planned_bytes(self._step)
        return None if planned is None else planned / 2**20


def rows(
    tasks: Sequence[str],
    lengths: Sequence[int | None] = (None,),
    *,
    preset: str = "paper",
    runs: int = 10,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Row]:
    """Yield a row per task, length and backend. Ratios are relative to the first backend.

    Args:
        tasks: Tasks with this preset.
        lengths: Sequence lengths; None for the length that is typical of the task.
        preset: "paper" or "ours".
        runs: Repetitions, of which the fastest counts.
        say: Called with a line about what is being done.
    """
    for task in tasks:
        for length in lengths:
            yield from _rows_of(train_case(task, preset, length), runs, say)


def prepared(case: TrainCase) -> tuple[S7Model, TrainStep, AdamW, TrainState, Batch]:
    """Return the model of a case, and what `Training` trains it with."""
    model = S7Model(case.config, key=jax.random.key(0))
    layout, trained, carried = flatten(model)
    # A long schedule, so that the learning rate is constant during the timed steps.
    optimizer = AdamW.of(case.training, layout, 1_000_000)
    step = TrainStep(layout, case.objective, optimizer)
    state = TrainState(trained, carried, optimizer.init(trained), jnp.asarray(True))
    return model, step, optimizer, state, case.data()


def _rows_of(case: TrainCase, runs: int, say: Callable[[str], None]) -> Iterator[Row]:
    model, step, optimizer, state, batch = prepared(case)
    where = f"{case.task} ({case.preset}), {case.batch}×{case.length:,}"
    implementations = {}
    for backend in backend_names():
        if backend != OMITTED:
            say(f"{where}, compiling {backend}")
            implementations[backend] = Training(step, optimizer, state, batch, backend)
    say(f"{where}, comparing")
    require_agreement({name: implementation() for name, implementation in implementations.items()}, where, TOLERANCE)
    say(f"{where}, timing")
    before = sgemm_rate()
    seconds = best_of(runs, implementations)
    sgemm = max(before, sgemm_rate())
    multiply_adds = of_model(model, case.batch, case.length, training=True)
    about = {
        "benchmark": "train",
        "task": case.task,
        "preset": case.preset,
        "batch": case.batch,
        "length": case.length,
        "depth": case.config.depth,
        "width": case.config.width,
        "state": case.config.state,
        "parameters": model.parameter_count,
        "multiply_adds": multiply_adds,
        "sgemm_gflops": sgemm,
    }
    for name, took in seconds.items():
        yield about | {
            "implementation": name,
            "step_ms": took * 1e3,
            "step_ratio": took / next(iter(seconds.values())),
            "steps_per_s": 1 / took,
            "step_gflops": rate(multiply_adds, took),
            "step_of_sgemm": rate(multiply_adds, took) / sgemm,
            "compile_s": implementations[name].compile_seconds,
            "memory_mb": implementations[name].memory_mb,
        }
