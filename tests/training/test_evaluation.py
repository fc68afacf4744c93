"""Evaluation: every target has the same weight, regardless of its batch."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from s7.data import Buckets, Samples
from s7.training import CrossEntropy, MeanSquared
from s7.training.evaluation import confusion, evaluate, outputs_of, state_of
from s7.training.parameters import flatten
from s7.training.steps import Steps

RNG = np.random.default_rng(0)
SIZES = (3, 1, 4, 2, 4, 1, 2)


class Echo(eqx.Module):
    """Outputs its input times a factor: at every event, or their sum."""

    factor: Array = eqx.field(default_factory=lambda: jnp.asarray(0.5))
    per_step: bool = eqx.field(default=True, static=True)

    def __call__(self, inputs, dt=None, length=None, *, key=None):
        answers = self.factor * inputs
        real = jnp.arange(len(inputs)) < (len(inputs) if length is None else length)
        return answers if self.per_step else jnp.sum(jnp.where(real[:, None], answers, 0), 0)


def test_a_last_batch_that_is_not_full_does_not_bias_the_mean():
    inputs, targets = RNG.normal(size=(2, 5, 3, 2))
    samples = Samples.of(inputs, targets)
    mse = np.mean((0.5 * inputs - targets) ** 2)
    found = evaluate(Echo(), samples, MeanSquared(2, unit=4.0), Buckets(2))
    assert found == pytest.approx({"loss": mse / 4, "mse": mse, "rmse": np.sqrt(mse)}, rel=1e-6)


def test_the_mean_is_over_all_events_that_count_not_over_sequences():
    inputs, targets = ([RNG.normal(size=(n, 1)) for n in SIZES] for _ in range(2))
    counts = [RNG.random(n) < 0.6 for n in SIZES]
    errors = np.concatenate([(0.5 * u - q)[c] for u, q, c in zip(inputs, targets, counts, strict=True)])
    samples = Samples.of(inputs, targets, counts=counts)
    found = evaluate(Echo(), samples, MeanSquared(1), Buckets(3, buckets=2))
    assert found["mse"] == pytest.approx(np.mean(errors**2), rel=1e-6)


def test_accuracy_is_over_sequences():
    inputs = [RNG.normal(size=(n, 3)) for n in SIZES]
    answers = np.array([0.5 * u.sum(0) for u in inputs])
    labels = np.where(np.arange(7) < 3, answers.argmax(1), answers.argmin(1))
    samples = Samples.of(inputs, labels)
    found = evaluate(Echo(per_step=False), samples, CrossEntropy(3), Buckets(2, buckets=2))
    p = np.exp(answers)[np.arange(7), labels] / np.exp(answers).sum(1)
    assert found == pytest.approx({"loss": -np.log(p).mean(), "accuracy": 3 / 7}, rel=1e-6)


def test_invalid_targets_are_rejected_before_compilation():
    with pytest.raises(ValueError, match="label of sequence 1 is outside of 0 to 2"):
        evaluate(Echo(), Samples.of(np.zeros((2, 3, 1)), [0, 3]), CrossEntropy(3), Buckets(2))


@pytest.mark.parametrize("per_step", [True, False])
def test_outputs_are_in_the_order_of_the_samples_without_padding(per_step):
    inputs = [RNG.normal(size=(n, 2)) for n in SIZES]
    targets = [np.zeros((n, 2)) for n in SIZES] if per_step else np.zeros((len(SIZES), 2))
    outputs = outputs_of(Echo(per_step=per_step), Samples.of(inputs, targets, per_step=per_step), batch=3)
    for u, output in zip(inputs, outputs, strict=True):
        np.testing.assert_allclose(output, 0.5 * u if per_step else 0.5 * u.sum(0), rtol=1e-12)


def confused(model, samples, objective):
    """With batches that the samples do not fill."""
    return confusion(Steps(flatten(model)[0], objective), state_of(model), samples, Buckets(4), objective)


# Numbers of 0 to 255 are a usual type for labels.


@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_the_confusion_matrix_counts_true_and_predicted_classes(dtype):
    classes = 20
    right, taken = RNG.integers(10, classes, 30), RNG.integers(0, classes, 30)
    samples = Samples.of(np.eye(classes)[taken][:, None], right.astype(dtype), per_step=False)
    counted = np.zeros((classes, classes), int)
    np.add.at(counted, (right, taken), 1)
    found = confused(Echo(per_step=False), samples, CrossEntropy(classes))
    assert found.tolist() == counted.tolist()


def test_events_that_do_not_count_are_not_in_the_confusion_matrix():
    samples = Samples.of(np.eye(2)[[[0, 1, 1]]], np.array([[0, 0, 1]]), counts=np.array([[True, True, False]]))
    assert confused(Echo(), samples, CrossEntropy(2)).tolist() == [[1, 1], [0, 0]]
