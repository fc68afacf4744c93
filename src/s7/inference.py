"""Predictions and metrics for sequences of any lengths.

Sequences are padded to a few rounded lengths, so that few programs are compiled. A program is compiled once per
process for each structure of a model, not once per call.
"""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Shaped

from s7.data.batching import Batch, Buckets, Plan
from s7.data.samples import Samples
from s7.model import S7Model
from s7.training.objectives import MeanSquared, Objective
from s7.training.splits import as_samples, check_inputs, outputs_of, require_gaps, with_objective
from s7.training.steps import outputs

# Events per batch, padding included: enough to keep the cores busy, little enough to fit into the caches.
EVENTS = 16_384
SHORTEST = 16

_outputs = eqx.filter_jit(outputs)


def predict(model: Any, inputs: Any, dt: Any = None) -> Any:
    """Predicts a label for each sequence, or numbers.

    Args:
        model: An S7Model, or any Equinox module that `s7.train` accepts.
        inputs: Sequences (N, L, ...), a list of N arrays or data frames (L_n, ...), or `s7.Samples`.
        dt: The time gaps before the events, (N, L) or a list of N arrays; None for regular time.

    Returns:
        For a model with classes, the predicted labels (N,), in the type of the labels that it was trained with. For
        other models the outputs, (N, outputs), or (N,) if there is one output. With a head per step there is a
        prediction for each step: an array (N, L, ...) for sequences of one length, else a list of N arrays.

    Examples:
        >>> import jax, numpy as np, s7
        >>> inputs = [np.zeros((5, 3)), np.ones((8, 3))]  # two sequences of 3 features
        >>> model = s7.S7Model(encoder=s7.LinearEncoder(3), head=s7.Mean(2), width=8, state=4, key=jax.random.key(0))
        >>> s7.predict(model, inputs).shape  # one row of outputs per sequence
        (2, 2)
        >>> set(s7.predict(model.with_classes(["left", "right"]), inputs).tolist()) <= {"left", "right"}
        True
    """
    found = _run(model, _as_inputs(model, inputs, dt))
    labels = _labels(model)
    return _each(_squeezed if labels is None else lambda row: labels[row.argmax(-1)], found)


def predict_proba(model: Any, inputs: Any, dt: Any = None) -> Any:
    """Predicts the probability of each class.

    Args:
        model: A model with classes, or any Equinox module whose outputs are logits.
        inputs: As for `predict`.
        dt: As for `predict`.

    Returns:
        Probabilities (N, classes), in the order of `model.config.classes`. With a head per step, as for `predict`.
    """
    if isinstance(model, S7Model) and not model.config.classes:
        raise ValueError(
            "the model has no classes, so its outputs are not probabilities; "
            "train it on labels, or name its classes with model.with_classes(labels)"
        )
    return _each(_softmax, _run(model, _as_inputs(model, inputs, dt)))


def evaluate(model: Any, data: Any, objective: Objective | None = None) -> dict[str, float]:
    """Computes the loss and the metrics of a model.

    Args:
        model: An S7Model, or any Equinox module that `s7.train` accepts.
        data: `s7.Samples`, or a tuple (inputs, targets) or (inputs, targets, dt). Labels are those of the model.
        objective: The loss. By default cross-entropy for labels and the mean squared error for other numbers.

    Returns:
        `loss` and `accuracy`, or `loss`, `mse` and `rmse`, or the metrics of the objective.
    """
    samples = as_samples(data, "data", model)
    _check(model, samples)
    if objective is None and samples.targets.dtype.kind == "f" and _labels(model) is None:
        objective = MeanSquared(outputs_of(model, samples))
    _, splits, objective = with_objective(model, {"train": samples}, objective)
    samples = splits["train"]
    objective.check(samples)
    found = _run(model, samples)
    found = np.concatenate(found) if samples.per_step else found
    weight = np.ones(len(found)) if samples.counts is None else samples.counts.astype(float)
    values = objective.values(jnp.asarray(found), jnp.asarray(samples.targets))
    counted = {name: np.asarray(value, np.float64)[weight > 0] for name, value in values.items()}
    return objective.summary({name: float(value.mean()) for name, value in counted.items()})


def outputs_for(model: Any, samples: Samples) -> Any:
    """Compute the outputs of a model as they are, for samples whose targets are not read.

    Args:
        model: An S7Model, or any Equinox module that `s7.train` accepts.
        samples: The sequences.

    Returns:
        An array (N, outputs), or a list of N arrays (L_n, outputs) with a head per step.
    """
    _check(model, samples)
    return _run(model, samples)


def batches_of(samples: Samples) -> Iterator[tuple[Int[np.ndarray, " M"], Batch]]:
    """Batches of all samples, with the indices of the samples in each. Rows that repeat a sample come last."""
    for plan, rows in _plans(samples.lengths):
        yield np.concatenate(plan.rows), Buckets(rows).assemble(samples, plan)


def _as_inputs(model: Any, inputs: Any, dt: Any) -> Samples:
    """The inputs as checked samples with placeholder targets."""
    if isinstance(inputs, Samples):
        if dt is not None:
            raise ValueError("dt: the samples have their own gaps; omit dt")
        samples = inputs
    else:
        documents = 1
        if isinstance(model, S7Model):
            documents = model.config.head.documents
            shape = model.config.encoder.event_shape
            if np.shape(inputs[0] if len(inputs) else ()) == shape and not (shape == () and np.ndim(inputs[0])):
                raise ValueError("inputs are one sequence, expected several; pass [inputs], and dt as [dt]")
        targets = np.zeros(len(inputs) // documents, int)
        samples = Samples.of(inputs, targets, dt, per_step=False, name="inputs", documents=documents)
    _check(model, samples)
    return samples


def _check(model: Any, samples: Samples) -> None:
    check_inputs(model, samples)
    require_gaps(model, samples)


def _labels(model: Any) -> Shaped[np.ndarray, " K"] | None:
    """The labels of the model's outputs, in their own type; None for a model without classes."""
    classes = model.config.classes if isinstance(model, S7Model) else ()
    if not classes:
        return None
    return np.array(classes, None if len({type(label) for label in classes}) == 1 else object)


def _run(model: Any, samples: Samples) -> Any:
    """The outputs in the order of the samples, without padding: (N, O), or a list of (L_n, O) with a head per step."""
    pending = []
    for members, batch in batches_of(samples):
        # Targets are not read; as floats of one shape they lead to no program of their own.
        unread = np.zeros(len(batch.inputs), np.float32)
        pending.append((members, _outputs(model, batch._replace(targets=unread, weight=unread))))
    if samples.per_step or (isinstance(model, S7Model) and model.config.head.per_step):
        return _steps(pending, -(-samples.lengths // getattr(model, "stride", 1)))
    found = np.empty((len(samples), *pending[0][1].shape[1:]), pending[0][1].dtype)
    for members, computed in pending:
        found[members] = np.asarray(computed)[: len(members)]
    return found


def _steps(pending: list[tuple[np.ndarray, Any]], lengths: Int[np.ndarray, " N"]) -> list[Float[np.ndarray, "L O"]]:
    found: list[Any] = [None] * len(lengths)
    for members, computed in pending:
        for n, row in zip(members.tolist(), np.asarray(computed), strict=False):
            found[n] = row[: lengths[n]]
    return found


def _plans(lengths: Int[np.ndarray, " N"]) -> list[tuple[Plan, int]]:
    """Batches of sequences of similar length, each with its number of rows."""
    different, which = np.unique(lengths, return_inverse=True)
    bounds = np.array([rounded_length(length) for length in different.tolist()])[which]
    plans = []
    for bound in np.unique(bounds).tolist():
        members = np.flatnonzero(bounds == bound)
        rows = _row_count(len(members), max(1, EVENTS // bound))
        for start in range(0, len(members), rows):
            chosen = members[start : start + rows]
            plans.append((Plan([chosen[n : n + 1] for n in range(len(chosen))], bound), rows))
    return plans


def rounded_length(length: int) -> int:
    """The next of 16, 24, 32, 48, 64, 96, ...: at most half of a row is padding, unless it is very short."""
    power = SHORTEST
    while power < length:
        power *= 2
    return power * 3 // 4 if power > SHORTEST and length <= power * 3 // 4 else power


def _row_count(sequences: int, most: int) -> int:
    """Rows of a batch: all that fit, or of few sequences a power of four."""
    rows = 1
    while rows < min(sequences, most):
        rows *= 4
    return min(rows, most)


def _each(function: Callable[[np.ndarray], np.ndarray], found: Any) -> Any:
    """The function of all outputs: of one array, or of the array of each sequence, joined if they have one length."""
    if isinstance(found, np.ndarray):
        return function(found)
    rows = [function(row) for row in found]
    return np.stack(rows) if len({len(row) for row in rows}) == 1 else rows


def _softmax(logits: Float[np.ndarray, "*T K"]) -> Float[np.ndarray, "*T K"]:
    return np.asarray(jax.nn.softmax(logits, -1))


def _squeezed(found: Float[np.ndarray, "*T O"]) -> Float[np.ndarray, "..."]:
    return found[..., 0] if found.shape[-1] == 1 else found
