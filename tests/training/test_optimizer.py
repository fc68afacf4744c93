"""The optimizer equals AdamW of optax, and every parameter is in its declared group."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import s7
from s7.training import TrainConfig
from s7.training.optimizer import AdamW
from s7.training.parameters import carried_by, flatten

MODELS = {
    "full": {"form": s7.Full(D="full")},
    "factored": {"form": s7.Factored(rank=2)},
    "step": {"transition": s7.Step()},
    "ring": {"transition": s7.Ring()},
    "batch norm, both ways": {"norm": "batch", "bidirectional": True},
    "oscillating, wider": {"transition": s7.Stable(oscillate=True), "stages": (s7.Stage(), s7.Stage(width=5))},
}
# The group of each parameter of a layer; all others are in "rest".
GROUPS = {
    **dict.fromkeys(["rates.w", "rates.omega", "rates.decay", "maps.B", "maps.b"], "ssm"),
    **dict.fromkeys(["rates.W_w", "maps.W_B", "maps.W_C", "maps.W_D"], "selective"),
    **dict.fromkeys([f"maps.{letter}{n}" for letter in "UV" for n in (1, 2, 3)], "selective"),
    **dict.fromkeys(["maps.C", "maps.D"], "rest"),
}


def build(name):
    settings = {"encoder": s7.LinearEncoder(2), "head": s7.Mean(2), "width": 4, "state": 3}
    return s7.S7Model(key=jax.random.key(0), **settings, **MODELS[name])


def documented(name):
    """The group of a parameter, by the layer that contains it."""
    parts = name.split(".")
    return GROUPS[".".join(parts[-2:])] if "layer" in parts or "backward" in parts else "rest"


def adamw(size, **changes):
    settings = {"steps": 20, "warmup": 5, "clip_norm": 0.0, "accumulate": 1} | changes
    settings |= {name: jnp.asarray(settings[name], jnp.int32) for name in ("steps", "warmup")}
    rate, decay = jnp.full(size, 0.03, jnp.float32), jnp.zeros(size, jnp.float32)
    return AdamW(**{"rate": rate, "decay": decay, **settings})


def run(optimizer, parameters, gradients):
    """The parameters after each gradient."""
    update, memory, seen = eqx.filter_jit(optimizer.update), optimizer.init(parameters), []
    for gradient in gradients:
        change, memory = update(gradient, memory, parameters)
        parameters = parameters + change
        seen.append(np.asarray(parameters))
    return np.array(seen)


def test_twenty_steps_are_those_of_optax():
    rng = np.random.default_rng(0)
    # Gradients below and above the clip; a matrix that decays and a vector that does not.
    gradients = jnp.asarray(rng.normal(size=(20, 7)) * np.geomspace(0.01, 10, 20)[:, None])
    start = {"matrix": jnp.asarray(rng.normal(size=4)), "vector": jnp.asarray(rng.normal(size=3))}
    decay = jnp.array([0.1] * 4 + [0] * 3, jnp.float32)
    mine = adamw(7, decay=decay, clip_norm=0.5)
    theirs = optax.chain(
        optax.clip_by_global_norm(0.5),
        optax.adamw(
            lambda step: mine.schedule(step).astype(float) * np.float32(0.03),
            weight_decay=float(decay[0]),
            mask={"matrix": True, "vector": False},
        ),
    )

    @jax.jit
    def update(gradient, state, parameters):
        updates, state = theirs.update({"matrix": gradient[:4], "vector": gradient[4:]}, state, parameters)
        return optax.apply_updates(parameters, updates), state

    parameters, state, expected = start, theirs.init(start), []
    for gradient in gradients:
        parameters, state = update(gradient, state, parameters)
        expected.append(np.concatenate([parameters["matrix"], parameters["vector"]]))
    found = run(mine, jnp.concatenate([start["matrix"], start["vector"]]), gradients)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_accumulated_batches_update_with_the_mean_gradient():
    rng = np.random.default_rng(1)
    start, gradients = jnp.asarray(rng.normal(size=5)), jnp.asarray(rng.normal(size=(12, 5)))
    settings = {"steps": 4, "warmup": 1, "clip_norm": 0.7, "decay": jnp.full(5, 0.1, jnp.float32)}
    one_by_one = run(adamw(5, **settings), start, gradients.reshape(4, 3, 5).mean(1))
    gathered = run(adamw(5, accumulate=3, **settings), start, gradients)
    np.testing.assert_allclose(gathered[2::3], one_by_one, rtol=1e-12)
    # Between updates the parameters do not change.
    np.testing.assert_array_equal(gathered[:2], np.broadcast_to(start, (2, 5)))
    np.testing.assert_array_equal(gathered[3:5], gathered[[2, 2]])


def test_without_clip_norm_gradients_are_not_scaled():
    start = jnp.zeros(2)
    large, clipped = (
        run(adamw(2, clip_norm=clip_norm), start, jnp.array([[3e3, 4e3], [3.0, 4.0]])) for clip_norm in (0.0, 1.0)
    )
    assert np.abs(large[1] - clipped[1]).max() > 1e-3


def test_the_learning_rate_rises_linearly_and_decays_as_a_cosine():
    optimizer = adamw(1, steps=110, warmup=10)
    rates = np.asarray(optimizer.schedule(jnp.arange(110)))
    np.testing.assert_allclose(rates[:11], np.arange(1, 12) / 11, rtol=1e-6)
    np.testing.assert_allclose(rates[10:], (1 + np.cos(np.pi * np.arange(100) / 100)) / 2, atol=1e-6)
    assert rates[10] == 1
    assert 0 < rates[-1] < 1e-3
    assert (np.diff(rates[10:]) < 0).all()
    assert optimizer.schedule(1000) == 0


def test_without_a_warm_up_the_first_step_is_the_largest():
    assert adamw(1, warmup=0).schedule(0) == 1


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_is_in_its_declared_group(name):
    layout, _, _ = flatten(build(name))
    assert {place: layout.groups[place] for place in layout.shapes} == {
        place: documented(place) for place in layout.shapes
    }
    assert {layout.groups[place] for place in layout.shapes} == {"ssm", "selective", "rest"}


@pytest.mark.parametrize("name", ["full", "batch norm, both ways"])
def test_groups_have_their_learning_rates_and_only_matrices_decay(name):
    layout, _, _ = flatten(build(name))
    config = TrainConfig(
        learning_rate=3.0,
        ssm_learning_rate=1.0,
        selective_learning_rate=2.0,
        weight_decay=0.3,
        ssm_weight_decay=0.1,
        selective_weight_decay=0.2,
    )
    optimizer = AdamW.of(config, layout, batches=100)
    rates, decays = (layout.unravel(jnp.asarray(vector)) for vector in (optimizer.rate, optimizer.decay))
    for place, shape in layout.shapes.items():
        number = {"ssm": 1, "selective": 2, "rest": 3}[documented(place)]
        np.testing.assert_array_equal(rates[place], np.full(shape, number, np.float32))
        decay = number / 10 if len(shape) > 1 else 0
        np.testing.assert_array_equal(decays[place], np.full(shape, decay, np.float32))


def test_a_group_without_its_own_settings_uses_the_common_ones():
    config = TrainConfig(learning_rate=3.0, weight_decay=0.3)
    assert config.rates == {"ssm": 3.0, "selective": 3.0, "rest": 3.0}
    assert config.decays == {"ssm": 0.0, "selective": 0.3, "rest": 0.3}


@pytest.mark.parametrize(
    ("batches", "accumulate", "warmup", "expected"),
    [(100, 1, 0.05, (100, 5)), (100, 3, 0.1, (33, 3)), (2, 3, 0, (1, 0))],
)
def test_steps_are_counted_in_gathered_batches(batches, accumulate, warmup, expected):
    layout, _, _ = flatten(build("ring"))
    optimizer = AdamW.of(TrainConfig(accumulate=accumulate, warmup=warmup), layout, batches)
    assert (optimizer.steps, optimizer.warmup) == expected


@pytest.mark.parametrize("name", MODELS)
def test_a_flattened_model_is_rebuilt(name):
    model = build(name)
    layout, vector, carried = flatten(model)
    assert vector.size == model.parameter_count
    again = layout.model(layout.unravel(vector), carried)
    assert jax.tree.structure(again) == jax.tree.structure(model)
    jax.tree.map(np.testing.assert_array_equal, again, model)
    np.testing.assert_array_equal(layout.ravel(layout.unravel(vector)), vector)


def test_running_statistics_are_carried_not_trained():
    model = build("batch norm, both ways")
    layout, _, carried = flatten(model)
    running = [f"blocks.{n}.norm.running.{what}" for n in range(2) for what in ("mean", "variance")]
    assert sorted(carried) == running
    assert not set(running) & set(layout.shapes)
    assert "blocks.0.norm.scale" in layout.shapes
    jax.tree.map(np.testing.assert_array_equal, carried_by(model, tuple(running)), carried)
    assert not flatten(build("full"))[2]


def test_every_entry_of_the_flat_vector_has_a_name():
    layout, vector, _ = flatten(build("full"))
    names = [name for name, shape in layout.shapes.items() for _ in range(int(np.prod(shape)))]
    assert [layout.name_at(place) for place in range(vector.size)] == names


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "has no parameters to train"),
        ({"n": np.arange(3)}, "has no parameters to train"),
        ({"a": np.zeros(2), "b": np.zeros(2, np.float32)}, "must all be of one real type"),
        ({"a": np.zeros(2, complex)}, "must all be of one real type"),
    ],
)
def test_models_without_trainable_parameters_are_rejected(arrays, message):
    with pytest.raises(ValueError, match=message):
        flatten({name: jnp.asarray(array) for name, array in arrays.items()})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs=0 must be at least 1"),
        ({"accumulate": 0}, "accumulate=0 must be at least 1"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0 must be finite and not negative"),
        ({"selective_weight_decay": -1.0}, "selective_weight_decay=-1.0 must be finite and not negative"),
        ({"warmup": 1.5}, "warmup=1.5 is a fraction of all updates, from 0 to 1"),
        ({"pack": -1}, "pack=-1 must not be negative"),
    ],
    ids=str,
)
def test_invalid_settings_are_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**changes)
