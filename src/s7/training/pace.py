"""How many batches fit into a time: measured on this machine with this model, not guessed."""

import time
from collections import Counter

import jax
import jax.numpy as jnp

from s7.data.batching import Plan
from s7.training.evaluation import measure
from s7.training.loop import Trainer

# Timings of each shape of batch, once it is compiled; the middle one counts.
TIMES = 5


def steps_within(seconds: float, trainer: Trainer) -> int:
    """How many batches can be trained on in so many seconds, with a validation after each epoch; one at least.

    Compiling is not counted: what is compiled here is found again by the run that follows.
    """
    plans = trainer.loader.plans(0)
    shapes = Counter(plan.length for plan in plans)
    examples = {plan.length: plan for plan in plans}
    steps = sum(_seconds_of(trainer, examples[length]) * count for length, count in shapes.items())
    validation = _seconds_of_validation(trainer)
    epochs = seconds / (steps + validation)
    if epochs >= 1:
        return round(epochs * len(plans))
    return max(1, round((seconds - validation) / steps * len(plans)))


def _seconds_of(trainer: Trainer, plan: Plan) -> float:
    batch = trainer.loader.batch(plan, 0)
    key = jax.random.key(0)
    # The step takes its state away, so it works on a copy.
    state = jax.tree.map(jnp.array, trainer.state)
    times = []
    for _ in range(1 + TIMES):
        began = time.perf_counter()
        state, outcome = trainer.steps.train(state, batch, key)
        jax.block_until_ready(outcome)
        times.append(time.perf_counter() - began)
    return sorted(times[1:])[TIMES // 2]


def _seconds_of_validation(trainer: Trainer) -> float:
    times = []
    for _ in range(2):
        began = time.perf_counter()
        measure(trainer.steps, trainer.state, trainer.valid, trainer.batching, trainer.objective)
        times.append(time.perf_counter() - began)
    return min(times)
