"""Complete training steps (forward, backward and optimizer) of the models in the paper's table under each backend.

The step is that of `s7 train`. The models have a linear encoder for random inputs and a classification head instead of
the task's own. The batch size is the preset's, limited to about `STEPS` events per batch.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from s7.bench.cases import INPUTS, OUTPUTS, paper_config
from s7.bench.implementations import backend_names, require_agreement, under
from s7.bench.measures import Row
from s7.bench.timing import best_of
from s7.data.batching import Batch
from s7.model import S7Model
from s7.presets import preset
from s7.settings import build
from s7.training.config import TrainConfig
from s7.training.objectives import CrossEntropy
from s7.training.optimizer import AdamW
from s7.training.parameters import flatten
from s7.training.steps import TrainState, TrainStep, arrays_of

LENGTH = 1024
STEPS = 16_384
# Relative difference between losses: six untrained blocks amplify rounding errors.
TOLERANCE = 0.05


class Training:
    """A model being trained under one backend. Each call is one step."""

    def __init__(self, step: TrainStep, optimizer: AdamW, state: TrainState, batch: Batch, backend: str):
        # A step donates the memory of its state, so each backend trains a copy.
        self._state = jax.tree.map(jnp.array, state)
        self._numbers, self._batch, self._key = arrays_of(optimizer), batch, jax.random.key(0)
        start = time.perf_counter()
        with under(backend):
            self._step = step.train.lower(self._numbers, self._state, batch, self._key).compile()
        self.compile_seconds = time.perf_counter() - start

    def __call__(self) -> Any:
        """Run one step and return the loss before it."""
        self._state, outcome = self._step(self._numbers, self._state, self._batch, self._key)
        return jax.block_until_ready(outcome.sums.values["loss"])


def rows(
    tasks: Sequence[str],
    lengths: Sequence[int] = (LENGTH,),
    *,
    runs: int = 10,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Row]:
    """Yield a row per task, length and backend. Ratios are relative to the first backend."""
    for task in tasks:
        config = paper_config(task)
        training = build(TrainConfig, preset(task, "paper")["train"], "train")
        model = S7Model(config, key=jax.random.key(0))
        layout, trained, carried = flatten(model)
        # A long schedule, so that the learning rate is constant during the timed steps.
        optimizer = AdamW.of(training, layout, 1_000_000)
        step = TrainStep(layout, CrossEntropy(OUTPUTS), optimizer)
        state = TrainState(trained, carried, optimizer.init(trained), jnp.asarray(True))
        for length in lengths:
            size = min(training.batch_size, max(1, STEPS // length))
            batch = _batch(size, length)
            where = f"{task}, {size}×{length:,}"
            implementations = {}
            for backend in backend_names():
                say(f"{where}, compiling {backend}")
                implementations[backend] = Training(step, optimizer, state, batch, backend)
            say(f"{where}, comparing")
            require_agreement(
                {name: implementation() for name, implementation in implementations.items()}, where, TOLERANCE
            )
            say(f"{where}, timing")
            seconds = best_of(runs, implementations)
            about = {
                "benchmark": "train",
                "task": task,
                "batch": size,
                "length": length,
                "depth": config.depth,
                "width": config.width,
                "state": config.state,
                "parameters": model.parameter_count,
            }
            for name, took in seconds.items():
                yield about | {
                    "implementation": name,
                    "step_ms": took * 1e3,
                    "step_ratio": took / next(iter(seconds.values())),
                    "steps_per_s": 1 / took,
                    "compile_s": implementations[name].compile_seconds,
                }


def _batch(size: int, length: int) -> Batch:
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((size, length, INPUTS), np.float32)
    return Batch(inputs, None, None, None, rng.integers(0, OUTPUTS, size), np.ones(size, np.float32))
