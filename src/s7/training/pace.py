"""How many batches fit into a time: measured on this machine with this model, not guessed."""

import time
from contextlib import closing

import jax
import jax.numpy as jnp
import numpy as np

from s7.data.batching import Plan
from s7.data.loader import AHEAD
from s7.training.evaluation import measure
from s7.training.loop import Trainer

# Batches that are timed.
TIMED = 16


def steps_within(seconds: float, trainer: Trainer) -> int:
    """How many batches can be made and trained on in so many seconds, with a validation after each epoch; one at least.

    Compiling is not counted: the trainer that follows can have these `steps`, which are compiled.
    """
    plans = trainer.loader.plans(0)
    epoch = _seconds_of_batch(trainer, plans) * len(plans)
    validation = _seconds_of_validation(trainer)
    epochs = seconds / (epoch + validation)
    if epochs >= 1:
        return round(epochs * len(plans))
    return max(1, round((seconds - validation) / epoch * len(plans)))


def _seconds_of_batch(trainer: Trainer, plans: list[Plan]) -> float:
    """The mean over a stretch of training as it will be: batches are made by another thread at the same time."""
    key = jax.random.key(0)
    # The step takes its state away, so it works on a copy.
    state = jax.tree.map(jnp.array, trainer.state)
    for plan in {plan.length: plan for plan in plans}.values():
        state, _ = trainer.steps.train(trainer.optimizer, state, trainer.loader.batch(plan, 0), key)
    jax.block_until_ready(state)
    # The clock runs when as many batches are made as are used: not for the first ones, and not after the last is made.
    stretch = _short_epoch(plans, TIMED + 2 * AHEAD)
    with closing(trainer.loader.batches(stretch, 0)) as batches:
        for number in range(TIMED + AHEAD):
            if number == AHEAD:
                began = time.perf_counter()
            state, outcome = trainer.steps.train(trainer.optimizer, state, next(batches), key)
            jax.block_until_ready(outcome)
    return (time.perf_counter() - began) / TIMED


def _short_epoch(plans: list[Plan], count: int) -> list[Plan]:
    """So many of the plans, of all lengths in their proportion, mixed."""
    by_length = sorted(plans, key=lambda plan: plan.length)
    places = np.random.default_rng(0).permutation(count) * len(plans) // count
    return [by_length[place] for place in places]


def _seconds_of_validation(trainer: Trainer) -> float:
    times = []
    for _ in range(2):
        began = time.perf_counter()
        measure(trainer.steps, trainer.state, trainer.valid, trainer.batching, trainer.objective)
        times.append(time.perf_counter() - began)
    return min(times)
