"""Weights of classes in the loss."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from s7.data.samples import Samples
from s7.training.objectives import CrossEntropy, Objective


def with_class_weights(
    objective: Objective,
    weights: str | Sequence[float] | Mapping[Any, float] | None,
    train: Samples,
    model: Any = None,
) -> Objective:
    """The objective with weights for its classes.

    Args:
        weights: "balanced", a sequence in the order of the classes, a dictionary by class label, or None.
        train: the training samples, whose labels "balanced" counts.
        model: a model with class labels in its configuration, which a dictionary may use.
    """
    if weights is None:
        return objective
    if not isinstance(objective, CrossEntropy):
        raise ValueError(f"class_weights: {type(objective).__name__} has no classes; they need classification")
    if isinstance(weights, str):
        if weights != "balanced":
            raise ValueError(f'class_weights={weights!r}: expected "balanced", a sequence or a dictionary')
        found = _balanced(objective, train)
    elif isinstance(weights, Mapping):
        found = _by_label(objective, weights, getattr(getattr(model, "config", None), "classes", ()))
    else:
        if np.ndim(weights) != 1:
            raise ValueError(f'class_weights={weights!r}: expected "balanced", a sequence or a dictionary')
        found = tuple(float(weight) for weight in weights)
        if len(found) != objective.classes:
            raise ValueError(f"class_weights: {len(found)} weights for {objective.classes} classes")
    return replace(objective, weights=found)


def _balanced(objective: CrossEntropy, train: Samples) -> tuple[float, ...]:
    """N / (K n_k): every class that occurs has the same total weight."""
    labels = train.targets if not train.per_step or train.counts is None else train.targets[train.counts]
    counts = np.bincount(labels.astype(np.int64).ravel(), minlength=objective.classes)
    return tuple(float(counts.sum() / (objective.classes * max(count, 1))) for count in counts)


def _by_label(objective: CrossEntropy, weights: Mapping[Any, float], labels: Sequence[Any]) -> tuple[float, ...]:
    labels = tuple(labels) or objective.names or tuple(range(objective.classes))
    for label in weights:
        if label not in labels:
            raise ValueError(f"class_weights: {label!r} is not a class; classes are {', '.join(map(repr, labels))}")
    for label in labels:
        if label not in weights:
            raise ValueError(f"class_weights: no weight for class {label!r}")
    return tuple(float(weights[label]) for label in labels)
