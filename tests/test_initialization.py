"""Initial parameters: their scale, and equal values inside and outside of transformations."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import s7
from s7.initialization import draw


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
