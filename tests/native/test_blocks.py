"""Blocks in native calls give the numbers of XLA, forward and gradient: whole, pooled and from tokens."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import s7
from s7 import native
from s7.block import Block, BlockConfig
from s7.signal import Rows, Signal
from tests.native.block_configs import block_configs

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native kernels: {native.unavailable_reason()}")

FORMS = tuple(
    form
    for D in ("static", "diagonal", "full")
    for form in (
        s7.Static(D=D),
        *(s7.Full(selective=selective, D=D) for selective in ("BC", "B", "C")),
        *(s7.Factored(3, selective=selective, D=D) for selective in ("BC", "B", "C")),
    )
)
SMALL_FORMS = tuple(form for form in FORMS if not isinstance(form, s7.Full) and form.D != "full")
TRANSITIONS = (
    s7.Stable(),
    s7.Stable(oscillate=True),
    s7.Stable(selective=False),
    s7.Step(),
    s7.Ring(),
    s7.Stable(counting=True),
    s7.Stable(oscillate=True, selective=False, counting=True),
)
BATCH = 3


def close(mine, theirs, tolerance=1e-9):
    mine, theirs = jax.tree.leaves(mine), jax.tree.leaves(theirs)
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max(initial=0)))


def value_and_gradient(backend, block, values, table, dt, mask, keys, token):
    """The outputs of a batch, and the gradient of a weighted sum of them."""

    def loss(differentiated):
        block, values, table, dt = differentiated

        def one(values, dt, mask, key, token):
            rows = None if token is None else Rows(table, token)
            values = values if token is None else table[token]
            signal, _, _ = block(Signal(values, dt, mask, rows=rows), key=key)
            # Outputs of windows without events are not defined.
            return jnp.where(signal.valid()[:, None], signal.values, 0)

        outputs = jax.vmap(one)(values, dt, mask, keys, token)
        weights = jnp.cos(jnp.arange(outputs.size, dtype=outputs.dtype)).reshape(outputs.shape)
        return jnp.sum(weights * outputs), outputs

    with s7.backend(backend):
        (_, outputs), gradient = eqx.filter_jit(eqx.filter_value_and_grad(loss, has_aux=True))(
            (block, values, table, dt)
        )
    return outputs, gradient


@given(
    config=block_configs(FORMS, TRANSITIONS),
    stride=st.sampled_from([1, 1, 2, 5]),
    project=st.booleans(),
    timed=st.booleans(),
    padded=st.booleans(),
    tokens=st.booleans(),
    width=st.integers(1, 9),
    state=st.integers(1, 19),
    length=st.integers(1, 120),
)
@settings(max_examples=8)
def test_blocks_give_the_numbers_of_xla(config, stride, project, timed, padded, tokens, width, state, length):
    out = 2 * width + 1 if project else None
    block = Block(width, state, config, out=out, stride=stride, key=jax.random.key(0), dtype=jnp.float64)
    rng = np.random.default_rng(length)
    values, table = jnp.asarray(rng.normal(size=(BATCH, length, width))), jnp.asarray(rng.normal(size=(4, width)))
    dt = jnp.asarray(rng.exponential(size=(BATCH, length))) if timed else None
    mask = jnp.arange(length) < jnp.asarray(rng.integers(1, length + 1, BATCH))[:, None] if padded else None
    keys = jax.random.split(jax.random.key(1), BATCH)
    token = jnp.asarray(rng.integers(0, 4, (BATCH, length))) if tokens else None
    data = values, table, dt, mask, keys, token
    close(value_and_gradient("native", block, *data), value_and_gradient("xla", block, *data))


@given(
    config=block_configs(SMALL_FORMS, TRANSITIONS),
    project=st.booleans(),
    timed=st.booleans(),
    padded=st.booleans(),
    width=st.integers(1, 9),
    state=st.integers(1, 9),
    batch=st.integers(8, 40),
    length=st.integers(288, 400),
)
@settings(max_examples=5)
def test_large_batches_of_long_sequences_give_the_numbers_of_xla(
    config, project, timed, padded, width, state, batch, length
):
    """These are computed along sequences, tile by tile."""
    out = width + 1 if project else None
    block = Block(width, state, config, out=out, key=jax.random.key(0), dtype=jnp.float64)
    rng = np.random.default_rng(length)
    values = jnp.asarray(rng.normal(size=(batch, length, width)))
    dt = jnp.asarray(rng.exponential(size=(batch, length))) if timed else None
    mask = jnp.arange(length) < jnp.asarray(rng.integers(1, length + 1, batch))[:, None] if padded else None
    keys = jax.random.split(jax.random.key(1), batch)
    data = values, values[0], dt, mask, keys, None
    close(value_and_gradient("native", block, *data), value_and_gradient("xla", block, *data))


def test_dropout_drops_its_share_and_keeps_the_mean(key):
    from s7.dropout import Dropout

    dropout = Dropout.of(key, 0.3, jnp.float32)
    assert dropout is not None
    keep = np.asarray(dropout.keep(4000, 33))
    assert abs((keep == 0).mean() - 0.3) < 0.005
    assert abs(keep.mean() - 1) < 0.01
    # Neither channels nor events repeat each other.
    kept = keep > 0
    assert abs(np.corrcoef(kept[:, 0], kept[:, 1])[0, 1]) < 0.06
    assert abs(np.corrcoef(kept[0::2].ravel(), kept[1::2].ravel())[0, 1]) < 0.02
    other = Dropout.of(jax.random.fold_in(key, 1), 0.3, jnp.float32)
    assert other is not None
    assert abs(np.corrcoef(kept.ravel(), (np.asarray(other.keep(4000, 33)) > 0).ravel())[0, 1]) < 0.02


def test_dropout_is_off_without_a_key_or_probability(key):
    from s7.dropout import Dropout

    assert Dropout.of(None, 0.3, jnp.float32) is None
    assert Dropout.of(key, 0.0, jnp.float32) is None


def test_a_block_gives_the_same_bits_for_any_number_of_threads(monkeypatch):
    config = BlockConfig(form=s7.Factored(7), dropout=0.2)
    block = Block(24, 8, config, key=jax.random.key(0))
    rng = np.random.default_rng(0)
    values = jnp.asarray(rng.normal(size=(BATCH, 700, 24)), jnp.float32)
    keys = jax.random.split(jax.random.key(1), BATCH)
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("S7_THREADS", threads)
        found.append(value_and_gradient("native", block, values, values[0], None, None, keys, None))
    for other in found[1:]:
        for a, b in zip(jax.tree.leaves(found[0]), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(a, b)
