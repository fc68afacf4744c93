"""The clock of a model: gaps in the model's unit, or a learned mixture of time and the number of events."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import s7
from s7 import native, reference
from s7.training.groups import parameter_groups

UNIT = 2.5


def make_model(gaps, mix=None, **settings):
    model = s7.S7Model(
        encoder=s7.LinearEncoder(2),
        head=s7.TimeMean(3),
        width=6,
        state=4,
        form=s7.Factored(rank=3),
        transition=s7.Stable(oscillate=True),
        gaps=gaps,
        key=jax.random.key(0),
        **{"time_unit": UNIT, "stages": (s7.Stage(1, 3, pool="time"), s7.Stage(1))} | settings,
    )
    return model if mix is None else eqx.tree_at(lambda m: m.clock["mix"], model, jnp.full(1, mix, jnp.float32))


@pytest.fixture(scope="module")
def events():
    random = np.random.default_rng(0)
    return random.normal(size=(19, 2)).astype(np.float32), random.exponential(UNIT, 19).astype(np.float32)


call = eqx.filter_jit(lambda model, x, dt, length=None: model(x, dt, length))


def test_a_mixed_clock_is_between_time_and_events(events):
    x, gaps = events
    wanted = reference.mixed_clock(gaps, UNIT, mix=0.7)
    np.testing.assert_allclose(wanted, 0.6681878 * gaps / UNIT + 0.3318122, rtol=1e-6)
    mixed = call(make_model("mixed", 0.7), x, gaps)
    read = call(make_model("read", time_unit=None), x, wanted.astype(np.float32))
    np.testing.assert_allclose(mixed, read, atol=1e-6)
    # At the ends it is time, and the number of events.
    np.testing.assert_allclose(call(make_model("mixed", 30.0), x, gaps), call(make_model("read"), x, gaps), atol=1e-6)
    counted = call(make_model("read", time_unit=None), x, np.ones_like(gaps))
    np.testing.assert_allclose(call(make_model("mixed", -30.0), x, gaps), counted, atol=1e-6)


def test_padding_has_no_effect_on_a_mixed_clock(events):
    x, gaps = events
    model = make_model("mixed", -0.4)
    padded = [np.concatenate([q, np.full_like(q[:5], 9)]) for q in (x, gaps)]
    np.testing.assert_allclose(call(model, *padded, 19), call(model, x, gaps), atol=1e-6)


def test_regular_time_has_no_clock(events):
    x, _ = events
    np.testing.assert_array_equal(call(make_model("mixed"), x, None), call(make_model("read"), x, None))


def test_the_mixture_is_trained(events):
    x, gaps = events
    model = make_model("mixed")
    assert parameter_groups(model)["clock.mix"] == "ssm"
    assert model.parameter_count == make_model("read").parameter_count + 1
    slope = eqx.filter_jit(eqx.filter_grad(lambda model: model(x, gaps).sum()))(model).clock["mix"]
    sums = [float(call(make_model("mixed", mix), x, gaps).sum()) for mix in (-0.05, 0.05)]
    assert float(slope[0]) == pytest.approx((sums[1] - sums[0]) / 0.1, rel=1e-2)
    assert abs(float(slope[0])) > 1e-4


def test_a_mixed_clock_is_saved(events, tmp_path):
    x, gaps = events
    model = make_model("mixed", 1.3)
    again = s7.load(s7.save(model, tmp_path))
    assert again.config == model.config
    np.testing.assert_array_equal(call(again, x, gaps), call(model, x, gaps))


@pytest.mark.skipif(not native.available(), reason="no native kernels")
@pytest.mark.parametrize("settings", [{}, {"time_unit": None}, {"dt": 0.5}])
def test_a_stream_has_the_clock_of_its_model(events, settings):
    x, gaps = events
    model = make_model("mixed", 0.9, **settings)
    for dt in (gaps, None):
        stream = s7.Stream(model)
        stream.push(x[:7], None if dt is None else dt[:7])
        for k in range(7, 19):
            stream.push(x[k], None if dt is None else float(dt[k]))
        np.testing.assert_allclose(stream.answer(), call(model, x, dt), atol=1e-5)


def test_an_unknown_clock_is_refused():
    with pytest.raises(ValueError, match="gaps='slow' is not one of 'read', 'ignored', 'mixed'"):
        make_model("slow")
