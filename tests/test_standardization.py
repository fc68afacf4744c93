"""A model's unit of time: seconds and milliseconds give the same model."""

import equinox as eqx
import jax
import numpy as np
import pytest

import s7
from s7.standardization import mean_gap

RNG = np.random.default_rng(0)
GAPS = RNG.exponential(0.4, (24, 15)).astype(np.float32)
INPUTS = RNG.normal(size=(24, 15, 2)).astype(np.float32)


def build(unit, **settings):
    stages = (s7.Stage(stride=3, pool="time"), s7.Stage(depth=1))
    given = {"encoder": s7.LinearEncoder(2), "head": s7.TimeMean(2), "width": 6, "state": 4, "stages": stages}
    return s7.S7Model(**given | settings, time_unit=unit, key=jax.random.key(0))


@eqx.filter_jit
def call(model, u, dt=None):
    return model(u, dt)


@eqx.filter_jit
def packed(model, u, segments, dt):
    return model.packed(u, segments, 1, dt)


@eqx.filter_jit
def chunk(model, u, state, dt):
    return model.chunk(u, state, dt)


@eqx.filter_jit
def step(model, event, state, gap):
    return model.step(event, state, gap)


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_seconds_and_milliseconds_give_the_same_answers():
    seconds, milliseconds = build(0.4), build(400.0)
    u, dt = INPUTS[0], GAPS[0]
    whole = call(seconds, u, dt)
    close(whole, call(milliseconds, u, 1000 * dt))
    close(whole, call(build(None), u, dt / 0.4))
    segments = np.zeros(15, int)
    close(packed(seconds, u, segments, dt), packed(milliseconds, u, segments, 1000 * dt))
    states = seconds.init_state(), milliseconds.init_state()
    for k in range(4):
        (out, a), (again, b) = step(seconds, u[k], states[0], dt[k]), step(milliseconds, u[k], states[1], 1000 * dt[k])
        close(out, again)
        states = a, b
    out, again = chunk(seconds, u[4:], states[0], dt[4:])[0], chunk(milliseconds, u[4:], states[1], 1000 * dt[4:])[0]
    close(out, again)
    close(out, whole)


def test_the_gap_assumed_is_in_the_unit_of_the_gaps():
    u = INPUTS[0]
    close(call(build(2.0, dt=3.0), u), call(build(2.0), u, np.full(15, 3.0, np.float32)))


def test_the_mean_gap_leaves_out_the_first_event_of_a_sequence():
    assert mean_gap(np.array([9.0, 1, 2, 9, 3]), np.array([0, 3, 5])) == 2
    assert mean_gap(np.array([9.0, 9]), np.array([0, 1, 2])) == 1
    assert mean_gap(np.array([0.0, 0.0]), np.array([0, 2])) == 1


def test_unit_and_classes_are_stored(tmp_path):
    model = build(None).with_time_unit(0.25).with_classes(["left", "right"])
    s7.save(model, tmp_path)
    again = s7.load(tmp_path)
    assert (again.config.time_unit, again.config.classes) == (0.25, ("left", "right"))
    close(call(again, INPUTS[0], GAPS[0]), call(build(0.25), INPUTS[0], GAPS[0]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model.with_time_unit(0.0), "time_unit=0.0 must be positive"),
        (lambda model: model.with_classes("abc"), "classes has 3 names, the head has 2 outputs"),
        (lambda model: model.with_classes(["a", "a"]), "names a class twice"),
    ],
)
def test_units_and_classes_that_cannot_be_are_errors(change, message):
    with pytest.raises(ValueError, match=message):
        change(build(None))
