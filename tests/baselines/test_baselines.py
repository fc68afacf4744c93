"""Properties of every baseline: padding, packing, chunks and single steps give the same outputs."""

import importlib
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import s7
from s7.baselines import Architecture, architectures, find_architecture
from s7.block import Block, BlockConfig
from s7.config import ModelConfig, build_config
from s7.encoders import Encoder, LinearEncoder
from s7.frame_encoder import FrameEncoder
from s7.heads import Mean
from s7.job import Job
from s7.model import S7Model
from s7.sequence_layer import LayerKind
from s7.settings import convert, merge
from s7.signal import Signal
from s7.training.groups import parameter_groups

WIDTH, STATE, LENGTH, CUT = 8, 3, 13, 6
SHAPE = {"width": WIDTH, "state": STATE, "stages": [{"depth": 1, "stride": 4}, {"depth": 1}]}
GIVEN = {"encoder": LinearEncoder(2), "head": Mean(3)}
KINDS = {kind.__name__: kind for kind in LayerKind.registry.builtin.values()}
# One of each way to keep a state; the other cells have the same driver.
MODELS = ["s5", "mamba", "lstm", "phased-lstm", "transformer", "bi-s5", "cnn-s5"]
ENDLESS = ("Transformer", "Mega")


def events(width: int) -> tuple[jax.Array, jax.Array]:
    rng = np.random.default_rng(1)
    u, dt = rng.standard_normal((LENGTH, width)), rng.uniform(0, 2, LENGTH)
    return jnp.asarray(u, jnp.float32), jnp.asarray(dt, jnp.float32)


def shaken(module):
    """The model with perturbed parameters, because zero initial values would hide errors."""
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda q: q + 0.1 * rng.standard_normal(q.shape).astype(q.dtype), module)


def padded(u, dt, filling: float, places: int = 3):
    edges = [(0, places)] + [(0, 0)] * (u.ndim - 1)
    return jnp.pad(u, edges, constant_values=filling), jnp.pad(dt, (0, places), constant_values=filling)


@cache
def layer_outcomes(name: str) -> dict[str, jax.Array]:
    """A layer in every way that it can be run, compiled at once."""
    layer = shaken(KINDS[name]().layer(WIDTH, STATE, key=jax.random.key(0), dtype=jnp.float32))
    u, dt = events(WIDTH)

    @jax.jit
    def run(layer):
        # As batches, which compile faster than separate calls.
        starts = jnp.arange(LENGTH) == jnp.array([[-1], [-1], [CUT]])
        gaps = jnp.stack([dt, 2 * dt, dt])
        whole, later, packed = jax.vmap(lambda dt, reset: layer(u, dt, reset=reset)[0])(gaps, starts)
        found = {"whole": whole, "later": later, "packed": packed[CUT:], "alone": layer(u[CUT:], dt[CUT:])[0]}
        mask = jnp.arange(LENGTH + 3) < LENGTH
        fillings = (jnp.stack(rows) for rows in zip(padded(u, dt, 7.0), padded(u, dt, -5.0), strict=True))
        ones, others = jax.vmap(lambda u, dt: layer(u, dt, mask)[0][:LENGTH])(*fillings)
        found |= {"padded 7.0": ones, "padded -5.0": others}
        x, _ = layer.states(layer.drive(u[:12]), dt[:12], stride=4)
        found["windows"] = layer.output(x, u[3:12:4])
        if name not in ENDLESS:
            first, state = layer(u[:CUT], dt[:CUT])
            rest, state = layer(u[CUT:-1], dt[CUT:-1], state=state)
            last, _ = layer.step(u[-1], state, dt[-1])
            found["pieces"] = jnp.concatenate([first, rest, last[None]])
        return found, jax.grad(lambda layer: jnp.sum(layer(u, dt)[0] ** 2))(layer)

    found, gradient = run(layer)
    return found | {"gradient": gradient}


def close(a, b) -> None:
    np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", KINDS)
def test_a_layer(name):
    """Padding, packing, chunks, steps and windows do not change outputs; gaps change those of models that read them."""
    found = layer_outcomes(name)
    close(found["padded 7.0"], found["whole"])
    np.testing.assert_array_equal(found["padded 7.0"], found["padded -5.0"])
    close(found["packed"], found["alone"])
    close(found["windows"], found["whole"][3:12:4])
    if name not in ENDLESS:
        close(found["pieces"], found["whole"])
    assert (not np.array_equal(found["later"], found["whole"])) == KINDS[name].reads_gaps


@pytest.mark.parametrize("name", KINDS)
def test_every_parameter_learns(name):
    for path, leaf in jax.tree_util.tree_flatten_with_path(layer_outcomes(name)["gradient"])[0]:
        assert np.isfinite(leaf).all(), path
        assert np.any(leaf != 0), path


def model_of(name: str, **changes) -> S7Model:
    """A small model that pools; bi-s5 is in no catalogue."""
    if name == "bi-s5":
        name, changes = "s5", {"bidirectional": True}
    return shaken(S7Model(config_of(name, **changes), key=jax.random.key(0)))


def config_of(name: str, **changes) -> ModelConfig:
    """The configuration of a small model. A model of frames reads four events in each."""
    table = merge(SHAPE, find_architecture(name).settings) | changes
    given = dict(GIVEN)
    if "encoder" in table:
        layer = table.pop("encoder")["layer"] | {"shape": [9, 8, 2], "events": 4}
        given["encoder"] = convert({"kind": "FrameEncoder", "layer": layer}, Encoder, "encoder")
        table["stages"] = SHAPE["stages"]
    return build_config(table, "model", given)


def inputs_of(model: S7Model) -> tuple[jax.Array, jax.Array]:
    """Events that the model's encoder reads, and their gaps."""
    u, dt = events(2)
    if isinstance(model.config.encoder, FrameEncoder):
        return jnp.asarray(np.random.default_rng(1).integers(0, 144, LENGTH)), dt
    return u, dt


@pytest.mark.parametrize("name", MODELS)
def test_a_model(name):
    """Padding, packing and chunks do not change outputs, with pooling and several stages."""
    built = model_of(name)
    u, dt = inputs_of(built)
    segments = np.full(16, -1)
    segments[:CUT], segments[8 : 8 + LENGTH - CUT] = 0, 1
    place = np.flatnonzero(segments >= 0)

    @eqx.filter_jit
    def run(model):
        found = {"whole": model(u, dt), "padded": model(*padded(u, dt, 7), LENGTH)}
        rows = jnp.zeros((16, *u.shape[1:]), u.dtype).at[place].set(u), jnp.zeros(16).at[place].set(dt)
        found["packed"] = model.packed(rows[0], segments, 2, rows[1])
        found["alone"] = jnp.stack([model(u[:CUT], dt[:CUT]), model(u[CUT:], dt[CUT:])])
        if name not in ("transformer", "bi-s5"):
            state = model.init_state()
            for piece in (slice(0, 5), slice(5, 6), slice(6, LENGTH)):
                found["pieces"], state = model.chunk(u[piece], state, dt[piece])
        return found

    found = run(built)
    close(found["padded"], found["whole"])
    close(found["packed"], found["alone"])
    close(found.get("pieces", found["whole"]), found["whole"])


@pytest.mark.parametrize("name", ["transformer", "bi-rnn"])
def test_models_that_cannot_stream_raise_an_error(name):
    with pytest.raises(ValueError, match="cannot stream"):
        model_of(name).init_state()


@pytest.mark.parametrize("name", architectures())
def test_saved_and_loaded_is_the_same(name, tmp_path):
    model = model_of(name)
    found = s7.load(s7.save(model, tmp_path / "model.safetensors"))
    assert found.config == model.config
    for mine, theirs in zip(jax.tree.leaves(model), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_gaps_can_be_ignored():
    u, dt = events(2)
    model = model_of("s7", gaps="ignored")
    np.testing.assert_array_equal(model(u, dt), model(u))
    assert not model.config.reads_gaps


def test_which_models_know_of_time():
    found = {name for name in architectures() if config_of(name).reads_gaps}
    state_spaces = {"s7", "s7-full", "cnn-s5", "bet", "s5", "eventssm", "s4d", "lru", "stablessm", "transformer"}
    decaying = {
        "rnn-decay",
        "gru-d",
        "phased-lstm",
        "ct-rnn",
        "ct-gru",
        "ct-lstm",
        "ode-lstm",
        "ode-rnn",
        "gru-ode",
        "cfc",
        "rkn-dt",
        "cru",
        "nrde",
    }
    assert found == state_spaces | decaying | {"augmented-lstm"}


def test_every_layer_is_in_the_catalogue():
    layers = [kind.settings.get("layer") for kind in architectures().values()]
    layers += [kind.settings.get("encoder", {}).get("layer") for kind in architectures().values()]
    assert {layer["kind"] for layer in layers if layer} == set(KINDS)


USERS_MODULE = """
from dataclasses import dataclass
from jax.nn import tanh
from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell

@dataclass(frozen=True)
class Leaky(Cell):
    groups = {"U": "ssm"}
    leak: float = 0.5

    def advance(self, parameters, drive, state, dt):
        return (self.leak * state[0] + tanh(drive + parameters["U"] @ state[0]),)

class LeakyModel(Architecture, name="leaky"):
    'A leaky integrator.'

    settings = bare(Leaky)
"""


def test_a_baseline_is_one_file_of_a_users_package(tmp_path, monkeypatch):
    (tmp_path / "users_baseline.py").write_text(USERS_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    for registry in (Architecture.registry, LayerKind.registry):
        monkeypatch.setattr(registry, "_classes", dict(registry._classes))
    importlib.import_module("users_baseline")
    assert list(architectures())[-1] == "users_baseline:LeakyModel"
    assert Job("walker2d", model="leaky").tables["model"]["layer"] == {"kind": "users_baseline:Leaky"}
    model = model_of("leaky")
    assert "ssm" in parameter_groups(model).values()
    found = s7.load(s7.save(model, tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(*(q(*events(2)) for q in (model, found)))


def test_an_unknown_model_lists_the_near_ones():
    with pytest.raises(ValueError, match="did you mean 'lstm'"):
        Job("walker2d", model="lstmm")


def test_gate_and_skip_can_be_left_out():
    block = Block(WIDTH, STATE, BlockConfig(gate=False, skip=False, norm="none"), key=jax.random.key(0))
    assert block.gate is None
    u = jnp.ones((LENGTH, WIDTH))
    close(block(Signal(u))[0].values, block.layer(u)[0])
