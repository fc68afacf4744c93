"""Invalid inputs are rejected: always outside of jit, and in checked mode inside of it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import s7
from s7.checks import InvalidInput, check_inputs

LAYER = s7.S7Layer(2, 3, key=jax.random.key(0))
MODEL = s7.S7Model(encoder=s7.LinearEncoder(2), head=s7.Mean(2), width=4, state=3, depth=1, key=jax.random.key(0))
TOKENS = s7.S7Model(encoder=s7.TokenEncoder(5), head=s7.Mean(2), width=4, state=3, depth=1, key=jax.random.key(0))
GOOD = np.ones((5, 2), np.float32)
GAPS = np.ones(5, np.float32)
BAD = np.where(np.arange(5)[:, None] == 3, np.nan, GOOD).astype(np.float32)
BACK = np.array([0, 1, -2, 1, 1], np.float32)

CASES = {
    "layer, not finite": (lambda u: LAYER(u)[0], BAD, "u[3, 0] = nan is not finite"),
    "layer, gap": (
        lambda dt: LAYER(GOOD, dt)[0],
        BACK,
        "dt[2] = -2.0 is not a gap: gaps must be finite and not negative",
    ),
    "not finite": (lambda u: MODEL(u), BAD, "inputs[3, 0] = nan is not finite"),
    "negative gap": (
        lambda dt: MODEL(GOOD, dt),
        BACK,
        "dt[2] = -2.0 is not a gap: gaps must be finite and not negative",
    ),
    "infinite gap": (
        lambda dt: MODEL(GOOD, dt),
        GAPS * np.inf,
        "dt[0] = inf is not a gap: gaps must be finite and not negative",
    ),
    "negative length": (
        lambda length: MODEL(GOOD, GAPS, length),
        np.array(-1),
        "length = -1 is not a length: the sequence has 5 events",
    ),
    "length beyond the end": (
        lambda length: MODEL(GOOD, GAPS, length),
        np.array(6),
        "length = 6 is not a length: the sequence has 5 events",
    ),
    "token": (lambda n: TOKENS(n), np.array([0, 77, -1]), "inputs[1] = 77 is not a token: tokens are 0 to 4"),
    "negative token": (lambda n: TOKENS(n), np.array([0, 4, -1]), "inputs[2] = -1 is not a token: tokens are 0 to 4"),
    "segment": (
        lambda n: MODEL.packed(GOOD, n, 2),
        np.array([0, 0, 1, 2, 2]),
        "segments[3] = 2 is not a segment: segments are -1 (padding) or 0 to 1",
    ),
    "chunk": (
        lambda u: MODEL.chunk(u, MODEL.init_state())[0],
        BAD,
        "inputs[3, 0] = nan is not finite",
    ),
    "step": (lambda u: MODEL.step(u, MODEL.init_state())[0], BAD[3], "inputs[0, 0] = nan is not finite"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_call_outside_of_jit_rejects_invalid_inputs(case):
    function, argument, message = CASES[case]
    for given in (argument, jnp.asarray(argument)):
        with pytest.raises(InvalidInput) as caught:
            function(given)
        assert str(caught.value) == message
    with s7.checked(False), pytest.raises(InvalidInput):
        function(argument)


@pytest.mark.parametrize(("case", "compile"), [*((case, jax.jit) for case in CASES), ("chunk", eqx.filter_jit)])
def test_compiled_code_rejects_them_in_checked_mode_with_the_same_message(case, compile, caplog):
    function, argument, message = CASES[case]
    jax.block_until_ready(compile(function)(jnp.asarray(argument)))
    with pytest.raises(InvalidInput) as caught, s7.checked():
        jax.block_until_ready(compile(function)(jnp.asarray(argument)))
    assert str(caught.value) == message
    assert caught.value.__suppress_context__
    assert not caplog.records


@pytest.mark.parametrize("compile", [lambda function: function, jax.jit])
def test_under_vmap_the_position_has_the_batch_in_front(compile):
    batch = np.stack([GOOD, BAD])
    run = compile(jax.vmap(MODEL))
    with pytest.raises(InvalidInput) as caught, s7.checked():
        jax.block_until_ready(run(batch))
    assert str(caught.value) == "inputs[1, 3, 0] = nan is not finite"
    with s7.checked():
        assert np.isfinite(run(np.stack([GOOD, GOOD]))).all()


def test_under_vmap_lengths_and_nested_batches_are_checked_too():
    with pytest.raises(ValueError, match=r"length\[1\] = 9"):
        jax.vmap(MODEL, in_axes=(0, None, 0))(np.stack([GOOD, GOOD]), GAPS, np.array([5, 9]))
    nested = np.stack([np.stack([GOOD] * 3), np.stack([GOOD, BAD, GOOD])])
    with pytest.raises(ValueError, match=r"inputs\[1, 1, 3, 0\] = nan"):
        jax.vmap(jax.vmap(MODEL))(nested)


def test_checked_gradients():
    def loss(model, u):
        return jax.vmap(model)(u).sum()

    gradient = eqx.filter_jit(eqx.filter_grad(loss))
    with s7.checked():
        checked = gradient(MODEL, np.stack([GOOD, GOOD]))
    jax.tree.map(np.testing.assert_array_equal, checked, gradient(MODEL, np.stack([GOOD, GOOD])))
    with pytest.raises(ValueError, match=r"^inputs\[0, 3, 0\] = nan is not finite$"), s7.checked():
        gradient(MODEL, np.stack([BAD, GOOD]))


def test_large_integers_do_not_wrap_around():
    with pytest.raises(ValueError, match=r"inputs\[0\] = 4294967297 is not a token"):
        TOKENS(np.array([2**32 + 1]))


def test_padding_is_not_checked():
    y, _ = LAYER(BAD, mask=np.arange(5) < 3)
    assert np.isfinite(y[:3]).all()
    assert np.isfinite(MODEL(BAD, BACK, 2)).all()
    assert np.isfinite(TOKENS(np.array([1, 2, 99], np.uint8), None, 2)).all()


def test_the_environment_turns_checked_mode_on(monkeypatch):
    monkeypatch.setenv("S7_CHECKED", "1")
    with pytest.raises(Exception, match=r"u\[3, 0\] = nan is not finite"):
        jax.block_until_ready(jax.jit(lambda u: LAYER(u)[0])(BAD))
    with s7.checked(False):
        jax.jit(lambda u: LAYER(u)[0])(BAD)


def test_other_errors_pass_through_checked_mode():
    with pytest.raises(ZeroDivisionError), s7.checked():
        1 / 0  # noqa: B018


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.stack([GOOD, BAD]), None, None), r"train: inputs\[1, 3, 0\] = nan is not finite"),
        ((GOOD, BACK, None), r"train: dt\[2\] = -2.0 is negative or not finite"),
        ((np.stack([GOOD, GOOD]), None, np.array([5, 6])), r"train: length\[1\] = 6 is not within 0 to 5"),
        ((np.ones((5, 3)), None, None), r"train: an event has shape \(3,\), the encoder reads \(2,\)"),
    ],
)
def test_data_are_checked_on_the_host(arguments, message):
    with pytest.raises(ValueError, match=message):
        check_inputs(MODEL.config.encoder, *arguments, name="train")
    check_inputs(MODEL.config.encoder, np.stack([GOOD, BAD]), None, np.array([5, 3]))


def test_data_laid_end_to_end_name_the_sequence():
    tokens = np.array([0, 1, 2, 3, 9], np.uint8)
    with pytest.raises(ValueError, match=r"train: inputs of sequence 1, event 2 is not a token: .* 0 to 4: 9"):
        check_inputs(TOKENS.config.encoder, tokens, offsets=np.array([0, 2, 5]), name="train")


def test_a_poisoned_stream_is_never_saved(tmp_path):
    _, state = eqx.filter_jit(MODEL.chunk)(BAD, MODEL.init_state())
    with pytest.raises(ValueError, match=r"not written, blocks\.0\.x\[0\] is nan"):
        s7.save_state(MODEL, state, tmp_path / "state.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_poisoned_model_is_never_saved(tmp_path):
    model = eqx.tree_at(lambda m: m.head["c"], MODEL, jnp.array([0.0, jnp.inf], jnp.float32))
    with pytest.raises(ValueError, match=r"not written, head\.c\[1\] is inf"):
        s7.save(model, tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("as_users_see_it")
def test_timedeltas_and_lengths_that_are_not_whole_are_refused(key):
    model = s7.S7Model(encoder=s7.LinearEncoder(1), head=s7.Mean(2), width=4, state=3, depth=1, key=key)
    inputs = np.zeros((3, 1))
    for kind in ("timedelta64[s]", "datetime64[s]"):
        with pytest.raises(TypeError, match=r"^dt holds .*64\[s\], expected numbers; use s7\.gaps"):
            model(inputs, np.arange(3).astype(kind))
    with pytest.raises(TypeError, match=r"^length must be a whole number, not float"):
        model(inputs, None, 2.5)
