"""Any optax transformation or schedule trains a model and resumes to the same bits."""

import jax
import numpy as np
import optax
import pytest

import s7
from s7.training import Callback, Interrupted
from s7.training.optimizer import description
from tests.training.test_callbacks import data, model

SETTINGS = {"epochs": 3, "batch_size": 8}


class InterruptAt(Callback):
    """Interrupts the run at a step."""

    def on_step(self, trainer, progress):
        if progress.step == 4:
            trainer.interrupt()


def by_name(parameters):
    """Labels for the groups of a transformation, by the names of the parameters."""
    return {name: "slow" if name.endswith(".w") else "fast" for name in parameters}


OPTIMIZERS = {
    "chain and schedule": lambda: optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(0.05, 9))
    ),
    "by name": lambda: optax.multi_transform({"slow": optax.sgd(1e-3), "fast": optax.adam(0.05)}, by_name),
    "accumulated": lambda: optax.MultiSteps(optax.adam(0.05), every_k_schedule=2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_transformation_trains_and_resumes_to_the_same_bits(name, tmp_path):
    arguments = (model(), data(), data(8, 1))
    whole = s7.train(*arguments, optimizer=OPTIMIZERS[name](), **SETTINGS)
    assert whole.history[-1]["train"]["loss"] < whole.history[0]["train"]["loss"]
    settings = SETTINGS | {"out": tmp_path / "run"}
    with pytest.raises(Interrupted):
        s7.train(*arguments, optimizer=OPTIMIZERS[name](), callbacks=[InterruptAt()], **settings)
    again = s7.train(*arguments, optimizer=OPTIMIZERS[name](), resume=True, **settings)
    jax.tree.map(np.testing.assert_array_equal, again.model, whole.model)
    assert [line["valid"] for line in again.history] == [line["valid"] for line in whole.history]


def test_a_schedule_can_replace_the_optimizer():
    schedule = optax.cosine_decay_schedule(0.05, 9)
    one = s7.train(model(), data(), data(8, 1), optimizer=schedule, **SETTINGS)
    other = s7.train(model(), data(), data(8, 1), learning_rate=schedule, **SETTINGS)
    jax.tree.map(np.testing.assert_array_equal, one.model, other.model)


def test_an_optimizer_that_evaluates_the_loss_is_rejected():
    with pytest.raises(TypeError, match="optimizer: it needs more than gradients and the loss"):
        s7.train(model(), data(), data(8, 1), optimizer=optax.lbfgs(), **SETTINGS)


def test_parameters_are_seen_by_name():
    seen = {}

    def init(parameters):
        seen.update({name: array.shape for name, array in parameters.items()})
        return optax.EmptyState()

    spy = optax.GradientTransformation(init, lambda updates, state, parameters=None: (updates, state))
    s7.train(model(), data(), data(8, 1), optimizer=optax.chain(spy, optax.sgd(0.1)), epochs=1)
    assert seen["encoder.W"] == (4, 1)
    assert any(name.startswith("blocks.0.layer") for name in seen)


def test_a_schedule_sets_the_learning_rate():
    rates = [0.1, 0.01, 0.001]
    schedule = optax.piecewise_constant_schedule(0.1, {3: 0.1, 6: 0.1})
    trained = s7.train(model(), data(), data(8, 1), learning_rate=schedule, **SETTINGS)
    np.testing.assert_allclose([line["learning_rate"] for line in trained.history], rates, rtol=1e-5)


def test_a_constant_schedule_is_a_constant_learning_rate():
    settings = SETTINGS | {"clip_norm": 0.5, "weight_decay": 0.1}
    trained = s7.train(model(), data(), data(8, 1), learning_rate=optax.constant_schedule(0.05), **settings)
    chain = optax.chain(
        optax.clip_by_global_norm(0.5),
        optax.scale_by_adam(),
        # The default does not decay the parameters that set the dynamics, nor vectors.
        optax.add_decayed_weights(0.1, mask=lambda tree: {name: _decays(name, leaf) for name, leaf in tree.items()}),
        optax.scale(-0.05),
    )
    other = s7.train(model(), data(), data(8, 1), optimizer=chain, **SETTINGS)
    for mine, theirs in zip(jax.tree.leaves(trained.model), jax.tree.leaves(other.model), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=2e-5)


def _decays(name, leaf):
    return leaf.ndim > 1 and not name.endswith((".B", ".b", ".w"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": optax.adam(1e-3), "learning_rate": 0.1}, "learning_rate has no effect with optimizer="),
        ({"optimizer": optax.adam(1e-3), "accumulate": 2}, "accumulate has no effect with optimizer="),
        ({"learning_rate": optax.constant_schedule(0.1), "warmup": 0.1}, "warmup has no effect with a schedule"),
    ],
)
def test_settings_without_effect_are_rejected(settings, message):
    with pytest.raises(ValueError, match=message):
        s7.train(model(), data(), data(8, 1), **settings)


def test_objects_that_are_not_optimizers_are_rejected():
    with pytest.raises(TypeError, match=r"optimizer: expected an optax.GradientTransformation.*not str"):
        s7.train(model(), data(), data(8, 1), optimizer="adam")


def test_a_run_resumes_only_with_its_optimizer(tmp_path):
    arguments = (model(), data(), data(8, 1))
    s7.train(*arguments, optimizer=optax.adam(0.05), out=tmp_path / "run", **SETTINGS)
    for other in ({"optimizer": optax.adam(0.04)}, {"optimizer": optax.sgd(0.05)}, {}):
        with pytest.raises(ValueError, match="cannot resume, it was started with another optimizer"):
            s7.train(*arguments, out=tmp_path / "run", resume=True, **SETTINGS, **other)


def test_descriptions_differ_with_the_hyperparameters():
    makers = [
        lambda: optax.adam(1e-3),
        lambda: optax.adam(2e-3),
        lambda: optax.adam(1e-3, b1=0.8),
        lambda: optax.adamw(optax.cosine_decay_schedule(1e-3, 10)),
        lambda: optax.adamw(optax.cosine_decay_schedule(1e-3, 20)),
        lambda: lambda step: 0.1,
        lambda: lambda step: 0.2,
    ]
    found = [description(make()) for make in makers]
    assert all(found.count(one) == 1 for one in found)
    assert found == [description(make()) for make in makers]
