"""Neural rough differential equations: signatures against iterated integrals, and the cell against its equations."""

from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest

from s7.baselines.nrde import Nrde, extended, logarithm, lyndon_words
from tests.baselines.checks import against


def test_lyndon_words():
    assert lyndon_words(2, 3) == [(0,), (1,), (0, 1), (0, 0, 1), (0, 1, 1)]
    assert len(lyndon_words(5, 3)) == 5 + 10 + 40  # Witt's formula


def iterated_integrals(points):
    """Levels 1 to 3 of the signature of a linear path, from sums over a fine subdivision of its pieces."""
    fine = np.concatenate([np.linspace(a, b, 400, endpoint=False) for a, b in pairwise(points)] + [points[-1:]])
    steps, middle = np.diff(fine, axis=0), (fine[1:] + fine[:-1]) / 2 - fine[0]
    two = np.cumsum(middle[:, :, None] * steps[:, None, :], axis=0)
    before = np.concatenate([np.zeros_like(two[:1]), two[:-1]])
    return steps.sum(0), two[-1], np.einsum("kij,kl->ijl", (before + two) / 2, steps)


def test_signatures_are_iterated_integrals():
    points = np.cumsum(np.random.default_rng(0).standard_normal((4, 3)), axis=0)
    signature = [jnp.zeros((3,) * level) for level in (1, 2, 3)]
    for step in np.diff(points, axis=0):
        signature = extended(signature, jnp.asarray(step, jnp.float32))
    for found, wanted in zip(signature, iterated_integrals(points), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)


def test_the_logarithm_of_a_straight_line_is_its_increment():
    step = jnp.array([0.5, -1.0, 2.0])
    signature = extended(extended([jnp.zeros((3,) * level) for level in (1, 2, 3)], step / 3), 2 * step / 3)
    one, two, three = logarithm(signature)
    np.testing.assert_allclose(one, step, rtol=1e-6)
    np.testing.assert_allclose(two, 0, atol=1e-6)
    np.testing.assert_allclose(three, 0, atol=1e-6)


@pytest.mark.parametrize("depth", [2, 3])
def test_nrde(depth):
    window, channels = 3, 2
    words = lyndon_words(channels + 1, depth)

    def log_signature(path):
        """By the Baker-Campbell-Hausdorff formula on the tensor algebra, as nilpotent matrices would give it."""
        total = [np.zeros((channels + 1,) * level) for level in (1, 2, 3)]
        for step in np.diff(path, axis=0):
            one, two, three = total
            total = [
                one + step,
                two + np.multiply.outer(one, step) + np.multiply.outer(step, step) / 2,
                three
                + np.multiply.outer(two, step)
                + np.multiply.outer(one, np.multiply.outer(step, step)) / 2
                + np.multiply.outer(step, np.multiply.outer(step, step)) / 6,
            ]
        one, two, three = total
        square = np.multiply.outer(one, one)
        logs = [one, two - square / 2]
        mixed = np.multiply.outer(one, two) + np.multiply.outer(two, one)
        logs.append(three - mixed / 2 + np.multiply.outer(square, one) / 3)
        return np.array([logs[len(word) - 1][word] for word in words])

    def written(p, u, dt):
        path = np.column_stack([u @ p["W"].T + p["b"], np.cumsum(np.concatenate([[0], dt[1:]]))])
        h = p["W_0"] @ path[0, :channels] + p["b_0"]

        def field(h):
            hidden = np.maximum(0, p["W_1"] @ h + p["b_1"])
            return np.tanh(p["W_2"] @ hidden + p["b_2"]).reshape(len(h), -1)

        outputs, start, first = [], h, 0
        for k in range(len(u)):
            logs = log_signature(path[first : k + 1])
            middle = start + field(start) @ logs / 2
            outputs.append(start + field(middle) @ logs)
            if k - first == window:
                start, first = outputs[-1], k
        return np.array(outputs)

    against(written, Nrde(window=window, depth=depth, channels=channels, units=4), tolerance=1e-11)
