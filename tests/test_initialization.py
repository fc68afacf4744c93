"""Initial parameters: their scale, and equal values inside and outside of transformations."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import s7
from s7.initialization import draw, smoothed


def test_values_are_normal_with_the_scale_asked_for(key):
    values = draw({"a": ((300, 40), 0.5), "b": ((7000,), 2.0)}, key=key, dtype=jnp.float64)
    assert values["a"].shape == (300, 40)
    for name, scale in (("a", 0.5), ("b", 2.0)):
        assert abs(float(values[name].mean())) < 0.05 * scale
        assert abs(float(values[name].std()) / scale - 1) < 0.03
    together = np.concatenate([np.ravel(values["a"]) / 0.5, values["b"] / 2.0])
    assert len(np.unique(together)) == together.size


@pytest.mark.parametrize("transition", [s7.Stable(), s7.Step(), s7.Ring()])
def test_many_models_can_be_built_at_once_by_vmap(transition, key):
    keys = jax.random.split(key, 3)

    def build(key):
        return s7.S7Layer(3, 4, key=key, transition=transition, form=s7.Full(D="full"))

    together = eqx.filter_vmap(build)(keys)
    alone = build(keys[1])
    for many, one in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(many[1], one, rtol=1e-6)


def test_smoothed_vectors_of_neighbours_are_alike_and_keep_their_variance(key):
    table = draw({"W": ((40 * 30 * 2, 64), 0.5)}, key=key, dtype=jnp.float32)["W"]
    grid = np.asarray(smoothed(table, 2.0, (40, 30))).reshape(40, 30, 2, 64)
    assert np.std(grid) == pytest.approx(0.5, rel=0.05)
    correlation = lambda a, b: np.mean(a * b) / 0.25  # noqa: E731
    assert correlation(grid[1:], grid[:-1]) == pytest.approx(np.exp(-1 / 16), abs=0.05)
    assert correlation(grid[:, 3:], grid[:, :-3]) == pytest.approx(np.exp(-9 / 16), abs=0.05)
    assert correlation(grid[20:], grid[:20]) == pytest.approx(0, abs=0.05)
    assert correlation(grid[:, :, 0], grid[:, :, 1]) == pytest.approx(0, abs=0.05)
    assert smoothed(table, 0.0, (40, 30)) is table
