"""Saving and loading: bit-equal, whole or not at all, and a file that is not right is refused."""

import json
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

import s7
from s7 import storage

ENCODERS = [s7.TokenEncoder(7), s7.EventEncoder((3, 2), token=False), s7.LinearEncoder(2), s7.ImageEncoder((8, 9, 1))]
HEADS = [s7.Mean(2), s7.TimeMean(2), s7.Last(2), s7.PerStep(2), s7.Retrieval()]
TRANSITIONS = [s7.Stable(oscillate=True, tau=(1, 9)), s7.Plain(), s7.Step(), s7.Ring()]
FORMS = [s7.Full(D="full"), s7.Factored(rank=2), s7.Static()]


def build(**changes):
    settings = {
        "encoder": s7.LinearEncoder(2),
        "head": s7.Mean(2),
        "width": 4,
        "state": 3,
        "stages": (s7.Stage(stride=2, width=5),),
        "norm": "batch",
    }
    return s7.S7Model(key=jax.random.key(3), **{**settings, **changes})


def assert_same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert left.dtype == right.dtype
        assert np.asarray(left).tobytes() == np.asarray(right).tobytes()


@pytest.mark.parametrize(
    "changes",
    [{"encoder": e} for e in ENCODERS]
    + [{"head": h} for h in HEADS]
    + [{"transition": t} for t in TRANSITIONS]
    + [{"form": f} for f in FORMS]
    + [{"dtype": "float64", "bidirectional": True}],
    ids=str,
)
def test_a_model_comes_back_to_the_bit(changes, tmp_path):
    model = build(**changes)
    path = s7.save(model, tmp_path / "run")
    assert path == tmp_path / "run" / "model.safetensors"
    back = s7.load(tmp_path / "run")
    assert back.config == model.config
    assert_same(back, model)


def test_a_stream_goes_on_in_another_process(tmp_path):
    model = build(transition=s7.Stable(oscillate=True))
    _, state = eqx.filter_jit(model.chunk)(np.ones((5, 2)), model.init_state(), np.ones(5))
    path = s7.save_state(state, model, tmp_path / "state.safetensors")
    assert_same(s7.load_state(model, path), state)
    with pytest.raises(ValueError, match="of a model with another configuration"):
        s7.load_state(build(width=6), path)
    with pytest.raises(ValueError, match="holds a state, not a model"):
        s7.load(path)


def test_a_truncated_file_is_refused(tmp_path):
    path = s7.save(build(), tmp_path / "m.safetensors")
    whole = path.read_bytes()
    for size in (0, 4, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"m\.safetensors: truncated or not a safetensors file"):
            s7.load(path)


def test_any_altered_byte_is_refused(tmp_path):
    path = s7.save(build(), tmp_path / "m.safetensors")
    whole = bytearray(path.read_bytes())
    for place in np.linspace(8, len(whole) - 1, 60).astype(int):
        altered = whole.copy()
        altered[place] ^= 1
        path.write_bytes(altered)
        with pytest.raises(ValueError, match=r"m\.safetensors: "):
            s7.load(path)


def rewrite(path, change):
    """The file with its arrays and its header changed, and a checksum that fits them."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    about = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["s7"])
    arrays = load_tensors(data)
    change(arrays, about)
    text = json.dumps(about, sort_keys=True)
    path.write_bytes(save_tensors(arrays, {"s7": text, "sha256": storage._checksum(arrays, text)}))


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, h: a.pop("head.c"), "missing: head.c"),
        (lambda a, h: a.update(extra=np.zeros(2)), "unknown: extra"),
        (lambda a, h: a.update({"head.c": np.zeros(3, np.float32)}), r"head.c is float32\[3\], expected float32\[2\]"),
        (lambda a, h: h.update(format=99), "format 99, this version of s7 reads format 1; update s7"),
        (lambda a, h: h["config"].update(kind="S8Model"), "the configuration is not a model's"),
        (lambda a, h: h["config"].update(widht=3), "config.widht: no setting .widht.; did you mean .width."),
        (lambda a, h: h["config"].pop("encoder"), "config.encoder: ModelConfig needs it"),
    ],
)
def test_a_file_that_does_not_fit_says_where(change, message, tmp_path):
    path = s7.save(build(), tmp_path / "m.safetensors")
    rewrite(path, change)
    with pytest.raises(ValueError, match=message):
        s7.load(path)


@pytest.mark.usefixtures("as_users_see_it")
def test_other_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.safetensors: no such file"):
        s7.load(tmp_path / "nothing.safetensors")
    with pytest.raises(FileNotFoundError, match=r"no model in this folder; expected one of best\.safetensors"):
        s7.load(tmp_path)
    path = tmp_path / "other.safetensors"
    path.write_bytes(save_tensors({"a": np.zeros(2)}))
    with pytest.raises(ValueError, match="a safetensors file, but not one of s7's"):
        s7.load(path)
    with pytest.raises(TypeError, match=r"s7\.save writes an S7Model, not a dict"):
        s7.save({}, path)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = s7.save(build(), tmp_path / "m.safetensors")
    before = path.read_bytes()

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        s7.save(eqx.tree_at(lambda m: m.head["c"], build(), jnp.ones(2, jnp.float32)), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
