"""The openness of states, against the matrices of the layer."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import s7
from s7.live.selection import Selection

from .conftest import make_model

ENCODERS = {"events": s7.EventEncoder((5, 4)), "numbers": s7.LinearEncoder(2)}


@eqx.filter_jit
def transition(model, events, timed):
    block = model.blocks[0]
    u = model.encode(events, None, None).values
    u = block.norm.prepare(u, None, None)[0](u)
    return block.layer.matrices(u, jnp.ones(6, jnp.float32) if timed else None).transition


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("timed", [True, False])
def test_openness_is_the_decay_over_one_unit_of_time(kind, timed):
    model = make_model(ENCODERS[kind], time_unit=2.0 if timed else None)
    random = np.random.default_rng(0)
    events = random.integers(0, 40, 6) if kind == "events" else random.normal(size=(6, 2)).astype(np.float32)
    found = Selection(model, timed).openness(events)
    decay = np.abs(transition(model, events, timed))
    assert found.shape == (6, 4)
    # The states of a new layer are in the order of their time constants.
    np.testing.assert_allclose(2**found, 1 - decay, atol=1e-5)


def test_static_transitions_have_nothing_to_show():
    selection = Selection(make_model(transition=s7.Stable(selective=False)), timed=True)
    assert selection.states == 0
