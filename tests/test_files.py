"""Saving and loading: bit-equal and atomic; invalid files are rejected."""

import errno
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

import s7
from s7 import registry, storage

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


class MyStable(s7.Stable):
    """A user's transition with an additional field."""


@dataclass(frozen=True)
class Shifted(s7.Mean):
    """A head with the same settings as ours that adds a constant."""

    by: float = 100.0

    def read(self, parameters, memory):
        return super().read(parameters, memory) + self.by


def shadowing_mean():
    """A class with the name of one of ours, importable as tests.test_files:Mean."""

    @dataclass(frozen=True)
    class Mean(s7.Mean):
        def read(self, parameters, memory):
            return super().read(parameters, memory) + 100

    Mean.__qualname__ = "Mean"
    return Mean


Mean = shadowing_mean()
s7.heads.Head.registry.add(Mean)


class Net(eqx.Module):
    """A module of the user's own: nested modules, static settings, containers, functions, odd types."""

    mlp: eqx.nn.MLP
    layer: s7.S7Layer
    parts: dict
    half: jax.Array
    complex: jax.Array
    numbers: np.ndarray
    key: jax.Array
    scale: float
    activation: Callable = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    dtype: np.dtype = eqx.field(static=True)
    missing: None = None

    def __init__(self, activation=jax.nn.gelu):
        keys = jax.random.split(jax.random.key(0), 2)
        self.mlp = eqx.nn.MLP(2, 3, 4, 2, key=keys[0])
        self.layer = s7.S7Layer(3, 2, transition=s7.Step(), form=s7.Static(), key=keys[1])
        self.parts = {"b": [jnp.arange(3)], "a": (eqx.nn.Lambda(jnp.tanh), None, {3: True}), "a.b": jnp.ones(1)}
        self.half = jnp.array([1.5, -2.0], jnp.bfloat16)
        self.complex = jnp.array([1 + 2j], jnp.complex64)
        self.numbers = np.array([1.0, 2.0])
        self.key = jax.random.key(7)
        self.scale, self.activation, self.names, self.dtype = 0.1, activation, ("x", "y"), np.dtype("int8")

    def __call__(self, x):
        return self.scale * self.activation(self.layer(jax.vmap(self.mlp)(x))[0])


class BigModel(s7.S7Model):
    """A subclass of our model."""

    def __call__(self, *args, **kwargs):
        return 2 * super().__call__(*args, **kwargs)


def run(model, *inputs):
    return eqx.filter_jit(lambda m, q: m(*q))(model, inputs)


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
def test_a_model_is_restored_bit_equal(changes, tmp_path):
    model = build(**changes)
    path = s7.save(model, tmp_path / "run")
    assert path == tmp_path / "run" / "model.safetensors"
    back = s7.load(tmp_path / "run")
    assert back.config == model.config
    assert_same(back, model)


def test_a_stream_continues_in_another_process(tmp_path):
    model = build(transition=s7.Stable(oscillate=True))
    _, state = eqx.filter_jit(model.chunk)(np.ones((5, 2)), model.init_state(), np.ones(5))
    path = s7.save_state(model, state, tmp_path / "state.safetensors")
    assert_same(s7.load_state(model, path), state)
    with pytest.raises(ValueError, match="belongs to a model with another configuration"):
        s7.load_state(build(width=6), path)
    with pytest.raises(ValueError, match="holds a state, not a model"):
        s7.load(path)


@pytest.mark.usefixtures("as_users_see_it")
def test_the_former_order_of_arguments_is_rejected(tmp_path):
    model = build()
    with pytest.raises(TypeError, match=r"save_state\(model, state, path\): model is a ModelState"):
        s7.save_state(model.init_state(), model, tmp_path / "state.safetensors")


def test_a_model_with_another_time_unit_and_classes_is_described_by_its_configuration(tmp_path):
    model = build().with_time_unit(2.0)
    model = model.with_classes([str(n) for n in range(model.config.head.outputs)])
    path = s7.save(model, tmp_path / "m.safetensors")
    assert storage.read_arrays(path, "model")[1]["kind"] == "ModelConfig"
    assert_same(s7.load(path), model)


def test_a_truncated_file_is_rejected(tmp_path):
    path = s7.save(build(), tmp_path / "m.safetensors")
    whole = path.read_bytes()
    for size in (0, 4, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"m\.safetensors: truncated or not a safetensors file"):
            s7.load(path)


def test_any_altered_byte_is_rejected(tmp_path):
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
        (lambda a, h: h.update(format=99), "format 99, this version of s7 reads formats up to 2; update s7"),
        (lambda a, h: h["config"].update(kind="S8Model"), "the configuration is not that of a model"),
        (lambda a, h: h["config"].update(widht=3), "config.widht: no setting .widht.; did you mean .width."),
        (lambda a, h: h["config"].pop("encoder"), "config.encoder: ModelConfig needs it"),
    ],
)
def test_an_inconsistent_file_is_rejected_with_the_position(change, message, tmp_path):
    path = s7.save(build(), tmp_path / "m.safetensors")
    rewrite(path, change)
    with pytest.raises(ValueError, match=message):
        s7.load(path)


@pytest.mark.usefixtures("as_users_see_it")
def test_other_files_are_rejected(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.safetensors: no such file"):
        s7.load(tmp_path / "nothing.safetensors")
    with pytest.raises(FileNotFoundError, match=r"no model in this folder; expected one of best\.safetensors"):
        s7.load(tmp_path)
    path = tmp_path / "other.safetensors"
    path.write_bytes(save_tensors({"a": np.zeros(2)}))
    with pytest.raises(ValueError, match="a safetensors file, but not one that s7 wrote"):
        s7.load(path)
    with pytest.raises(TypeError, match=r"s7\.save writes an S7Model or another Equinox module, not a dict"):
        s7.save({}, path)


def test_a_failed_write_preserves_the_old_file(tmp_path, monkeypatch):
    path = s7.save(build(), tmp_path / "m.safetensors")
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*m\.safetensors"):
        s7.save(eqx.tree_at(lambda m: m.head["c"], build(), jnp.ones(2, jnp.float32)), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


X = np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, 2)


@pytest.mark.parametrize(
    "changes", [{"transition": MyStable(b=0.6)}, {"head": Shifted(2, by=3.0)}, {"head": Mean(2)}], ids=str
)
def test_a_model_with_user_classes_is_restored(changes, tmp_path):
    model = build(**changes)
    back = s7.load(s7.save(model, tmp_path))
    assert back.config == model.config
    assert [type(getattr(back.config, name)) for name in changes] == [type(value) for value in changes.values()]
    np.testing.assert_array_equal(run(back, X), run(model, X))


def test_any_module_is_restored_bit_equal(tmp_path):
    net = Net()
    back = s7.load(s7.save(net, tmp_path))
    assert type(back) is Net
    assert jax.tree.structure(back) == jax.tree.structure(net)
    assert list(back.parts) == list(net.parts)
    assert jax.random.key_data(back.key).tolist() == jax.random.key_data(net.key).tolist()
    assert (type(back.numbers), back.half.dtype, back.activation) == (np.ndarray, jnp.bfloat16, jax.nn.gelu)
    assert_same(*(eqx.filter(eqx.tree_at(lambda q: q.key, q, None), eqx.is_array) for q in (back, net)))
    np.testing.assert_array_equal(run(back, X), run(net, X))


def test_a_modified_model_is_restored(tmp_path):
    model = eqx.tree_at(lambda m: m.head, build(), {"W": jnp.ones((7, 5)), "c": jnp.zeros(7)})
    back = s7.load(s7.save(model, tmp_path))
    assert type(back) is s7.S7Model
    assert_same(back, model)


def test_a_subclass_of_s7model_is_restored(tmp_path):
    model = BigModel(encoder=s7.LinearEncoder(2), head=s7.Mean(1), width=3, state=2, depth=1, key=jax.random.key(0))
    back = s7.load(s7.save(model, tmp_path))
    assert type(back) is BigModel
    np.testing.assert_array_equal(run(back, X), run(model, X))


@dataclass(frozen=True)
class Tagged(s7.Mean):
    """A head with a setting that JSON cannot hold."""

    tag: frozenset = field(default=frozenset({1}))


def local_head():
    @dataclass(frozen=True)
    class Local(s7.Mean):
        pass

    return Local(2)


def in_main():
    kind = type("Scripted", (eqx.Module,), {"__module__": "__main__", "__annotations__": {"scale": float}})
    return kind(1.0)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: build(head=local_head()), "not written, Local is defined in a function; move it into a module"),
        (in_main, "not written, Scripted is defined in the script or notebook itself; move it into a module"),
        (lambda: build(head=Tagged(2)), "not written, config.head.tag is a frozenset, which cannot be saved"),
        (lambda: Net(lambda x: x), "not written, activation is a lambda .only public functions of jax"),
        (lambda: Net(shadowing_mean), "not written, activation is the function tests.test_files.shadowing_mean"),
    ],
)
def test_objects_that_cannot_be_restored_are_not_written(make, message, tmp_path):
    model = make()
    with pytest.raises(ValueError, match=message) as caught:
        s7.save(model, tmp_path / "run" / "m.safetensors")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: c["head"].update(kind="theirs.heads:Star"),
            "import theirs.heads first, or set S7_PLUGINS=theirs.he",
        ),
        (lambda c: c.update(width=10**9), "width=1000000000, but no array is that large"),
        (lambda c: c.update(state=10**9), "state=1000000000, but no array is that large"),
        (lambda c: c["head"].update(outputs=10**9), "a size of 1000000000, but the arrays hold"),
        (lambda c: c["stages"][0].update(depth=2000), "has 2000 blocks, but the arrays are of 1"),
        (lambda c: c.update(width="4"), "config.width='4' is not a whole number"),
        (lambda c: c.update(width=None), "config.width=None is not a whole number"),
        (lambda c: c.update(stages=3), "config.stages=3 is not a list"),
        (lambda c: c.update(stages=[[]]), r"config.stages\[0\]=\[\] is not a table"),
        (lambda c: c["transition"].update(tau=[1, {}]), r"config.transition.tau\[1\]={} is not a number"),
        (lambda c: c["transition"].update(a="x"), "config.transition.a='x' is not a number"),
        (lambda c: c.update(norm=["layer"]), r"config.norm=\['layer'\] is not one of"),
        (lambda c: c.update(head=None), "config.head=None is not a table"),
        (lambda c: c["encoder"].update(inputs=-1), "LinearEncoder: inputs=-1 must be at least 1"),
    ],
)
def test_a_crafted_configuration_is_rejected(change, message, tmp_path):
    path = s7.save(build(), tmp_path / "m.safetensors")
    rewrite(path, lambda arrays, about: change(about["config"]))
    start = time.perf_counter()
    with pytest.raises(ValueError, match=message) as caught:
        s7.load(path)
    assert time.perf_counter() - start < 2
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update({"class": "their_nets:Net"}), "no class 'their_nets:Net'; import their_nets first"),
        (lambda d: d.update({"class": "os:PathLike"}), "os:PathLike is not an Equinox module"),
        (
            lambda d: d["fields"].update(activation={"function": "os:system"}),
            "no function 'os:system' among those of j",
        ),
        (lambda d: d["fields"].update(activation={"function": "jax:_src"}), "no function 'jax:_src'"),
        (lambda d: d["fields"].pop("scale"), "tests.test_files:Net: the field 'scale' is missing"),
        (lambda d: d["fields"].update(more=1), "tests.test_files:Net has no field 'more'"),
        (lambda d: d["fields"].update(scale={"float": 1}), "malformed"),
        (lambda d: d["fields"].update(half={"array": "no"}), "malformed"),
        (lambda d: d["fields"]["half"].update(dtype="float32"), "is uint16"),
        (lambda d: d["fields"]["half"].update(array="no"), "the array no is missing"),
        (lambda d: d["fields"].update(half=None), "arrays that the module does not have: half"),
        (lambda d: d["fields"].update(parts={"dict": [1]}), "malformed"),
    ],
)
def test_a_crafted_structure_is_rejected(change, message, tmp_path):
    path = s7.save(Net(), tmp_path / "m.safetensors")
    rewrite(path, lambda arrays, about: change(about["config"]["module"]))
    with pytest.raises(ValueError, match=message) as caught:
        s7.load(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_deep_nesting_is_rejected(tmp_path):
    path = s7.save(Net(), tmp_path / "m.safetensors")
    text = path.read_bytes()
    rewrite(path, lambda arrays, about: about.update(config="DEEP"))
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size])
    about = header["__metadata__"]["s7"].replace('"DEEP"', "[" * 20_000 + "]" * 20_000)
    arrays = load_tensors(text)
    path.write_bytes(save_tensors(arrays, {"s7": about, "sha256": storage._checksum(arrays, about)}))
    with pytest.raises(ValueError, match=r"m\.safetensors: altered since it was written"):
        s7.load(path)


OLD = Path(__file__).parent / "models"


@pytest.mark.parametrize(
    ("name", "inputs", "dt", "expected"),
    [
        ("step-0.6", np.arange(8), np.linspace(0.5, 1, 8), [0.38900697, 1.0553586]),
        ("s4d-0.6", np.ones((4, 2)), None, [2.7542593]),
    ],
)
def test_models_of_version_0_6_are_read(name, inputs, dt, expected):
    with s7.backend("xla"):
        np.testing.assert_allclose(run(s7.load(OLD / f"{name}.safetensors"), inputs, dt), expected, rtol=1e-6)


@pytest.mark.usefixtures("as_users_see_it")
def test_mutated_files_give_one_line_errors(tmp_path):
    """Configurations with a valid checksum in which one value was replaced: loaded, or refused in one line."""
    path = s7.save(build(), tmp_path / "m.safetensors")
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    values = [None, True, -1, 0, 10**12, 1e300, "x", [], {}, [[]], {"kind": "Mean"}, "none"]

    def mutate(arrays, about):
        table = about["config"]
        while True:
            name = list(table)[rng.integers(len(table))]
            if isinstance(table[name], dict) and rng.random() < 0.7:
                table = table[name]
                continue
            table[name] = values[rng.integers(len(values))]
            return

    refused = []
    for _ in range(150):
        path.write_bytes(whole)
        rewrite(path, mutate)
        try:
            s7.load(path)
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) > 75
    assert all(message.startswith(f"{path}: ") and "\n" not in message for message in refused)


def test_loading_imports_the_plugins_that_the_user_lists(tmp_path, monkeypatch):
    source = "import equinox as eqx\n\n\nclass Gain(eqx.Module):\n    value: float\n"
    (tmp_path / "plugged_gain.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    path = s7.save(import_module("plugged_gain").Gain(2.5), tmp_path / "gain.safetensors")
    monkeypatch.delitem(sys.modules, "plugged_gain")
    registry.load_plugins.cache_clear()
    with pytest.raises(ValueError, match="no class 'plugged_gain:Gain'; import plugged_gain first, or set S7_PLUGINS"):
        s7.load(path)
    monkeypatch.setenv("S7_PLUGINS", "plugged_gain")
    registry.load_plugins.cache_clear()
    assert s7.load(path).value == 2.5
    monkeypatch.delitem(sys.modules, "plugged_gain")
    registry.load_plugins.cache_clear()


def test_a_file_in_float16_has_half_the_size_and_the_rounded_parameters(tmp_path):
    model = s7.S7Model(
        encoder=s7.LinearEncoder(3),
        head=s7.Mean(2),
        width=32,
        state=16,
        transition=s7.Stable(oscillate=True),
        key=jax.random.key(0),
    )
    whole, half = s7.save(model, tmp_path / "a"), s7.save(model, tmp_path / "b", precision="float16")
    assert half.stat().st_size < 0.6 * whole.stat().st_size
    rounded = jax.tree.map(lambda q: q.astype(np.float16).astype(q.dtype), model)
    found = s7.load(half)
    assert eqx.tree_equal(found, rounded)
    assert found.head["W"].dtype == np.float32
    # Saved again, nothing changes.
    assert eqx.tree_equal(s7.load(s7.save(found, tmp_path / "c", precision="float16")), found)
    with pytest.raises(ValueError, match=r"not written, head.* has a number above 65,504, too large for float16"):
        s7.save(eqx.tree_at(lambda m: m.head["c"], model, np.float32([1e5, 0])), tmp_path / "d", precision="float16")


def test_arrays_of_a_module_in_float16_keep_their_type(tmp_path):
    module = eqx.nn.Linear(2, 3, dtype=jnp.float16, key=jax.random.key(0))
    assert eqx.tree_equal(s7.load(s7.save(module, tmp_path / "a")), module)
