"""Blocks in one native call equal the equations, forward and gradient, in every combination of their parts.

The equations are NumPy in float64: `reference.py` for the layers, the functions below for what is around them.
Gradients are compared with central differences along a random direction of the parameters, inputs, gaps and initial
states.
"""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import s7
from s7 import native, reference
from s7.block import Block, BlockState
from s7.dropout import Dropout
from s7.signal import Signal
from tests.native.block_configs import block_configs
from tests.oracle import reference_of

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native kernels: {native.unavailable_reason()}")

BATCH, WIDTH, STATE = 2, 3, 4
STEP = 1e-6
FORMS = (
    s7.Full(),
    s7.Full(D="full", bias=False),
    s7.Full(selective="B", D="static"),
    s7.Factored(3),
    s7.Factored(2, D="full"),
    s7.Factored(3, selective="C", D="static", bias=False),
    s7.Static(),
    s7.Static(D="diagonal"),
)
TRANSITIONS = (
    *(s7.Stable(b=1.0, gain=gain, oscillate=wave) for gain in ("rate", "variance", None) for wave in (False, True)),
    s7.Stable(selective=False),
    s7.Stable(selective=False, oscillate=True),
    s7.Plain(tau=(2.0, 5.0)),
    s7.Plain(tau=(2.0, 5.0), gain="variance", selective=False),
    *(s7.Step(held=held, selective=selective) for held in (False, True) for selective in (False, True)),
    s7.Ring(),
    s7.Ring(selective=True),
)


def segments(mask, reset):
    """The positions of the events of each packed sequence."""
    starts = [0, *np.flatnonzero(reset)[np.flatnonzero(reset) > 0], len(mask)]
    return [np.flatnonzero(mask[a:b]) + a for a, b in pairwise(starts)]


def one_direction(layer, u, dt, mask, reset, state, *, reverse=False):
    """The outputs of a layer at the events, and its final state."""
    transition, form = reference_of(layer)
    y, x = np.zeros(u.shape), np.asarray(state)
    parts = segments(mask, reset)
    for n, at in enumerate(parts):
        # The state before a sequence that starts here is discarded.
        x = x if n == 0 and not reset[0] else np.zeros_like(x)
        gaps = None if dt is None else dt[at]
        if reverse:
            x = np.zeros_like(x)
            at = at[::-1]
            gaps = None if gaps is None else np.append(gaps[1:], 0.0)[::-1]
        y[at], x = reference.layer(u[at], gaps, transition, form, x)
    return y, x


def normalised(norm, kind, u, mask):
    """All sequences of a batch, in training."""
    if kind == "none":
        return u
    if kind == "batch":
        mean, variance = u[mask].mean(0), u[mask].var(0)
        return (u - mean) / np.sqrt(variance + 1e-5) * np.asarray(norm.scale) + np.asarray(norm.shift)
    centred = u - u.mean(-1, keepdims=True) if kind == "layer" else u
    unit = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return unit * np.asarray(norm.scale) + (np.asarray(norm.shift) if kind == "layer" else 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def plain_block(block, u, dt, mask, reset, states, keep):
    """The outputs of a batch and the final states of the first layer."""
    config = block.config
    before = config.norm_place == "before"
    read = normalised(block.norm, config.norm, u, mask) if before else u
    z, finals = np.zeros(u.shape), []
    for n in range(len(u)):
        timing = None if dt is None else dt[n], mask[n], reset[n]
        z[n], final = one_direction(block.layer, read[n], *timing, states[n])
        finals.append(final)
        if block.backward is not None:
            initial = np.asarray(block.backward.init_state())
            z[n] += one_direction(block.backward, read[n], *timing, initial, reverse=True)[0]
    if block.gate is not None:
        gelu = z * sigmoid(np.sqrt(8 / np.pi) * (z + 0.044715 * z**3))
        z = z * sigmoid(gelu @ np.asarray(block.gate.W).T + np.asarray(block.gate.c))
    out = keep * z + (u if config.skip else 0)
    if not before:
        out = normalised(block.norm, config.norm, out, mask)
    if block.project is not None:
        out = out @ np.asarray(block.project.W).T + np.asarray(block.project.c)
    return out, np.stack(finals)


def weighted(outputs, finals, mask):
    """A sum of all outputs and final states with different weights."""
    outputs = jnp.where(mask[..., None], outputs, 0)
    total = 0.0
    for array in (outputs, finals.real, finals.imag):
        total = total + jnp.sum(array * jnp.cos(jnp.arange(array.size, dtype=float)).reshape(array.shape))
    return total


@given(
    config=block_configs(FORMS, TRANSITIONS),
    project=st.booleans(),
    timed=st.booleans(),
    padded=st.booleans(),
    packed=st.booleans(),
    length=st.sampled_from([1, 2, 9, 33]),
)
@settings(max_examples=12)
def test_blocks_are_the_equations(config, project, timed, padded, packed, length):
    out = WIDTH + 2 if project else None
    block = Block(WIDTH, STATE, config, out=out, key=jax.random.key(length), dtype=jnp.float64)
    rng = np.random.default_rng(length)
    u = rng.normal(size=(BATCH, length, WIDTH))
    dt = rng.exponential(size=(BATCH, length)) if timed else None
    mask, reset = np.ones((BATCH, length), bool), np.zeros((BATCH, length), bool)
    if packed:
        reset[:, length // 2] = True
    if padded and length > 2:  # after the events of a sequence
        mask[0, length // 2 - 1 if packed else length - 1] = mask[1, length - 1] = False
    initial = rng.normal(size=(BATCH, 2, STATE))

    keys = jax.random.split(jax.random.key(1), BATCH)
    drawn = [Dropout.of(key, config.dropout, jnp.float64) for key in keys]
    keep = 1.0 if drawn[0] is None else np.stack([np.asarray(one.keep(length, WIDTH)) for one in drawn])

    def states_of(initial):
        return initial[:, 0] + 1j * initial[:, 1] if config.transition.complex_state else initial[:, 0]

    def native_loss(variables):
        arrays, u, dt, initial = variables
        block = eqx.combine(arrays, rest)

        def one(u, dt, mask, reset, key, x):
            signal = Signal(u, dt, mask if padded else None, reset if packed else None)
            state = None if config.bidirectional else BlockState(x, None)
            signal, after, _ = block(signal, state, key=key, batch_axis="batch")
            return signal.values, 0 * x if after is None else after.x

        with s7.backend("native"):
            outputs, finals = jax.vmap(one, axis_name="batch")(u, dt, mask, reset, keys, states_of(initial))
        return weighted(outputs, finals, mask), (outputs, finals)

    def plain_loss(variables):
        arrays, u, dt, initial = variables
        states = states_of(0 * initial if config.bidirectional else initial)
        outputs, finals = plain_block(eqx.combine(arrays, rest), u, dt, mask, reset, states, keep)
        finals = 0 * finals if config.bidirectional else finals  # a bidirectional block has no state
        return weighted(outputs, finals, mask), (outputs, finals)

    arrays, rest = eqx.partition(block, eqx.is_inexact_array)
    variables = jax.tree.map(np.asarray, (arrays, u, dt, initial))
    assert str(jax.make_jaxpr(native_loss)(variables)).count(" s7_fused_block[") == 1
    (_, (outputs, finals)), gradient = jax.jit(jax.value_and_grad(native_loss, has_aux=True))(variables)
    _, (plain_outputs, plain_finals) = plain_loss(variables)
    np.testing.assert_allclose(outputs[mask], plain_outputs[mask], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(finals, plain_finals, rtol=1e-9, atol=1e-9)

    direction = jax.tree.map(lambda q: rng.normal(size=q.shape), variables)
    ahead, behind = (
        plain_loss(jax.tree.map(lambda q, d, step=step: q + step * d, variables, direction))[0]
        for step in (STEP, -STEP)
    )
    products = [np.sum(g * d) for g, d in zip(jax.tree.leaves(gradient), jax.tree.leaves(direction), strict=True)]
    np.testing.assert_allclose(
        sum(products), (ahead - behind) / (2 * STEP), rtol=0, atol=1e-6 * (1 + np.abs(products).sum())
    )
