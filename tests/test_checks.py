"""The checked mode, and what never gets through."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import s7

LAYER = s7.S7Layer(2, 3, key=jax.random.key(0))
MODEL = s7.S7Model(encoder=s7.LinearEncoder(2), head=s7.Mean(2), width=4, state=3, depth=1, key=jax.random.key(0))
GOOD = np.ones((5, 2), np.float32)
BAD = np.where(np.arange(5)[:, None] == 3, np.nan, GOOD).astype(np.float32)


def test_a_non_finite_input_is_named_with_its_position():
    with s7.checked(), pytest.raises(ValueError, match=r"u is not finite, first at \(3, 0\): nan"):
        LAYER(BAD)
    with s7.checked(), pytest.raises(ValueError, match=r"inputs is not finite, first at \(3, 0\): nan"):
        MODEL(BAD)


def test_a_negative_gap_is_named_with_its_position():
    dt = np.array([0, 1, -2, 1, 1], np.float32)
    with s7.checked(), pytest.raises(ValueError, match=r"dt is negative or not finite, first at 2: -2"):
        LAYER(GOOD, dt)


def test_compiled_code_raises_too_and_only_in_the_checked_mode():
    run = eqx.filter_jit(lambda layer, u: layer(u)[0])
    assert np.isnan(run(LAYER, BAD)).any()
    with s7.checked(), pytest.raises(Exception, match="u is not finite"):
        jax.block_until_ready(run(LAYER, BAD))
    with s7.checked():
        assert np.isfinite(run(LAYER, GOOD)).all()


def test_padding_is_not_checked():
    with s7.checked():
        y, _ = LAYER(BAD, mask=np.arange(5) < 3)
        assert np.isfinite(y[:3]).all()


def test_the_environment_turns_it_on(monkeypatch):
    monkeypatch.setenv("S7_CHECKED", "1")
    with pytest.raises(ValueError, match="u is not finite"):
        LAYER(BAD)
    with s7.checked(False):
        LAYER(BAD)


def test_a_poisoned_stream_is_never_saved(tmp_path):
    _, state = MODEL.chunk(BAD, MODEL.init_state())
    with pytest.raises(ValueError, match=r"not written, blocks\.0\.x\[0\] is nan"):
        s7.save_state(state, MODEL, tmp_path / "state.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_poisoned_model_is_never_saved(tmp_path):
    model = eqx.tree_at(lambda m: m.head["c"], MODEL, jnp.array([0.0, jnp.inf], jnp.float32))
    with pytest.raises(ValueError, match=r"not written, head\.c\[1\] is inf"):
        s7.save(model, tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []
