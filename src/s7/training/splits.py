"""Preparation of the arguments of `s7.train`: checked samples, an objective, and a model with classes and time unit.

Everything that a model cannot be trained on is rejected here, on the host, before the first step. Messages name the
split, the sequence and the event.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Int

from s7.data.batching import Buckets
from s7.data.samples import Samples
from s7.model import S7Model
from s7.standardization import mean_gap
from s7.training.labels import are_indices, are_one_hot, classes_of, encode, flat_labels, from_one_hot, shown
from s7.training.objectives import CrossEntropy, GaussianNLL, MeanSquared, Objective
from s7.training.steps import outputs


class Prepared(NamedTuple):
    """The prepared inputs of a training run. `splits` has train and valid, and test if there is one."""

    model: Any
    splits: dict[str, Samples]
    objective: Objective


def prepare(
    model: Any,
    train: Any,
    valid: Any,
    test: Any = None,
    *,
    objective: Objective | None = None,
    seed: int = 0,
) -> Prepared:
    """Checks data and model, and makes them ready for training.

    Args:
        model: An S7Model, or any Equinox module that is called as model(inputs, dt, length, key=key).
        train: `s7.Samples`, or a tuple (inputs, targets) or (inputs, targets, dt).
        valid: As `train`, or a fraction of the training data to set aside, stratified by class.
        test: As `train`, or None.
        objective: The loss. By default cross-entropy for labels and the mean squared error for other numbers.
        seed: The seed of the random choice of validation data.

    Returns:
        The model with class labels and a unit of time, the splits with class indices as targets, and the objective.
    """
    if not isinstance(model, eqx.Module):
        raise TypeError(f"model: expected an S7Model or another Equinox module, not a {type(model).__name__}")
    given = {"train": train, "test": test}
    if valid is None:
        raise ValueError("valid is None; pass samples, or a fraction of the training data such as valid=0.1")
    if not _is_fraction(valid):
        given = {"train": train, "valid": valid, "test": test}
    splits = {name: as_samples(data, name, model) for name, data in given.items() if data is not None}
    _check_gaps(splits)
    for samples in splits.values():
        check_inputs(model, samples)
    model, splits, objective = with_objective(model, splits, objective)
    if _is_fraction(valid):
        kept, held_out = hold_out(splits["train"], float(valid), seed)
        splits |= {"train": kept, "valid": held_out}
    _check_targets(model, objective, splits)
    order = [name for name in ("train", "valid", "test") if name in splits]
    return Prepared(_with_time_unit(model, splits["train"]), {name: splits[name] for name in order}, objective)


def as_samples(data: Any, name: str, model: Any = None) -> Samples:
    """Convert data to samples of this name. If shapes are ambiguous, the model's head decides."""
    if isinstance(data, Samples):
        samples = replace(data, name=name)
        samples.check()
        return samples
    if not isinstance(data, tuple) or len(data) not in (2, 3):
        raise TypeError(f"{name}: expected s7.Samples or a tuple (inputs, targets) or (inputs, targets, dt)")
    inputs, targets, *dt = data
    per_step, documents = None, 1
    if isinstance(model, S7Model):
        head = model.config.head
        documents = head.documents
        # A row with one number per output is one target, even if sequences happen to have the same length.
        if not head.per_step and {np.shape(target) for target in targets} == {(head.outputs,)}:
            per_step = False
    return Samples.of(inputs, targets, *dt, per_step=per_step, name=name, documents=documents)


def check_inputs(model: Any, samples: Samples) -> None:
    """Raises an error unless the model can read these inputs."""
    if not isinstance(model, S7Model):
        return
    head, encoder = model.config.head, model.config.encoder
    if samples.documents != head.documents:
        raise ValueError(f"{samples.name}: {samples.documents} sequences per sample, the model reads {head.documents}")
    if samples.event_shape != encoder.event_shape:
        raise ValueError(
            f"{samples.name}: an event has shape {samples.event_shape}, the encoder reads {encoder.event_shape}"
        )
    tokens = getattr(encoder, "size", None)
    if tokens is None:
        return
    if samples.inputs.dtype.kind not in "iu":
        raise TypeError(f"{samples.name}: tokens must be whole numbers, not {samples.inputs.dtype}")
    bad = (samples.inputs < 0) | (samples.inputs >= tokens)
    samples.refuse(bad, "token", samples.inputs, f"outside of 0 to {tokens - 1}")


def hold_out(samples: Samples, fraction: float, seed: int) -> tuple[Samples, Samples]:
    """Splits samples at random into training and validation samples.

    Each class keeps its share in both, and at least one sample in both if it has two. Without labels per sequence the
    choice is random.
    """
    rng = np.random.default_rng(seed)
    labels = samples.targets
    if samples.per_step or labels.dtype.kind not in "iu" or labels.ndim != 1:
        labels = np.zeros(len(samples), int)
    chosen = np.concatenate([_share(rng.permutation(np.flatnonzero(labels == n)), fraction) for n in np.unique(labels)])
    if not len(chosen):
        raise ValueError(f"valid={fraction}: no class has two sequences, one of which could be held out; pass samples")
    mask = np.zeros(len(samples), bool)
    mask[chosen] = True
    return samples.take(np.flatnonzero(~mask), "train"), samples.take(np.flatnonzero(mask), "valid")


def _share(members: Int[np.ndarray, " n"], fraction: float) -> Int[np.ndarray, " m"]:
    if len(members) < 2:
        return members[:0]
    return members[: min(max(round(fraction * len(members)), 1), len(members) - 1)]


def _is_fraction(valid: Any) -> bool:
    if isinstance(valid, bool) or not isinstance(valid, int | float | np.number):
        return False
    if not 0 < valid < 1:
        raise ValueError(f"valid={valid} must be samples or a fraction of the training data between 0 and 1")
    return True


def _check_gaps(splits: Mapping[str, Samples]) -> None:
    with_gaps = {name: samples.dt is not None for name, samples in splits.items()}
    if len(set(with_gaps.values())) > 1:
        has = next(name for name, gaps in with_gaps.items() if gaps)
        lacks = next(name for name, gaps in with_gaps.items() if not gaps)
        raise ValueError(f"{has} has gaps (dt) but {lacks} has none; pass gaps for all splits or for none")


def with_objective(
    model: Any, splits: Mapping[str, Samples], objective: Objective | None
) -> tuple[Any, dict[str, Samples], Objective]:
    """The model with its classes, the splits with targets as the objective reads them, and the objective."""
    splits = {name: flat_labels(samples) for name, samples in splits.items()}
    train = splits["train"]
    count = outputs_of(model, train)
    if isinstance(objective, MeanSquared | GaussianNLL):
        return model, {name: _as_numbers(samples) for name, samples in splits.items()}, objective
    if objective is not None and not isinstance(objective, CrossEntropy):
        return model, splits, objective
    if are_one_hot(train, count):
        splits = {name: from_one_hot(samples, count) for name, samples in splits.items()}
    elif objective is None and train.targets.dtype.kind == "f":
        _ask_about_whole_numbers(train)
        size = math.prod(train.targets.shape[1:])
        return model, dict(splits), MeanSquared(size, unit=float(np.mean(np.square(train.targets, dtype=float))) or 1.0)
    labels = _classes(model, splits["train"], count, objective)
    if isinstance(model, S7Model):
        model = model.with_classes(labels)
    splits = {name: encode(samples, labels) for name, samples in splits.items()}
    if objective is None:
        objective = CrossEntropy(count)
    if not objective.names and not are_indices(labels):
        objective = replace(objective, names=tuple(map(str, labels)))
    return model, splits, objective


def outputs_of(model: Any, samples: Samples) -> int:
    """Returns how many numbers the model gives for each target."""
    if isinstance(model, S7Model):
        return model.config.head.outputs
    batching = Buckets(1, buckets=1)
    (batch,) = batching.batches(samples, batching.in_order(samples.take([0])))
    # Targets may be strings, which JAX does not take.
    return int(eqx.filter_eval_shape(outputs, model, batch._replace(targets=batch.weight)).shape[-1])


def _classes(model: Any, train: Samples, count: int, objective: CrossEntropy | None) -> tuple[Any, ...]:
    """The labels of the model's outputs: its own, those of the objective, or those of the training data."""
    kind, shape = train.targets.dtype.kind, train.targets.shape[1:]
    if kind == "f":
        train.require_labels(count)
    if shape:
        raise ValueError(
            f"{train.name}: targets of shape {shape} are neither labels nor one-hot rows of {count}; "
            "for regression pass floats"
        )
    if isinstance(model, S7Model) and model.config.classes:
        return model.config.classes
    if kind == "U" and not isinstance(model, S7Model):
        raise TypeError(f"{train.name}: {type(model).__name__} cannot store class names; pass class indices")
    if kind not in "bU":
        if count == 1:
            raise ValueError(
                f"{train.name}: targets are whole numbers and the model has 1 output: for classification use one "
                "output per class, for regression pass y.astype(float) and objective=s7.training.MeanSquared(1)"
            )
        return objective.names if objective is not None and objective.names else tuple(range(count))
    classes = classes_of(train)
    if len(classes) != count:
        raise ValueError(
            f"{train.name}: {len(classes)} classes ({shown(classes)}) but the model has {count} outputs; "
            f"use outputs={len(classes)}, or name all classes with model.with_classes(labels)"
        )
    return classes


def _ask_about_whole_numbers(train: Samples) -> None:
    if train.targets.shape[1:] == (1,) and (train.targets == np.round(train.targets)).all():
        raise ValueError(
            f"{train.name}: targets are floats but whole numbers. Is this classification or regression? Pass "
            "y.astype(int) for classification, or objective=s7.training.MeanSquared(1) for regression"
        )


def _as_numbers(samples: Samples) -> Samples:
    """Integer targets as floats: with this objective they are numbers to predict."""
    targets = samples.targets
    if targets.dtype.kind not in "iuf":
        raise TypeError(f"{samples.name}: targets hold {targets.dtype}, expected numbers for regression")
    if targets.dtype.kind == "f":
        return samples
    return replace(samples, targets=targets.astype(np.float32).reshape(len(targets), -1))


def _check_targets(model: Any, objective: Objective, splits: Mapping[str, Samples]) -> None:
    count = outputs_of(model, splits["train"])
    if count != objective.outputs:
        raise ValueError(f"the model has {count} outputs, {type(objective).__name__} needs {objective.outputs}")
    for samples in splits.values():
        if isinstance(model, S7Model):
            _check_head(model, samples)
        objective.check(samples)


def _check_head(model: S7Model, samples: Samples) -> None:
    head = model.config.head
    if head.per_step != samples.per_step:
        mine, theirs = ("step", "sequence") if head.per_step else ("sequence", "step")
        kind = type(head).__name__
        raise ValueError(f"{samples.name}: targets are one per {theirs}, but {kind} gives one output per {mine}")
    if head.per_step and model.stride > 1:
        raise ValueError(f"targets per step need a model without pooling; this one pools by {model.stride}")


def _with_time_unit(model: Any, train: Samples) -> Any:
    if isinstance(model, S7Model) and model.config.time_unit is None and train.dt is not None:
        return model.with_time_unit(mean_gap(train.dt, train.offsets))
    require_gaps(model, train)
    return model


def require_gaps(model: Any, samples: Samples) -> None:
    """Raise ValueError if the model has a unit of time, so that it reads gaps, but the samples have none."""
    if not isinstance(model, S7Model) or samples.dt is not None:
        return
    config = model.config
    if config.time_unit is not None and config.dt is None and config.gaps != "ignored":
        raise ValueError(f"{samples.name}: the model has a unit of time, so it reads gaps; pass dt")
