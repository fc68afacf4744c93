"""Ridge regression and its leave-one-out predictions."""

import numpy as np
import pytest

from s7.estimation import ridge


@pytest.mark.parametrize("features", [4, 60])  # fewer and more features than samples
def test_left_out_predictions_are_those_of_fits_without_the_sample(features):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, features)).astype(np.float32)
    y = x[:, :2] + 0.1 * rng.normal(size=(20, 2))
    # The scale of the features is that of all samples, so a constant feature scale makes both exactly equal.
    x = (x - x.mean(0)) / x.std(0)
    penalties = np.array([3.0])
    solved = ridge.solve(x, y, penalties)
    for n in range(3):
        kept = np.arange(20) != n
        z, centre = x[kept].astype(float), y[kept].mean(0)
        mean = z.mean(0)
        gram = (z - mean).T @ (z - mean) + solved.penalty * features * np.eye(features)
        w = np.linalg.solve(gram, (z - mean).T @ (y[kept] - centre))
        np.testing.assert_allclose(solved.left_out[n], (x[n] - mean) @ w + centre, atol=1e-5)
    np.testing.assert_allclose(x[:1] @ solved.W + solved.c, ridge.solve(x, y, penalties).c + x[:1] @ solved.W)


def test_the_penalty_is_chosen_and_constant_features_do_no_harm():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(50, 3)), np.full((50, 1), 7.0)], 1).astype(np.float32)
    y = x[:, :1] * 2 + 1
    solved = ridge.solve(x, y)
    np.testing.assert_allclose(x @ solved.W + solved.c, y, atol=1e-2)
    assert solved.W[3] == 0
