"""Ridge regression and its leave-one-out predictions."""

import numpy as np
import pytest

from s7.estimation import ridge


def data(samples, features):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(samples, features)).astype(np.float32)
    y = x[:, :2] + 0.1 * rng.normal(size=(samples, 2))
    # The scale of the features is that of all samples, so a constant feature scale makes both exactly equal.
    return (x - x.mean(0)) / x.std(0), y


@pytest.mark.parametrize("penalty", [3.0, 1e-4])
@pytest.mark.parametrize("features", [4, 60, 3000])  # fewer and more features than samples
def test_left_out_predictions_are_those_of_fits_without_the_sample(features, penalty):
    x, y = data(20, features)
    solved = ridge.solve([x], y, np.array([penalty]))
    for n in range(3):
        kept = np.arange(20) != n
        z, centre = x[kept].astype(float), y[kept].mean(0)
        mean = z.mean(0)
        gram = (z - mean) @ (z - mean).T + solved.penalty * features * np.eye(19)
        w = (z - mean).T @ np.linalg.solve(gram, y[kept] - centre)
        np.testing.assert_allclose(solved.left_out[n], (x[n] - mean) @ w + centre, atol=1e-5)


@pytest.mark.parametrize("samples", [4, 20])
def test_labels_that_do_not_depend_on_the_features_are_not_predicted(samples):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(samples, 5000)).astype(np.float32)
    y = np.repeat([[1.0], [-1.0]], samples // 2, 0)
    left_out = ridge.solve([x], y).left_out
    assert np.square(left_out - y).mean() > 0.9


def test_the_penalty_is_chosen_and_constant_features_do_no_harm():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(50, 3)), np.full((50, 1), 7.0)], 1).astype(np.float32)
    y = x[:, :1] * 2 + 1
    solved = ridge.solve([x], y)
    np.testing.assert_allclose(x @ solved.W[0] + solved.c, y, atol=1e-2)
    assert solved.W[0][3] == 0


def test_blocks_are_solved_together():
    x, y = data(20, 60)
    together = ridge.solve([x], y)
    parts = ridge.solve([x[:, :20], x[:, 20:]], y)
    np.testing.assert_allclose(np.concatenate(parts.W), together.W[0], atol=1e-8)
    np.testing.assert_allclose(parts.left_out, together.left_out, atol=1e-8)
    np.testing.assert_allclose(parts.c, together.c, atol=1e-8)


def test_blocks_that_say_nothing_are_left_out():
    x, y = data(40, 4)
    noise = np.random.default_rng(1).normal(size=(40, 50)).astype(np.float32)
    candidates = [(0,), (0, 1), (1,)]
    assert ridge.best_blocks([noise, x], y, candidates) == (1,)
    assert ridge.best_blocks([x, noise], y, candidates) == (0,)
    assert ridge.best_blocks([x[:, :1], x[:, 1:]], y, candidates) == (0, 1)
