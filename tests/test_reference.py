"""The layer equals the reference equations for settings beyond the paper's."""

import jax
import numpy as np
import pytest

import s7
from tests.oracle import reference_call

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize(
    ("transition", "form"),
    [
        (s7.Step(held=True, selective=False), s7.Static()),
        (s7.Step(held=True), s7.Full()),
        (s7.Stable(), s7.Full(selective="B")),
        (s7.Stable(), s7.Full(selective="C")),
        (s7.Stable(oscillate=True, gain="variance"), s7.Factored(2, selective="B")),
        (s7.Plain(gain=None), s7.Factored(2, selective="C")),
    ],
)
def test_the_layer_equals_the_reference(transition, form, timed):
    layer = s7.S7Layer(3, 4, transition=transition, form=form, dtype="float64", key=jax.random.key(0))
    u, dt = 0.3 * RNG.normal(size=(12, 3)), RNG.exponential(1.0, 12) if timed else None
    y, final = layer(u, dt)
    wanted, wanted_final = reference_call(layer, u, dt)
    np.testing.assert_allclose(y, wanted, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(final, wanted_final, rtol=1e-9, atol=1e-11)
