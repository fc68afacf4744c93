"""Evaluation: every target has the same weight, regardless of its batch."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from s7.data.batching import Batching, Buckets
from s7.data.samples import Samples
from s7.training.group import ALONE, Group
from s7.training.objectives import CrossEntropy, Objective
from s7.training.parameters import flatten
from s7.training.steps import Steps, TrainState, outputs


def measure(
    steps: Steps,
    state: TrainState,
    samples: Samples,
    batching: Batching,
    objective: Objective,
    group: Group = ALONE,
) -> dict[str, float]:
    """Compute the loss and the metrics of the model in this state; each process of a group evaluates its share."""
    sums: dict[str, float] = {}
    count = 0.0
    for batch in batching.batches(samples, batching.in_order(samples), group.share):
        _, part = steps.evaluate(state, batch)
        count += float(part.weight)
        for name, value in part.values.items():
            sums[name] = sums.get(name, 0.0) + float(value)
    count, *totals = group.total(np.array([count, *sums.values()])).tolist()
    return objective.summary({name: value / count for name, value in zip(sums, totals, strict=True)})


def evaluate(model: Any, samples: Samples, objective: Objective, batching: Batching) -> dict[str, float]:
    """Compute the loss and the metrics of a model.

    Args:
        model: An S7Model, or any Equinox module that `s7.train` accepts.
        samples: The sequences and their targets.
        objective: The loss and the metrics.
        batching: How sequences are divided into batches.
    """
    objective.check(samples)
    return measure(Steps(flatten(model)[0], objective), state_of(model), samples, batching, objective)


def state_of(model: Any) -> TrainState:
    """The state of a model that is not in training."""
    _, trained, carried = flatten(model)
    return TrainState(trained, carried, None, jnp.asarray(True))


def outputs_of(model: Any, samples: Samples, batch: int = 16) -> list[np.ndarray]:
    """The outputs for each sample, in order and without padding."""
    buckets = Buckets(min(batch, len(samples)), buckets=1)
    run = eqx.filter_jit(outputs)
    found: dict[int, np.ndarray] = {}
    for plan in buckets.in_order(samples):
        rows = np.asarray(run(model, buckets.assemble(samples, plan)))
        for row, members in zip(rows, plan.rows, strict=False):
            n = int(members[0])
            found[n] = row[: samples.lengths[n]] if samples.per_step else row
    return [found[n] for n in range(len(samples))]


def confusion(
    steps: Steps,
    state: TrainState,
    samples: Samples,
    batching: Batching,
    objective: CrossEntropy,
    group: Group = ALONE,
) -> Int[np.ndarray, "K K"]:
    """Counts with true classes as rows and predicted classes as columns."""
    found = np.zeros(objective.classes**2, np.int64)
    for batch in batching.batches(samples, batching.in_order(samples), group.share):
        outputs, _ = steps.evaluate(state, batch)
        counts = batch.weight > 0
        predicted = np.asarray(objective.prediction(outputs))[counts]
        pairs = batch.targets[counts].astype(np.int64) * objective.classes + predicted
        found += np.bincount(pairs, minlength=len(found))
    return group.total(found).reshape(objective.classes, objective.classes)
