"""Blocks that pool windows of events or read tokens give the numbers of XLA in native calls, forward and gradient."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import s7
from s7 import native
from s7.block import Block, BlockConfig, BlockState
from s7.pooling import Pending
from s7.signal import Rows, Signal

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native kernels: {native.unavailable_reason()}")

BATCH, TABLE = 3, 5
TRANSITIONS = (
    s7.Stable(),
    s7.Stable(oscillate=True),
    s7.Stable(gain="variance", selective=False),
    s7.Plain(tau=(2.0, 5.0)),
    s7.Ring(),
    s7.Step(),
    s7.Step(held=True),
    s7.Step(selective=False),
    s7.Stable(counting=True),
    s7.Stable(oscillate=True, counting=True),
    s7.Step(held=True, counting=True),
)


def close(mine, theirs, tolerance=1e-9):
    mine, theirs = jax.tree.leaves(mine), jax.tree.leaves(theirs)
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max(initial=0)))


def results(backend, block, differentiated, token, mask, reset, pending=None):
    """The outputs and final states of a batch, and the gradient of a weighted sum of both."""

    def loss(differentiated):
        block, values, dt, initial = differentiated

        def one(values, dt, initial, token, mask, reset):
            rows = None if token is None else Rows(values, token)
            signal = Signal(values if rows is None else rows.values(), dt, mask, reset, rows)
            out, after, _ = block(signal, None if initial is None else BlockState(initial, pending))
            # Outputs of windows without events are not defined.
            return jnp.where(out.valid()[:, None], out.values, 0), None if after is None else after.x

        axes = None if token is not None else 0, *(None if q is None else 0 for q in (dt, initial, token, mask, reset))
        found = jax.vmap(one, axes)(values, dt, initial, token, mask, reset)
        total = 0.0
        for array in jax.tree.leaves(found):
            weights = jnp.cos(jnp.arange(array.size, dtype=array.real.dtype)).reshape(array.shape)
            total = total + jnp.sum(weights * (array.real + 2 * array.imag))
        return total, found

    with s7.backend(backend):
        (_, found), gradient = eqx.filter_jit(eqx.filter_value_and_grad(loss, has_aux=True))(differentiated)
    return found, gradient


@given(
    pool=st.sampled_from(["mean", "time", "last"]),
    stride=st.sampled_from([1, 2, 3, 8]),
    tokens=st.booleans(),
    timed=st.booleans(),
    padding=st.sampled_from(["none", "length", "packed"]),
    carried=st.booleans(),
    transition=st.sampled_from(TRANSITIONS),
    form=st.sampled_from([s7.Factored(3), s7.Full(D="full"), s7.Full(selective="C"), s7.Static()]),
    bidirectional=st.booleans(),
    norm=st.sampled_from(["layer", "rms", "batch", "none"]),
    width=st.integers(1, 20),
    state=st.integers(1, 19),
    windows=st.integers(1, 30),
)
@settings(max_examples=7)
def test_windows_and_tokens_give_the_numbers_of_xla(
    pool, stride, tokens, timed, padding, carried, transition, form, bidirectional, norm, width, state, windows
):
    config = BlockConfig(transition=transition, form=form, norm=norm, bidirectional=bidirectional)
    block = Block(width, state, config, stride=stride, pool=pool, key=jax.random.key(0), dtype=jnp.float64)
    rng = np.random.default_rng(windows)
    # The last window is shorter, except in packed sequences, which start at the start of a window.
    length = windows * stride - (0 if padding == "packed" else rng.integers(0, stride))
    values = rng.normal(size=(TABLE, width) if tokens else (BATCH, length, width))
    token = jnp.asarray(rng.integers(0, TABLE, (BATCH, length))) if tokens else None
    dt = rng.exponential(size=(BATCH, length)) * (rng.random((BATCH, length)) < 0.8) if timed else None
    mask = reset = None
    if padding == "length":
        mask = jnp.arange(length) < rng.integers(1, length + 1, (BATCH, 1))
    elif padding == "packed":
        starts = rng.random((BATCH, windows)) < 0.3
        events = rng.integers(1, stride + 1, (BATCH, windows, 1))
        mask = jnp.asarray((np.arange(stride) < events).reshape(BATCH, length))
        reset = jnp.asarray(np.pad(starts[:, :, None], ((0, 0), (0, 0), (0, stride - 1))).reshape(BATCH, length))
    initial = pending = None
    if carried and not bidirectional and padding != "packed":
        initial = rng.normal(size=(BATCH, state)) + 0 * block.layer.init_state()
        if stride > 1:  # the state carries an unfinished window
            value, gap = jnp.asarray(rng.normal(size=width)), jnp.asarray(0.5)
            pending = Pending.empty(width, jnp.float64).push(value, gap, pool)
    differentiated = block, *(None if q is None else jnp.asarray(q) for q in (values, dt, initial))
    data = token, mask, reset, pending
    close(results("native", block, differentiated, *data), results("xla", block, differentiated, *data))


def traced(function, *arguments):
    with s7.backend("native"):
        return str(jax.make_jaxpr(function)(*arguments))


def native_calls(function, *arguments):
    """The names of the native calls of a function, in order."""
    return re.findall(r" (s7_\w+)\[", traced(function, *arguments))


@pytest.mark.parametrize("tokens", [True, False])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("place", ["before", "after"])
def test_a_whole_block_is_one_native_call_each_way(place, stride, tokens):
    config = BlockConfig(form=s7.Factored(2), norm_place=place, bidirectional=True, dropout=0.1)
    block = Block(2, 3, config, out=4, stride=stride, key=jax.random.key(0))
    token = jnp.zeros(8, jnp.int32) if tokens else None
    values, key = jnp.zeros((8, 2), jnp.float32), jax.random.key(1)

    def run(block, values):
        rows = None if token is None else Rows(values, token)
        return block(Signal(values, rows=rows), key=key)[0].values

    name = "window_block" if tokens or stride > 1 else "block"
    loss = eqx.filter_grad(lambda block, values: jnp.sum(run(block, values)))
    assert native_calls(run, block, values) == [f"s7_fused_{name}"]
    assert native_calls(loss, block, values) == [f"s7_{name}", f"s7_{name}_gradient"]
    # Neither maps nor norms are left to XLA.
    assert not re.search("dot_general|rsqrt", traced(run, block, values) + traced(loss, block, values))


@pytest.mark.parametrize("transition", TRANSITIONS, ids=str)
def test_every_transition_runs_on_windows_in_one_native_call(transition):
    block = Block(2, 3, BlockConfig(transition=transition, form=s7.Static()), stride=2, key=jax.random.key(0))
    values = jnp.zeros((8, 2), jnp.float32)
    assert native_calls(lambda values: block(Signal(values))[0].values, values) == ["s7_fused_window_block"]


@pytest.mark.parametrize("stride", [1, 3])
def test_chunks_of_a_stream_are_one_native_call_per_block(stride):
    block = Block(2, 3, BlockConfig(), stride=stride, key=jax.random.key(0))
    values = jnp.zeros((8, 2), jnp.float32)
    whole = "s7_fused_block" if stride == 1 else "s7_fused_window_block"
    assert native_calls(lambda values: block(Signal(values), block.init_state())[0].values, values) == [whole]


def test_forms_of_users_scan_windows_in_a_native_call():
    class Mine(s7.Static):
        """A form that no kernel knows."""

    block = Block(2, 3, BlockConfig(form=Mine()), stride=2, key=jax.random.key(0))
    values, token = jnp.zeros((8, 2), jnp.float32), jnp.zeros(8, jnp.int32)
    of_events = native_calls(lambda values: block(Signal(values))[0].values, values)
    of_tokens = native_calls(lambda values: block(Signal(values, rows=Rows(values, token)))[0].values, values)
    assert "s7_event_windows" in of_events
    assert "s7_token_windows" in of_tokens


@pytest.mark.parametrize("stride", [1, 4])
def test_token_blocks_give_the_same_bits_for_any_number_of_threads(monkeypatch, stride):
    config = BlockConfig(form=s7.Factored(7), transition=s7.Stable(oscillate=True))
    block = Block(24, 8, config, stride=stride, pool="time", key=jax.random.key(0))
    rng = np.random.default_rng(0)
    table = jnp.asarray(rng.normal(size=(50, 24)), jnp.float32)
    token, dt = jnp.asarray(rng.integers(0, 50, (BATCH, 700))), jnp.asarray(rng.random((BATCH, 700)), jnp.float32)
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("S7_THREADS", threads)
        found.append(results("native", block, (block, table, dt, None), token, None, None))
    for other in found[1:]:
        for a, b in zip(jax.tree.leaves(found[0]), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("tokens", [True, False])
def test_gradients_of_single_sequences_are_those_of_xla(tokens):
    """Each sequence has a sum of its own in the gradients of the weights and of the table."""
    config = BlockConfig(form=s7.Factored(2), bidirectional=True)
    block = Block(3, 2, config, out=2, stride=2, pool="time", key=jax.random.key(0), dtype=jnp.float64)
    rng = np.random.default_rng(0)
    values = jnp.asarray(rng.normal(size=(TABLE, 3) if tokens else (BATCH, 8, 3)))
    token, dt = jnp.asarray(rng.integers(0, TABLE, (BATCH, 8))), jnp.asarray(rng.exponential(size=(BATCH, 8)))

    def loss(differentiated, token):
        block, values, dt = differentiated
        signal = Signal(values[token], dt, rows=Rows(values, token)) if tokens else Signal(values, dt)
        return jnp.sum(jnp.sin(block(signal)[0].values))

    found = []
    for backend in ("native", "xla"):
        with s7.backend(backend):
            each = eqx.filter_vmap(eqx.filter_grad(loss), in_axes=((None, None if tokens else 0, 0), 0))
            found.append(eqx.filter_jit(each)((block, values, dt), token))
    close(*found)


def test_a_token_outside_of_the_table_is_an_error():
    block = Block(2, 3, BlockConfig(), stride=2, key=jax.random.key(0), dtype=jnp.float64)
    rows = Rows(jnp.zeros((TABLE, 2)), jnp.full(8, TABLE))
    with s7.backend("native"), pytest.raises(jax.errors.JaxRuntimeError, match="a token is not a row of the table"):
        block(Signal(jnp.zeros((8, 2)), rows=rows))


def test_looking_up_rows_has_the_gradient_of_a_gather():
    rng = np.random.default_rng(0)
    table, token = jnp.asarray(rng.normal(size=(7, 20))), jnp.asarray(rng.integers(0, 7, (2, 100)))
    weights = jnp.asarray(rng.normal(size=(2, 100, 20)))

    def loss(table):
        return jnp.sum(weights * jax.vmap(lambda token: Rows(table, token).values())(token))

    with s7.backend("native"):
        found = jax.value_and_grad(loss)(table)
    with s7.backend("xla"):
        close(found, jax.value_and_grad(loss)(table), 1e-13)


def test_gradients_of_gaps_are_computed_where_they_are_asked_for():
    block = Block(4, 3, BlockConfig(), stride=2, pool="time", key=jax.random.key(0), dtype=jnp.float64)
    rng = np.random.default_rng(0)
    values, dt = jnp.asarray(rng.normal(size=(64, 4))), jnp.asarray(rng.exponential(size=64))

    def loss(values, dt):
        return jnp.sum(jnp.sin(block(Signal(values, dt))[0].values))

    with s7.backend("native"):
        both = jax.grad(loss, (0, 1))(values, dt)
        only = jax.grad(loss)(values, dt)
        step = 1e-6
        difference = (loss(values, dt + step) - loss(values, dt - step)) / (2 * step)
    np.testing.assert_allclose(only, both[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(both[1].sum(), difference, rtol=1e-6)


def test_single_steps_of_a_pooled_model_equal_a_call():
    config = {"width": 4, "state": 2, "stages": (s7.Stage(1, stride=3), s7.Stage(1))}
    model = s7.S7Model(encoder=s7.TokenEncoder(7), head=s7.Mean(2), key=jax.random.key(0), **config)
    tokens = np.random.default_rng(0).integers(0, 7, 8)
    with s7.backend("xla"):
        wanted = model(tokens)
    with s7.backend("native"):
        state, step = model.init_state(), eqx.filter_jit(lambda model, token, state: model.step(token, state))
        for token in tokens:
            found, state = step(model, token, state)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
