"""Calls outside of `jax.jit` are compiled once, and give the same numbers as inside."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import s7
from s7.eager import compiled
from s7.sequence_parts import sequence_axis, sequence_parallel


@pytest.fixture
def traced():
    """A compiled function that doubles, and a list that grows whenever it is run by Python."""
    runs = []

    @compiled
    def double(x, *, times=2):
        runs.append(sequence_axis())
        return times * x

    return double, runs


def test_a_call_is_compiled_once(traced):
    double, runs = traced
    for value in (1.0, 3.0):
        assert double(jnp.asarray(value)) == 2 * value
    assert len(runs) == 1
    assert double(jnp.ones(3), times=5).tolist() == [5.0] * 3
    assert len(runs) == 2


def test_maps_and_gradients_outside_of_jit_are_compiled_once(traced):
    double, runs = traced
    for values in (jnp.arange(3.0), jnp.ones(3)):
        np.testing.assert_array_equal(jax.vmap(double)(values), 2 * values)
    assert len(runs) == 1
    for value in (1.0, 3.0):
        assert jax.grad(lambda x: double(x) ** 2)(value) == 8 * value
    assert len(runs) <= 3  # with the gradient


def test_inside_of_jit_there_is_no_program_of_its_own(traced):
    double, runs = traced
    text = jax.jit(jax.vmap(jax.value_and_grad(double))).lower(jnp.ones(3)).as_text()
    assert text.count("func.func") == 1
    assert len(runs) == 1


def test_another_context_is_another_program(traced):
    double, runs = traced
    double(jnp.asarray(1.0))
    with sequence_parallel("events"):
        double(jnp.asarray(1.0))
    assert runs == [None, "events"]


def test_blocks_of_one_shape_share_a_program(key, monkeypatch):
    model = s7.S7Model(encoder=s7.LinearEncoder(2), head=s7.Mean(3), width=4, state=3, depth=6, key=key)
    drive, runs = s7.S7Layer.drive, []
    monkeypatch.setattr(s7.S7Layer, "drive", lambda layer, u: (runs.append(u.shape), drive(layer, u))[1])
    with s7.backend("xla"):
        for value in (1.0, 2.0):
            found = model(np.full((17, 2), value), np.ones(17))
        assert runs == [(17, 4)]
        np.testing.assert_allclose(
            found, eqx.filter_jit(model)(np.full((17, 2), 2.0), np.ones(17)), rtol=1e-5, atol=1e-6
        )
