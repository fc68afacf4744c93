"""The model: streaming equals calling, and padding and packing do not change outputs, for every kind of block."""

from functools import partial
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import s7
from s7.block import BlockConfig
from s7.data import pack
from s7.layer import Drive

LENGTH = 41
CUTS = (0, 1, 8, 9, 24, 24, LENGTH)
# Lengths are given as arrays: a plain number would be compiled in.
call = eqx.filter_jit(lambda model, *arguments, **keywords: model(*arguments, **keywords))
chunk = eqx.filter_jit(s7.S7Model.chunk)
step = eqx.filter_jit(s7.S7Model.step)
readout = eqx.filter_jit(s7.S7Model.readout)

POOLED = (s7.Stage(stride=3, width=6, pool="time"), s7.Stage(stride=4, pool="mean"))
LINEAR = {"encoder": s7.LinearEncoder(2), "width": 5, "state": 4, "dtype": "float64"}
MODELS = {
    "plain": {**LINEAR, "head": s7.Mean(3), "depth": 1},
    "pooled, time mean": {**LINEAR, "head": s7.TimeMean(3), "stages": POOLED},
    "pooled, per step, oscillating": {
        **LINEAR,
        "head": s7.PerStep(3),
        "stages": (s7.Stage(stride=4, pool="last"),),
        "transition": s7.Stable(oscillate=True),
        "form": s7.Factored(rank=3),
    },
    "norm after, last": {
        **LINEAR,
        "head": s7.Last(3),
        "stages": (s7.Stage(stride=5), s7.Stage(stride=2)),
        "norm": "rms",
        "norm_place": "after",
    },
    "batch norm, step": {**LINEAR, "head": s7.Mean(3), "stages": POOLED, "norm": "batch", "transition": s7.Step()},
    "tokens": {**LINEAR, "encoder": s7.TokenEncoder(11), "head": s7.Mean(3), "stages": POOLED, "norm": "none"},
    "default gap": {**LINEAR, "head": s7.Mean(3), "stages": POOLED, "dt": 0.5},
}


def build(name, key=None, **changes):
    return s7.S7Model(key=jax.random.key(1) if key is None else key, **{**MODELS[name], **changes})


def events(name, length=LENGTH, seed=0, *, timed=True):
    rng = np.random.default_rng(seed)
    inputs = rng.integers(0, 11, length) if name == "tokens" else rng.normal(size=(length, 2))
    return inputs, rng.exponential(1.0, length) if timed else None


def assert_close(a, b, tolerance=1e-11):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=0, atol=tolerance * max(1, np.abs(b).max()))


IN_TIME = [(name, True) for name in MODELS] + [("plain", False), ("pooled, time mean", False)]


@pytest.mark.parametrize(("name", "timed"), IN_TIME)
def test_chunks_match_the_whole_sequence_at_every_cut(name, timed):
    model = build(name)
    inputs, dt = events(name, timed=timed)
    per_step = model.config.head.per_step
    state, rows = model.init_state(), []
    for start, end in pairwise(CUTS):
        # Chunks of different lengths, padded to one length.
        piece, gaps = inputs[start : start + 17], None if dt is None else dt[start : start + 17]
        out, state = chunk(model, piece, state, gaps, np.array(end - start))
        whole = call(model, inputs, dt, np.array(end))
        if per_step:
            rows.append(out.values[out.mask])
            assert_close(readout(model, state), whole[(end - 1) // model.stride])
        else:
            assert_close(out, whole)
            if name == "pooled, time mean":
                assert_close(readout(model, state), whole)
    if per_step:
        complete = np.concatenate(rows)
        assert len(complete) == LENGTH // model.stride
        assert_close(complete, whole[: len(complete)])


def test_an_empty_chunk_does_not_change_the_state():
    for name in ("pooled, time mean", "pooled, per step, oscillating"):
        model = build(name)
        inputs, dt = events(name, 17)
        out, state = chunk(model, inputs, model.init_state(), dt)
        again, same = model.chunk(inputs[:0], state, dt[:0])
        jax.tree.map(lambda a, b: assert_close(a, b, 0), same, state)
        if model.config.head.per_step:
            assert again.values.shape == (0, 3)
        else:
            assert_close(again, out)


@pytest.mark.parametrize(("name", "timed"), IN_TIME[1:4] + IN_TIME[-1:])
def test_step_equals_call(name, timed):
    model = build(name)
    inputs, dt = events(name, timed=timed)
    state = model.init_state()
    for k in range(14):
        out, state = step(model, inputs[k], state, None if dt is None else dt[k])
        whole = call(model, inputs, dt, np.array(k + 1))
        assert_close(out, whole[k // model.stride] if model.config.head.per_step else whole)


def test_a_step_runs_each_block_once_on_one_event(monkeypatch):
    model = build("pooled, time mean")
    calls = []

    def drive(layer, u):
        calls.append(u.shape[0])
        return Drive(layer.transition.raw(layer.rates, u), layer.form.drive(layer.maps, u))

    monkeypatch.setattr(s7.S7Layer, "drive", drive)
    inputs, dt = events("pooled, time mean")
    jax.eval_shape(model.step, inputs[0], model.init_state(), dt[0])
    assert calls == [1] * len(model.blocks)


def test_step_runs_inside_a_scan():
    model = build("pooled, time mean")
    inputs, dt = events("pooled, time mean")

    def advance(state, event):
        out, state = model.step(event[0], state, event[1])
        return state, out

    _, outs = jax.jit(lambda: jax.lax.scan(advance, model.init_state(), (inputs, dt)))()
    assert_close(outs[-1], call(model, inputs, dt))


BOTH_WAYS = [("pooled, time mean", True), ("tokens", True)]


@pytest.mark.parametrize(("name", "bidirectional"), [(name, False) for name in MODELS] + BOTH_WAYS)
def test_padding_changes_no_output_and_no_gradient(name, bidirectional):
    model = build(name, bidirectional=bidirectional)
    inputs, dt = events(name, 19)
    junk = np.full((10, 2), np.nan) if inputs.ndim == 2 else np.full(10, -7)
    padded, padded_dt = np.concatenate([inputs, junk]), np.concatenate([dt, np.full(10, np.nan)])
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    steps = -(-19 // model.stride) if model.config.head.per_step else None

    def loss(arrays, inputs, dt, length):
        out = eqx.combine(arrays, rest)(inputs, dt, length)
        return jnp.sum(jnp.sin(out[:steps])), out

    run = jax.jit(jax.grad(loss, has_aux=True))
    gradient, out = run(arrays, inputs, dt, None)
    padded_gradient, padded_out = run(arrays, padded, padded_dt, 19)
    assert_close(padded_out[:steps], out)
    jax.tree.map(assert_close, padded_gradient, gradient)


@pytest.mark.parametrize(
    ("name", "bidirectional"), [("plain", False), ("batch norm, step", False), ("norm after, last", False), *BOTH_WAYS]
)
def test_packing_equals_separate_sequences(name, bidirectional):
    model = build(name, bidirectional=bidirectional)
    lengths = (9, 1, 24, 5)
    sequences = [events(name, 24, seed) for seed in range(4)]
    cut = [(inputs[:n], dt[:n]) for n, (inputs, dt) in zip(lengths, sequences, strict=True)]
    packed = pack([inputs for inputs, _ in cut], [dt for _, dt in cut], stride=model.stride, length=120)
    run = eqx.filter_jit(lambda model, *a: model.packed(*a[:2], 4, a[2]))
    outs = run(model, packed.inputs, packed.segments, packed.dt)
    alone = [call(model, *one, np.array(n)) for n, one in zip(lengths, sequences, strict=True)]
    assert_close(outs, np.stack(alone))


def test_packed_steps_keep_their_positions():
    name = "pooled, per step, oscillating"
    model = build(name)
    first, second = events(name, 24, 0), events(name, 24, 1)
    packed = pack([first[0][:9], second[0]], [first[1][:9], second[1]], stride=model.stride)
    rows = eqx.filter_jit(lambda model, *a: model.packed(*a[:2], 2, a[2]))(
        model, packed.inputs, packed.segments, packed.dt
    )
    assert_close(rows[:3], call(model, *first, np.array(9))[:3])
    assert_close(rows[3:], call(model, *second, np.array(24)))


@pytest.mark.usefixtures("as_users_see_it")
def test_packing_checks_where_sequences_start():
    model = build("pooled, time mean")
    with pytest.raises(ValueError, match="sequence 1 starts at 5, which is not a multiple of the stride 12"):
        model.packed(np.zeros((24, 2)), np.repeat([0, 1, -1], [5, 10, 9]), 2)


def test_a_bidirectional_model_reads_the_flipped_sequence_with_its_roles_exchanged():
    model = build("plain", bidirectional=True, head=s7.PerStep(3), depth=1)
    swap = lambda m: (m.blocks[0].layer, m.blocks[0].backward)  # noqa: E731
    mirrored = eqx.tree_at(swap, model, swap(model)[::-1])
    inputs, dt = events("plain")
    flipped_dt = np.concatenate([[0.0], dt[1:][::-1]])
    assert_close(call(model, inputs, dt), call(mirrored, inputs[::-1], flipped_dt)[::-1])


def test_a_bidirectional_model_cannot_stream():
    model = build("plain", bidirectional=True)
    with pytest.raises(ValueError, match="a bidirectional model cannot stream"):
        model.init_state()


def test_tokens_computed_once_per_row_equal_those_computed_per_event(monkeypatch):
    inputs, dt = events("tokens")
    for norm in ("none", "layer"):
        model = build("tokens", norm=norm)
        by_row = jax.jit(lambda i, d, m=model: m(i, d))(inputs, dt)
        with monkeypatch.context() as patch:
            patch.setattr("s7.model_inputs.TABLE_PER_EVENT", 0)
            by_event = jax.jit(lambda i, d, m=model: m(i, d))(inputs, dt)
        assert_close(by_row, by_event, 1e-13)


def test_the_parts_of_an_event_can_be_left_out():
    x, y, p = np.array([3, 0, 5]), np.array([1, 3, 0]), np.array([1, -1, 1])
    tokens = s7.tokenize(x, y, p, sensor=(6, 4))
    for parts in ("token", "x", "y", "polarity"):
        encoder = s7.EventEncoder((6, 4), **{name: name == parts for name in ("token", "x", "y", "polarity")})
        table = encoder.init(5, key=jax.random.key(0), dtype=jnp.float64)
        assert list(table) == [parts]
        index = {"token": tokens, "x": x, "y": y, "polarity": (p + 1) // 2}[parts]
        np.testing.assert_array_equal(encoder(table, jnp.asarray(tokens)), table[parts][index])
    with pytest.raises(ValueError, match="are all False; at least one must be True"):
        s7.EventEncoder((6, 4), token=False, x=False, y=False, polarity=False)


def test_retrieval_reads_two_documents_whole_or_streamed():
    settings = {**MODELS["tokens"], "head": s7.Retrieval(), "norm": "layer"}
    model = s7.S7Model(key=jax.random.key(0), **settings)
    first, second = np.arange(13) % 11, np.arange(20) % 7
    pair = np.stack([np.pad(first, (0, 7), constant_values=-1), second])
    out = call(model, pair, None, np.array([13, 20]))
    assert out.shape == (2,)
    swapped = call(model, pair[::-1], None, np.array([20, 13]))
    assert np.abs(out - swapped).max() > 1e-6
    state = model.init_state()
    _, state = chunk(model, pair[:, :10], state)
    streamed, state = chunk(model, pair[:, 10:], state, None, np.array([3, 10]))
    assert_close(streamed, out)
    with pytest.raises(ValueError, match="reads 2 documents"):
        model(np.zeros((3, 5), int))


def test_pictures_are_encoded_each_by_itself():
    encoder = s7.ImageEncoder((24, 24, 1))
    model = s7.S7Model(encoder=encoder, head=s7.PerStep(2), width=6, state=4, depth=1, key=jax.random.key(0))
    pictures = np.random.default_rng(0).random((7, 24, 24, 1)).astype(np.float32)
    assert call(model, pictures).shape == (7, 2)
    encode = jax.jit(encoder.__call__)
    alone = np.concatenate([encode(model.encoder, pictures[k : k + 1]) for k in range(7)])
    np.testing.assert_allclose(encode(model.encoder, pictures), alone, atol=1e-5)


def test_batch_norm_uses_the_batch_in_training_and_remembers():
    model = build("plain", norm="batch", depth=1)
    rng = np.random.default_rng(0)
    inputs, lengths = rng.normal(size=(4, 12, 2)), np.array([12, 7, 9, 1])
    inputs[1, 7:] = np.nan
    train = jax.jit(
        jax.vmap(partial(model.training, key=None, batch_axis="batch"), axis_name="batch", out_axes=(0, None))
    )
    _, moments = train(inputs, None, lengths)
    encoded = [model.config.encoder(model.encoder, jnp.asarray(q[:n])) for q, n in zip(inputs, lengths, strict=True)]
    rows = np.concatenate(encoded)
    np.testing.assert_allclose(moments[0].mean, 0.05 * rows.mean(0), atol=1e-12)
    np.testing.assert_allclose(moments[0].variance, 0.95 + 0.05 * rows.var(0), atol=1e-12)
    updated = model.with_moments(moments)
    assert_close(updated.moments[0].mean, moments[0].mean, 0)
    assert np.abs(call(updated, inputs[0]) - call(model, inputs[0])).max() > 1e-6


def test_dropout_is_off_without_a_key_and_on_with_one(key):
    model = build("plain", dropout=0.5)
    inputs, dt = events("plain")
    assert_close(call(model, inputs, dt), call(model, inputs, dt), 0)
    dropped = call(model, inputs, dt, key=key)
    assert np.abs(dropped - call(model, inputs, dt)).max() > 1e-3
    assert_close(dropped, call(model, inputs, dt, key=key), 0)


@given(stride=st.integers(1, 6), length=st.integers(1, 13))
@settings(max_examples=6)
def test_an_unfinished_window_is_never_dropped(stride, length):
    stages = (s7.Stage(stride=stride, pool="last"),)
    model = s7.S7Model(**LINEAR, head=s7.PerStep(3), stages=stages, key=jax.random.key(1))
    inputs, dt = events("plain", length)
    out = call(model, inputs, dt)
    assert out.shape[0] == -(-length // stride)
    assert_close(out[-1], call(unpooled(model), inputs, dt)[-1])


def unpooled(model):
    """The same one-block model with an output at every event."""
    pooled = model.blocks[0]
    parts = lambda block: (block.layer, block.gate, block.norm)  # noqa: E731
    block = s7.Block(5, 4, model.config, key=jax.random.key(0), dtype=jnp.float64)
    return eqx.tree_at(lambda m: m.blocks[0], model, eqx.tree_at(parts, block, parts(pooled)))


def test_the_papers_eigenworms_row_has_its_parameter_count():
    # Depth 1, H = 16, P = 14, J = 7, 6 inputs, 5 classes: "12k" in the paper.
    model = s7.S7Model(
        encoder=s7.LinearEncoder(6),
        head=s7.Mean(5),
        width=16,
        state=14,
        blocks=7,
        depth=1,
        form=s7.Full(D="full"),
        key=jax.random.key(0),
    )
    assert 11_500 <= model.parameter_count <= 13_000


def test_a_stream_stays_near_double_precision_for_200_000_steps():
    settings = {**MODELS["pooled, time mean"], "transition": s7.Stable(tau=(2, 5000))}
    double = s7.S7Model(key=jax.random.key(0), **settings)
    single = s7.S7Model(key=jax.random.key(0), **{**settings, "dtype": "float32"})
    exact = jax.tree.leaves(eqx.filter(double, eqx.is_inexact_array))
    arrays, rest = eqx.partition(single, eqx.is_inexact_array)
    rounded = jax.tree.unflatten(jax.tree.structure(arrays), [q.astype(jnp.float32) for q in exact])
    single = eqx.combine(rounded, rest)
    rng = np.random.default_rng(0)
    states = [single.init_state(), double.init_state()]
    for _ in range(20):
        inputs, dt = rng.normal(size=(10_000, 2)), rng.exponential(1.0, 10_000)
        states = [chunk(m, inputs, s, dt)[1] for m, s in zip((single, double), states, strict=True)]
    for ours, exact in zip(states[0].blocks, states[1].blocks, strict=True):
        assert_close(ours.x, exact.x, 1e-3)
    assert_close(readout(single, states[0]), readout(double, states[1]), 1e-3)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"widht": 3}, "no setting 'widht'; did you mean 'width'"),
        ({"norm": "group"}, "norm='group' is not one of 'layer', 'rms', 'batch', 'none'"),
        ({"norm_place": "inside"}, "norm_place='inside' is not one of"),
        ({"dropout": 1.0}, "dropout=1.0 must be at least 0 and below 1"),
        ({"stages": ()}, "stages is empty"),
        ({"depth": 2, "stages": POOLED}, "depth or stages, not both"),
        ({"dept": 2}, r"S7Model.dept: no setting 'dept'; did you mean 'depth'"),
        ({"depth": "2"}, r"depth='2' is not a whole number"),
        ({"width": 2.5}, r"S7Model.width=2.5 is not a whole number"),
        ({"dtype": "float16"}, "dtype='float16' is not one of"),
    ],
)
def test_invalid_settings_are_rejected(change, message, key):
    with pytest.raises(ValueError, match=message):
        s7.S7Model(encoder=s7.LinearEncoder(2), head=s7.Mean(3), key=key, **change)


def test_blocks_hold_the_settings_of_blocks_and_no_others(key):
    model = s7.S7Model(encoder=s7.LinearEncoder(2), head=s7.Mean(3), depth=np.int64(2), norm="rms", key=key)
    assert len(model.blocks) == model.config.depth == 2
    for block in model.blocks:
        assert type(block.config) is BlockConfig
        assert block.config == BlockConfig(norm="rms", transition=s7.Stable(counting=True))


@pytest.mark.usefixtures("as_users_see_it")
def test_missing_parts_are_rejected(key):
    with pytest.raises(ValueError, match="S7Model needs head="):
        s7.S7Model(encoder=s7.LinearEncoder(2), key=key)


@pytest.mark.usefixtures("as_users_see_it")
def test_invalid_inputs_are_rejected():
    model = build("plain")
    with pytest.raises(ValueError, match=r"inputs have shape \(4, 3\), expected \(length, 2\)"):
        model(np.zeros((4, 3)))
    with pytest.raises(ValueError, match=r"dt has shape \(3,\), expected \(4,\)"):
        model(np.zeros((4, 2)), np.zeros(3))
    with pytest.raises(ValueError, match="the sequence has no events"):
        model(np.zeros((0, 2)))
    tokens = build("tokens")
    with pytest.raises(ValueError, match=r"inputs\[2\] = 11 is not a token: tokens are 0 to 10"):
        tokens(np.array([0, 10, 11]))
    with pytest.raises(TypeError, match="tokens must be integers, not float"):
        tokens(np.zeros(3))
