"""How many batches fit into a given time, measured on this machine with this model."""

import time
from collections.abc import Callable
from contextlib import closing

import jax
import jax.numpy as jnp
import numpy as np

from s7.data.batching import Plan
from s7.data.loader import AHEAD
from s7.machine import working_clock
from s7.training.evaluation import measure
from s7.training.steps import arrays_of
from s7.training.trainer import Trainer

# The number of batches that are timed.
TIMED = 16


def steps_within(seconds: float, trainer: Trainer) -> int:
    """How many batches can be trained on in the given time, with a validation after each epoch; at least one.

    Compilation is not counted and, with one process of one thread, neither is the time that other programs take. The
    trainer is left as it was, except that its programs are compiled. All processes of a group measure together, and the
    first one's result counts.
    """
    plans = trainer.loader.plans(0)
    epoch = _seconds_of_batch(trainer, plans) * len(plans)
    validation = _seconds_of_validation(trainer)
    epochs = seconds / (epoch + validation)
    steps = epochs * len(plans) if epochs >= 1 else (seconds - validation) / epoch * len(plans)
    return trainer.group.from_first(max(1, round(steps)))


def _seconds_of_batch(trainer: Trainer, plans: list[Plan]) -> float:
    """The mean over a few batches, with the batches made by another thread at the same time, as in training."""
    key, numbers = jax.random.key(0), arrays_of(trainer.optimizer)
    # The step consumes its state, so it works on a copy.
    state = jax.tree.map(jnp.array, trainer.state)
    for plan in {plan.length: plan for plan in plans}.values():
        state, _ = trainer.train_step.train(numbers, state, trainer.loader.batch(plan, 0), key)
    jax.block_until_ready(state)
    clock = _clock(trainer)
    # Time only while batches are made as fast as they are used: not the first ones, which were made ahead, and not
    # after the last one is made.
    stretch = _short_epoch(plans, TIMED + 2 * AHEAD)
    with closing(trainer.loader.batches(stretch, 0)) as batches:
        for number in range(TIMED + AHEAD):
            if number == AHEAD:
                began = clock()
            state, outcome = trainer.train_step.train(numbers, state, next(batches), key)
            jax.block_until_ready(outcome)
    return (clock() - began) / TIMED


def _clock(trainer: Trainer) -> Callable[[], float]:
    # Processes wait for each other, which takes no processor time.
    return working_clock() if trainer.group.count == 1 else time.perf_counter


def _short_epoch(plans: list[Plan], count: int) -> list[Plan]:
    """A random selection of the plans, with all lengths in their proportion."""
    by_length = sorted(plans, key=lambda plan: plan.length)
    places = np.random.default_rng(0).permutation(count) * len(plans) // count
    return [by_length[place] for place in places]


def _seconds_of_validation(trainer: Trainer) -> float:
    times, clock = [], _clock(trainer)
    for _ in range(2):
        began = clock()
        measure(trainer.steps, trainer.validated, trainer.valid, trainer.batching, trainer.objective, trainer.group)
        times.append(clock() - began)
    return min(times)
