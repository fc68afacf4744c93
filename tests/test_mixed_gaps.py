"""Models in which every second state counts events, the default, and models in which all states read the gaps."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import s7
from s7 import native
from tests.oracle import reference_call

UNIT = 2.5


def make_model(gaps="mixed", **changes):
    return s7.S7Model(
        encoder=s7.LinearEncoder(2),
        width=6,
        state=5,
        form=s7.Factored(rank=3),
        gaps=gaps,
        key=jax.random.key(0),
        **{
            "head": s7.TimeMean(3),
            "time_unit": UNIT,
            "stages": (s7.Stage(1, 3, pool="time"), s7.Stage(1)),
            "transition": s7.Stable(oscillate=True),
        }
        | changes,
    )


@pytest.fixture(scope="module")
def events():
    random = np.random.default_rng(0)
    return random.normal(size=(19, 2)).astype(np.float32), random.exponential(UNIT, 19).astype(np.float32)


call = eqx.filter_jit(lambda model, x, dt, length=None: model(x, dt, length))


def factors(layer, u, dt):
    return np.asarray(layer.matrices(u, dt).transition)


@pytest.mark.parametrize("transition", [s7.Stable(), s7.Stable(oscillate=True), s7.Step(), s7.Ring(), s7.Plain()])
def test_every_second_state_counts_events(transition):
    counting = replace(transition, counting=True)
    read, mixed = (s7.S7Layer(3, 5, key=jax.random.key(1), transition=kind) for kind in (transition, counting))
    u, dt = np.random.default_rng(2).normal(size=(7, 3)) / 10, np.random.default_rng(3).exponential(2.0, 7)
    np.testing.assert_array_equal(factors(mixed, u, dt)[:, ::2], factors(read, u, dt)[:, ::2])
    np.testing.assert_array_equal(factors(mixed, u, dt)[:, 1::2], factors(read, u, np.ones(7))[:, 1::2])
    np.testing.assert_array_equal(factors(mixed, u, None), factors(read, u, None))


@given(
    oscillate=st.booleans(),
    selective=st.booleans(),
    gain=st.sampled_from(["rate", "variance", None]),
    state=st.integers(1, 20),
    length=st.integers(1, 300),
    seed=st.integers(0, 9),
)
@settings(max_examples=8)
@pytest.mark.parametrize("backend", ["xla", "native"])
def test_the_layer_equals_the_reference(backend, oscillate, selective, gain, state, length, seed):
    if backend == "native" and not native.available():
        pytest.skip(native.unavailable_reason())
    transition = s7.Stable(oscillate=oscillate, selective=selective, gain=gain, counting=True)
    layer = s7.S7Layer(3, state, key=jax.random.key(seed), transition=transition, dtype=jnp.float64)
    random = np.random.default_rng(seed)
    u, dt = random.normal(size=(length, 3)), random.exponential(2.0, length)
    with s7.backend(backend):
        y, x = eqx.filter_jit(layer)(u, dt)
    wanted_y, wanted_x = reference_call(layer, u, dt)
    np.testing.assert_allclose(y, wanted_y, rtol=0, atol=1e-9 * max(1, np.abs(wanted_y).max()))
    np.testing.assert_allclose(x, wanted_x, rtol=0, atol=1e-9 * max(1, np.abs(wanted_x).max()))


def test_models_count_by_default_and_layers_do_not():
    model = make_model("mixed")
    assert s7.S7Model(encoder=s7.LinearEncoder(2), head=s7.Mean(2), key=jax.random.key(0)).config.gaps == "mixed"
    assert all(block.layer.transition.counting for block in model.blocks)
    assert not any(block.layer.transition.counting for block in make_model("read").blocks)
    assert not s7.S7Layer(2, 4, key=jax.random.key(0)).transition.counting
    assert model.parameter_count == make_model("read").parameter_count


def test_gaps_change_half_of_the_states(events):
    x, gaps = events
    longer = 3 * gaps
    for setting, changes in (("read", True), ("mixed", True), ("ignored", False)):
        model = make_model(setting, head=s7.Mean(3), stages=(s7.Stage(1),))
        assert bool(np.abs(call(model, x, longer) - call(model, x, gaps)).max() > 1e-4) == changes


def test_padding_has_no_effect(events):
    x, gaps = events
    padded = [np.concatenate([q, np.full_like(q[:5], 9)]) for q in (x, gaps)]
    np.testing.assert_allclose(call(make_model(), *padded, 19), call(make_model(), x, gaps), atol=1e-6)


def test_regular_time_does_not_depend_on_the_setting(events):
    x, _ = events
    np.testing.assert_array_equal(call(make_model("mixed"), x, None), call(make_model("read"), x, None))


def test_steps_and_chunks_equal_the_whole(events):
    x, gaps = events
    model = make_model()
    state = model.init_state()
    for k in range(19):
        output, state = model.step(x[k], state, gaps[k])
    np.testing.assert_allclose(output, call(model, x, gaps), atol=1e-5)


def test_it_is_saved(events, tmp_path):
    x, gaps = events
    again = s7.load(s7.save(make_model(), tmp_path))
    assert again.config == make_model().config
    np.testing.assert_array_equal(call(again, x, gaps), call(make_model(), x, gaps))


def test_a_file_without_the_setting_reads_all_gaps(tmp_path):
    from s7.storage import read_arrays, write_arrays

    path = s7.save(make_model("read"), tmp_path)
    arrays, config = read_arrays(path, "model")
    del config["gaps"], config["transition"]["counting"]
    write_arrays(path, "model", arrays, config)
    assert s7.load(path).config == make_model("read").config


def test_a_file_with_a_learned_clock_is_refused(tmp_path):
    from s7.storage import read_arrays, write_arrays

    path = s7.save(make_model(), tmp_path)
    arrays, config = read_arrays(path, "model")
    write_arrays(path, "model", arrays | {"clock.mix": np.zeros(1, np.float32)}, config)
    with pytest.raises(ValueError, match="one learned clock per model until version"):
        s7.load(path)


@pytest.mark.skipif(not native.available(), reason="no native kernels")
@pytest.mark.parametrize("transition", [s7.Stable(), s7.Stable(oscillate=True), s7.Step()])
@pytest.mark.parametrize(
    "changes",
    [{}, {"time_unit": None}, {"dt": 0.5}, {"gaps": "read", "counting": True}, {"gaps": "ignored", "dt": 3.0}],
)
def test_a_stream_equals_its_model(events, transition, changes):
    x, gaps = events
    transition = replace(transition, counting=changes.get("counting", False))
    model = make_model(transition=transition, **{name: changes[name] for name in changes if name != "counting"})
    for dt in (gaps, None):
        stream = s7.Stream(model)
        stream.push(x[:7], None if dt is None else dt[:7])
        for k in range(7, 19):
            stream.push(x[k], None if dt is None else float(dt[k]))
        np.testing.assert_allclose(stream.answer(), call(model, x, dt), atol=1e-5)


def test_an_unknown_setting_is_refused():
    with pytest.raises(ValueError, match="gaps='slow' is not one of 'read', 'ignored', 'mixed'"):
        make_model("slow")
