"""Mamba, S4D and the transformer: against their equations in NumPy, in every mode of execution."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s7.baselines import chunks
from s7.baselines.mamba import Mamba
from s7.baselines.s4d import S4d
from s7.baselines.transformer import Transformer
from s7.block import Block, BlockConfig
from s7.signal import Rows, Signal, Timing
from tests.baselines.checks import against, sigmoid, softplus

WIDTH, STATE = 4, 3
STREAMING = {"mamba": Mamba(kernel=3, rank=2), "s4d": S4d()}
KINDS = STREAMING | {"transformer": Transformer(heads=2)}
streaming = pytest.mark.parametrize("kind", STREAMING.values(), ids=STREAMING)
every = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def mamba(parameters, u, dt):
    """Gu & Dao 2023, algorithm 2 within the block of section 3.4; gaps are ignored."""
    p = parameters
    A, taps = -np.exp(p["A_log"]), p["K"]
    rank, N = p["W_delta"].shape[1], A.shape[1]
    inputs, h, outputs = [np.zeros(len(A))] * len(taps), np.zeros_like(A), []
    for event in u:
        inputs.append(p["W"] @ event)
        x = p["c"] + sum(taps[j] * inputs[-1 - j] for j in range(len(taps)))
        x = x * sigmoid(x)
        selected = p["W_x"] @ x
        B, C = selected[rank : rank + N], selected[rank + N :]
        step = softplus(p["W_delta"] @ selected[:rank] + p["b_delta"])
        h = np.exp(step[:, None] * A) * h + np.outer(step * x, B)
        z = p["W_z"] @ event
        outputs.append(p["W_out"] @ ((h @ C + p["D"] * x) * z * sigmoid(z)))
    return np.array(outputs)


def s4d(parameters, u, dt):
    """Gu et al. 2022: equation 2 in each channel, discretized by zero-order hold over the gap."""
    A = -np.exp(parameters["decay"]) + 1j * parameters["omega"]
    C = parameters["C"][0] + 1j * parameters["C"][1]
    step = np.exp(parameters["log_step"])[:, None]
    x, outputs = np.zeros_like(A), []
    for event, gap in zip(u, dt, strict=True):
        a = np.exp(A * step * gap)
        x = a * x + (a - 1) / A * event[:, None]
        outputs.append(2 * (C * x).sum(1).real + parameters["D"] * event)
    return np.array(outputs)


def transformer(heads):
    """Vaswani et al. 2017 with the complex form of the rotations of Su et al. 2021."""

    def turned(q, time):
        half = len(q) // 2
        pairs = (q[:half] + 1j * q[half : 2 * half]) * np.exp(1j * time * 10_000.0 ** (-np.arange(half) / half))
        return np.concatenate([pairs.real, pairs.imag, q[2 * half :]])

    def written(parameters, u, dt):
        p, outputs = parameters, []
        time = np.cumsum(dt)
        # (q, k or v; head; event; number)
        qkv = np.stack([np.split(part, heads, axis=1) for part in np.split(u @ p["W_qkv"].T, 3, axis=1)])
        for k, event in enumerate(u):
            found = []
            for head in range(heads):
                q, keys, values = qkv[:, head, : k + 1]
                asked = turned(q[k], time[k])
                scores = [asked @ turned(key, t) / np.sqrt(len(key)) for key, t in zip(keys, time, strict=False)]
                weights = np.exp(scores) / np.exp(scores).sum()
                found.append(weights @ values)
            z = p["W_o"] @ np.concatenate(found)
            m = event + z
            m = (m - m.mean()) / np.sqrt(m.var() + 1e-5)
            units = p["W_1"] @ m + p["b_1"]
            units = 0.5 * units * (1 + np.tanh(np.sqrt(2 / np.pi) * (units + 0.044715 * units**3)))
            outputs.append(z + p["W_2"] @ units + p["b_2"])
        return np.array(outputs)

    return written


def test_mamba():
    against(mamba, Mamba(kernel=3, rank=2))


def test_s4d():
    against(s4d, S4d())


def test_transformer():
    against(transformer(1), Transformer(heads=1))  # three numbers in the head: one is left over


def test_transformer_of_two_heads():
    layer, (u, dt) = make(Transformer(heads=2)), map(np.asarray, sequence(9))
    assert_close(call(layer, u, dt)[0], transformer(2)(written_out(layer), u, dt))


def make(kind, *, width=WIDTH, dtype=jnp.float64):
    layer = kind.layer(width, STATE, key=jax.random.key(0), dtype=dtype)
    # Non-zero parameters, and steps that are large enough for a few events to have an effect.
    rng = np.random.default_rng(0)
    moved = {name: q + 0.3 * rng.standard_normal(q.shape) for name, q in layer.parameters.items()}
    for name in {"b_delta", "log_step"} & moved.keys():
        moved[name] = moved[name] + 3
    return eqx.tree_at(lambda layer: layer.parameters, layer, moved)


def written_out(layer):
    return {name: np.asarray(q) for name, q in layer.parameters.items()}


def sequence(length, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.standard_normal((length, WIDTH))), jnp.asarray(rng.exponential(1.0, length))


call = eqx.filter_jit(lambda layer, *arguments, **keywords: layer(*arguments, **keywords))
step = eqx.filter_jit(lambda layer, *arguments: layer.step(*arguments))
run = eqx.filter_jit(lambda layer, u, *timing, **how: layer.apply(u, Timing(*timing), **how))


def assert_close(found, wanted, tolerance=1e-12):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), found, wanted)


@streaming
def test_step_equals_scan(kind):
    layer, (u, dt) = make(kind), sequence(9)
    y, final = call(layer, u, dt)
    state = layer.init_state()
    for k in range(9):
        one, state = step(layer, u[k], state, dt[k])
        assert_close(one, y[k])
    assert_close(state, final)


@streaming
def test_two_chunks_match_the_whole_sequence(kind):
    layer, (u, dt) = make(kind), sequence(9)
    y, final = call(layer, u, dt)
    # Each chunk is filled up by padding, so that all cuts share one compiled function.
    for cut in range(10):
        front = np.arange(9) < cut
        first, state = call(layer, np.where(front[:, None], u, 5), dt, front, layer.init_state())
        second, state = call(layer, np.roll(u, -cut, 0), np.roll(dt, -cut), np.roll(~front, -cut), state)
        assert_close(np.concatenate([first[:cut], second[: 9 - cut]]), y)
        assert_close(state, final)


@given(masks=st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=5), seed=st.integers(0, 9))
@settings(max_examples=30)
def test_mamba_in_chunks_with_padding_anywhere(masks, seed):
    """The convolution and the state skip padding, wherever it is."""
    layer = make(KINDS["mamba"])
    mask = np.array(masks)
    u = np.random.default_rng(seed).standard_normal((*mask.shape, WIDTH))
    state, parts = layer.init_state(), []
    for chunk, events in zip(np.where(mask[:, :, None], u, np.nan), mask, strict=True):
        y, state = call(layer, chunk, None, events, state)
        parts.append(np.asarray(y)[events])
    if mask.any():
        assert_close(np.concatenate(parts), mamba(written_out(layer), u[mask], None), 1e-11)
    else:
        assert_close(state, layer.init_state())


@every
@pytest.mark.parametrize("reverse", [False, True])
def test_packing_and_padding_do_not_change_outputs(kind, reverse):
    layer = make(kind)
    alone = [sequence(n, seed) for seed, n in enumerate((5, 1, 2))]  # the last shorter than the convolution
    # Padding after the first and the last sequence, with values that must not be read.
    pad = lambda q, places: np.pad(q, [(0, places)] + [(0, 0)] * (q.ndim - 1), constant_values=7)  # noqa: E731
    u, dt = (jnp.concatenate([pad(a, 3), b, pad(c, 2)]) for a, b, c in zip(*alone, strict=True))
    mask = np.isin(np.arange(13), [5, 6, 7, 11, 12], invert=True)
    reset = np.isin(np.arange(13), [0, 8, 9])
    y, final = run(layer, u, dt, jnp.asarray(mask), jnp.asarray(reset), reverse=reverse)
    found = [run(layer, *one, reverse=reverse) for one in alone]
    assert_close(np.asarray(y)[mask], np.concatenate([y for y, _ in found]))
    assert_close(final, found[0 if reverse else -1][1])


@every
def test_reverse_is_the_sequence_from_its_end(kind):
    """There the gap of an event is the one that follows it, and the first has none."""
    layer, (u, dt) = make(kind), sequence(7)
    y, final = run(layer, u, dt, reverse=True)
    wanted, wanted_final = run(layer, u[::-1], jnp.concatenate([jnp.zeros(1), dt[:0:-1]]))
    assert_close(y, wanted[::-1])
    assert_close(final, wanted_final)


@every
@pytest.mark.parametrize("reverse", [False, True])
def test_windows_read_the_state_at_their_ends(kind, reverse):
    layer, (u, dt) = make(kind), sequence(20)
    mask = jnp.asarray(np.isin(np.arange(20), [6, 7, 17, 18, 19], invert=True))
    reset = jnp.asarray(np.isin(np.arange(20), [0, 8]))

    @eqx.filter_jit
    def states(layer, stride):
        return layer.states(layer.drive(u), dt, mask, reset, stride=stride, reverse=reverse)

    everywhere, final = states(layer, 1)
    ends = [0, 4, 8, 12, 16] if reverse else [3, 5, 11, 15, 16]
    windows, final_of_windows = states(layer, 4)
    assert_close(windows, everywhere[np.array(ends)])
    assert_close(final_of_windows, final)


def make_block(kind):
    block = Block(WIDTH, STATE, BlockConfig(layer=kind), stride=4, key=jax.random.key(0), dtype=jnp.float64)
    return eqx.tree_at(lambda block: block.layer, block, make(kind))


@streaming
def test_a_pooling_block_streams_in_chunks_of_any_size(kind):
    block, (u, dt) = make_block(kind), sequence(22)
    through = eqx.filter_jit(lambda block, signal, state, flush: block(signal, state, flush=flush)[:2])
    whole, _ = through(block, Signal(u, dt), None, True)
    for sizes in ([5, 3, 1, 5, 5, 3, 0], [1] * 4 + [3] * 5 + [0] + [3]):
        state, outputs, start = block.init_state(), [], 0
        for n, size in enumerate(sizes):
            place = np.arange(start, start + 5) % 22
            chunk = Signal(u[place], dt[place], jnp.arange(5) < size)
            out, state = through(block, chunk, state, n == len(sizes) - 1)
            outputs.append(np.asarray(out.values)[np.asarray(out.mask)])
            start += size
        # The first list ends in a chunk without events, which must still return the pending window.
        assert start == 22
        assert_close(np.concatenate(outputs), np.asarray(whole.values))


@every
def test_events_that_are_rows_of_a_table(kind):
    block = make_block(kind)
    table, token = sequence(3)[0], np.arange(8) % 3
    through = eqx.filter_jit(lambda block, signal: block(signal)[0].values)
    from_rows = through(block, Signal(table[token], rows=Rows(table, jnp.asarray(token))))
    assert_close(from_rows, through(block, Signal(table[token])))


@every
def test_gradients_are_finite_and_those_of_finite_differences(kind):
    """Over enough events for the native recurrence, in a batch; with gaps of zero, and one sequence all padding."""
    layer, (u, dt) = make(kind), sequence(40)
    u, dt = np.stack([u, u[::-1]]), np.stack([dt * (np.arange(40) % 5 > 0), dt])
    mask = np.stack([np.arange(40) < 37, np.zeros(40, bool)])
    weights = np.random.default_rng(1).standard_normal((2, 40, WIDTH))

    @jax.jit
    @jax.value_and_grad
    def loss(arguments):
        layer, u, dt = arguments
        y = jax.vmap(lambda *one: layer(*one)[0])(u, dt, mask)
        return jnp.sum(weights * jnp.sin(y) * mask[:, :, None])

    arguments = (layer, jnp.asarray(u), jnp.asarray(dt))
    gradient = loss(arguments)[1]
    assert all(np.isfinite(q).all() for q in jax.tree.leaves(gradient))
    assert not np.asarray(gradient[1])[~mask].any()
    assert all(np.asarray(q).any() for q in gradient[0].parameters.values())
    rng = np.random.default_rng(2)
    direction = jax.tree.map(lambda q: rng.standard_normal(q.shape), arguments)
    along = lambda by: jax.tree.map(lambda q, d: q + by * d, arguments, direction)  # noqa: E731
    numeric = (loss(along(1e-6))[0] - loss(along(-1e-6))[0]) / 2e-6
    products = jax.tree.map(lambda g, d: jnp.sum(g * d), gradient, direction)
    np.testing.assert_allclose(sum(jax.tree.leaves(products)), numeric, rtol=1e-5)


@streaming
@pytest.mark.parametrize("stride", [1, 4])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("regular", [False, True])
def test_chunks_of_time_do_not_change_outputs(kind, stride, reverse, regular, monkeypatch):
    """Chunks of 32 events, the last one filled up, against the whole sequence at once: values and gradients."""
    layer, (u, dt) = make(kind), sequence(100)
    initial = jax.tree.map(lambda q: q + 0.5, layer.init_state())
    mask = jnp.asarray(np.isin(np.arange(100), [6, 7, 31, 32, 98, 99], invert=True))
    reset = jnp.asarray(np.isin(np.arange(100), [40, 64]))
    details = (None, None, None) if regular else (dt, mask, reset)

    def outcome():
        @jax.jit
        def run(layer, u, state):
            def loss(arguments):
                layer, u, state = arguments
                found = layer.states(layer.drive(u), *details, state, stride=stride, reverse=reverse)
                return sum(jnp.sum(jnp.sin(jnp.abs(q))) for q in jax.tree.leaves(found)), found

            return jax.value_and_grad(loss, has_aux=True)((layer, u, state))

        return run(layer, u, initial)

    monkeypatch.setattr(chunks, "_CHUNK_STATES", 1)
    in_chunks = outcome()
    monkeypatch.setattr(chunks, "_CHUNK_STATES", 10**9)
    assert_close(in_chunks, outcome(), 1e-10)


@streaming
def test_memory_in_training_does_not_grow_with_the_states_of_all_events(kind):
    """A batch of spoken digits: written out, each array of states alone has two gigabytes."""
    layer = type(kind)().layer(64, 16, key=jax.random.key(0), dtype=jnp.float32)

    @jax.grad
    def gradient(layer, u, mask):
        run = lambda u, mask: layer.states(layer.drive(u), None, mask, stride=8)[0]  # noqa: E731
        return jnp.sum(jnp.sin(jax.vmap(run)(u, mask)))

    u, mask = jax.ShapeDtypeStruct((16, 3592, 64), jnp.float32), jax.ShapeDtypeStruct((16, 3592), bool)
    needed = jax.jit(gradient).lower(layer, u, mask).compile().memory_analysis()
    assert needed.temp_size_in_bytes < 700e6


def test_an_event_without_a_gap_does_not_change_s4d():
    layer, (u, dt) = make(S4d()), sequence(9)
    _, state = call(layer, u, dt)
    assert_close(step(layer, u[0], state, jnp.zeros(()))[1], state, 0)
    assert np.abs(step(layer, u[0], state, jnp.ones(()))[1] - state).max() > 1e-3


def test_single_precision_keeps_small_steps_of_s4d():
    """(exp(AΔ) - 1)/A where AΔ is far below the precision of 1."""
    layer = S4d(dt_min=1e-6, dt_max=1e-6).layer(1, 2, key=jax.random.key(0), dtype=jnp.float32)
    _, gain = layer._discretize(jnp.ones(1, jnp.float32))
    np.testing.assert_allclose(gain, np.full(gain.shape, 1e-6), rtol=1e-5)


def test_the_transformer_sees_no_later_event():
    layer, (u, dt) = make(KINDS["transformer"]), sequence(9)
    y, _ = call(layer, u, dt)
    other_u, other_dt = sequence(9, seed=1)
    for k in (1, 4, 8):
        earlier = np.arange(9) < k
        changed, _ = call(layer, np.where(earlier[:, None], u, other_u), np.where(earlier, dt, other_dt))
        assert_close(changed[:k], y[:k])
        assert np.abs(changed[k] - y[k]).min() > 1e-4


def test_the_transformer_knows_only_the_time_between_events():
    layer, (u, dt) = make(KINDS["transformer"]), sequence(9)
    y, _ = call(layer, u, dt)
    assert_close(call(layer, u, np.concatenate([dt[:1] + 50, dt[1:]]))[0], y)
    assert np.abs(call(layer, u, 2 * dt)[0][1:] - y[1:]).max() > 1e-3
    assert_close(call(layer, u, np.ones(9))[0], call(layer, u)[0])


def test_the_transformer_ignores_padding():
    layer, (u, dt) = make(KINDS["transformer"]), sequence(9)
    mask = np.isin(np.arange(9), [0, 3, 4, 8], invert=True)
    for gaps in (dt, None):
        y, _ = call(layer, np.where(mask[:, None], u, np.nan), gaps, mask)
        assert np.isfinite(y).all()
        assert_close(np.asarray(y)[mask], call(layer, u[mask], None if gaps is None else gaps[mask])[0])


def test_the_transformer_cannot_stream():
    for start in (
        make(KINDS["transformer"]).init_state,
        make_block(KINDS["transformer"]).init_state,
        lambda: make(KINDS["transformer"])(np.zeros((2, WIDTH)), state=np.zeros(3)),
    ):
        with pytest.raises(ValueError, match="a transformer cannot stream: it attends to the whole past"):
            start()


def test_a_block_without_gate_is_a_transformer_with_norms_in_front():
    config = BlockConfig(layer=KINDS["transformer"], gate=False)
    block = Block(WIDTH, STATE, config, key=jax.random.key(0), dtype=jnp.float64)
    u, dt = map(np.asarray, sequence(9))
    normed = (u - u.mean(1, keepdims=True)) / np.sqrt(u.var(1, keepdims=True) + 1e-5)
    out = eqx.filter_jit(lambda block, signal: block(signal)[0].values)(block, Signal(jnp.asarray(u), jnp.asarray(dt)))
    assert_close(out, u + transformer(2)(written_out(block.layer), normed, dt), 1e-11)


def test_where_they_start():
    parameters = Mamba().init(32, 5, key=jax.random.key(0), dtype=jnp.float32)
    steps = softplus(np.asarray(parameters["b_delta"], np.float64))
    assert 0.00099 < steps.min() < 0.003 < 0.03 < steps.max() < 0.101
    np.testing.assert_allclose(np.exp(parameters["A_log"]), np.tile(np.arange(1, 6), (64, 1)), rtol=1e-6)
    assert parameters["W_delta"].shape == (64, 2)
    assert parameters["K"].shape == (4, 64)
    parameters = S4d().init(64, 5, key=jax.random.key(0), dtype=jnp.float32)
    steps = np.exp(np.asarray(parameters["log_step"], np.float64))
    assert 0.00099 < steps.min() < 0.003 < 0.03 < steps.max() < 0.101
    np.testing.assert_allclose(-np.exp(parameters["decay"]), np.full((64, 5), -0.5), rtol=1e-6)
    np.testing.assert_allclose(parameters["omega"][7], math.pi * np.arange(5), rtol=1e-6)
    assert (S4d.reads_gaps, Mamba.reads_gaps, Transformer.reads_gaps) == (True, False, True)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Mamba(kernel=0), "Mamba: kernel=0 must be at least 1"),
        (lambda: Mamba(rank=0), "Mamba: rank=0 must be at least 1"),
        (
            lambda: Mamba(dt_min=0.1, dt_max=0.01),
            "Mamba: dt_min=0.1 and dt_max=0.01 must be positive and in this order",
        ),
        (lambda: S4d(dt_min=0.0), "S4d: dt_min=0.0 and dt_max=0.1 must be positive and in this order"),
        (lambda: Transformer(heads=0), "Transformer: heads=0 must be at least 1"),
        (lambda: make(Transformer(heads=3)), "Transformer: heads=3 does not divide width=4"),
        (lambda: make(Transformer(), width=0), "Transformer: width=0 must be at least 1"),
        (lambda: make(Mamba(), width=0), "Mamba: width=0 must be at least 1"),
        (lambda: S4d().layer(4, 0, key=jax.random.key(0), dtype="float32"), "S4d: state=0 must be at least 1"),
    ],
)
def test_invalid_settings_are_rejected(made, message):
    with pytest.raises(ValueError, match=message):
        made()
