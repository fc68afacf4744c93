"""Losses and metrics are those of the formulas, written out in NumPy and SciPy."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import norm

from s7.data import Samples
from s7.training import CrossEntropy, GaussianNLL, MeanSquared

RNG = np.random.default_rng(0)


def values_of(objective, outputs, targets):
    return {name: np.asarray(value) for name, value in objective.values(outputs, targets).items()}


def assert_values(objective, outputs, targets, **expected):
    found = values_of(objective, outputs, targets)
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert found[name].shape == value.shape
        np.testing.assert_allclose(found[name], value, rtol=1e-12)


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_cross_entropy_is_minus_log_p_of_the_right_class(shape):
    outputs, targets = 3 * RNG.normal(size=(*shape, 4)), RNG.integers(0, 4, shape)
    right = np.take_along_axis(log_softmax(outputs, -1), targets[..., None], -1)[..., 0]
    hit = (outputs.argmax(-1) == targets).astype(float)
    assert_values(CrossEntropy(4), outputs, targets, loss=-right, accuracy=hit)
    assert np.asarray(CrossEntropy(4).prediction(jnp.asarray(outputs))).tolist() == outputs.argmax(-1).tolist()


def test_cross_entropy_is_finite_for_large_outputs_and_accepts_any_integer_type():
    found = values_of(CrossEntropy(2), np.array([[1e4, -1e4]] * 2), np.array([0, 1], np.uint8))
    assert found["loss"].tolist() == [0, 2e4]
    assert found["accuracy"].tolist() == [1, 0]


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_the_mean_square_is_over_the_numbers_of_a_target_and_the_loss_in_its_unit(shape):
    outputs, targets = RNG.normal(size=(2, *shape, 3))
    mse = np.square(outputs - targets).sum(-1) / 3
    assert_values(MeanSquared(3, unit=0.25), outputs, targets, loss=mse / 0.25, mse=mse)
    assert np.asarray(MeanSquared(3).prediction(jnp.asarray(outputs))).tolist() == outputs.tolist()


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_the_gaussian_loss_is_minus_the_log_density_up_to_a_constant(shape):
    outputs, targets = 2 * RNG.normal(size=(*shape, 4)), RNG.normal(size=(*shape, 2))
    mean, variance = outputs[..., :2], np.log1p(np.exp(outputs[..., 2:])) + 1e-4
    density = norm.logpdf(targets, mean, np.sqrt(variance)) + 0.5 * math.log(2 * math.pi)
    mse = np.square(mean - targets).mean(-1)
    assert_values(GaussianNLL(2), outputs, targets, loss=-density.mean(-1), mse=mse)
    assert GaussianNLL(2).prediction(jnp.asarray(outputs)).tolist() == mean.tolist()


def test_the_variance_has_a_floor():
    found = values_of(GaussianNLL(1, floor=0.01), np.array([[0.0, -1e3]]), np.array([[0.1]]))
    np.testing.assert_allclose(found["loss"], (math.log(0.01) + 1) / 2)


def test_the_number_of_outputs_must_match_the_objective():
    assert [q.outputs for q in (CrossEntropy(5), MeanSquared(3), GaussianNLL(3))] == [5, 3, 6]


@pytest.mark.parametrize("objective", [MeanSquared(1), GaussianNLL(1)])
def test_the_root_is_taken_of_the_mean_not_of_each_target(objective):
    assert objective.summary({"loss": 3.0, "mse": 6.25}) == {"loss": 3.0, "mse": 6.25, "rmse": 2.5}


def test_higher_accuracy_and_lower_errors_are_better():
    up, down = CrossEntropy(2), MeanSquared(1)
    assert up.is_better(0.6, 0.5)
    assert not up.is_better(0.5, 0.5)
    assert not up.is_better(0.4, 0.5)
    assert down.is_better(0.4, 0.5)
    assert not down.is_better(0.5, 0.5)
    assert not down.is_better(0.6, 0.5)
    assert down.is_better(0.6, None)
    assert up.is_better(0.0, None)


@pytest.mark.parametrize(
    ("objective", "targets", "message"),
    [
        (CrossEntropy(3), np.array([0, 3]), r"test: label of sequence 1 is outside of 0 to 2 \(3\)"),
        (CrossEntropy(3), np.array([0.0, 1.0]), "test: labels must be whole numbers, not float64"),
        (MeanSquared(2), np.zeros((2, 1)), r"test: a target has shape \(1,\), expected \(2,\)"),
        (MeanSquared(1), np.zeros(2, int), r"test: a target has shape \(\), expected \(1,\)"),
        (GaussianNLL(2), np.zeros((2, 3, 4)), r"test: a target has shape \(4,\), expected \(2,\)"),
    ],
    ids=str,
)
def test_targets_of_the_invalid_kind_are_rejected(objective, targets, message):
    samples = Samples.of(np.zeros((2, 3, 1)), targets, name="test")
    with pytest.raises(ValueError, match=message):
        objective.check(samples)


@pytest.mark.parametrize(
    ("objective", "targets"),
    [
        (CrossEntropy(3), np.array([0, 2])),
        (CrossEntropy(3), np.zeros((2, 3), int)),
        (MeanSquared(2), np.zeros((2, 2))),
        (GaussianNLL(2), np.zeros((2, 3, 2))),
    ],
    ids=str,
)
def test_targets_of_the_right_kind_are_taken(objective, targets):
    objective.check(Samples.of(np.zeros((2, 3, 1)), targets))


@pytest.mark.parametrize("unit", [0, -1.0, math.nan])
def test_a_unit_is_positive(unit):
    with pytest.raises(ValueError, match=f"MeanSquared: unit={unit} must be positive"):
        MeanSquared(1, unit=unit)
