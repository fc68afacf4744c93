"""Averages of the parameters, and which epoch is kept."""

import jax
import numpy as np
import optax
import pytest

import s7
from s7.training.averaging import Averaged


def model():
    return s7.S7Model(
        encoder=s7.LinearEncoder(1), head=s7.Mean(2), width=4, state=2, depth=1, form=s7.Static(), key=jax.random.key(0)
    )


def data(samples=8):
    rng = np.random.default_rng(0)
    return rng.normal(size=(samples, 5, 1)), np.arange(samples) % 2


def test_the_average_follows_its_formula():
    averaged = Averaged(optax.sgd(0.1), 0.9)
    parameters = jax.numpy.asarray([1.0, 2.0])
    state, average = averaged.init(parameters), np.array([1.0, 2.0])
    for t in range(20):
        update, state = averaged.update(parameters, state, parameters)
        parameters = parameters + update
        decay = min(0.9, (1 + t) / (10 + t))
        average = decay * average + (1 - decay) * np.asarray(parameters)
    np.testing.assert_allclose(state.average, average, rtol=1e-6)


def test_the_average_is_what_is_validated_and_kept():
    settings = {"steps": 6, "batch_size": 4, "seed": 1, "progress": False}
    plain = s7.train(model(), data(), data(), keep="last", **settings)
    smooth = s7.train(model(), data(), data(), keep="last", average=0.9, **settings)
    assert not np.array_equal(plain.model.head["W"], smooth.model.head["W"])
    assert smooth.history[-1]["valid"] == pytest.approx(s7.evaluate(smooth.model, data()), rel=1e-5)
    assert smooth.history[0]["learning_rate"] == plain.history[0]["learning_rate"]


def test_a_run_with_an_average_resumes_to_the_same_bits(tmp_path):
    class Stop(s7.training.Callback):
        def on_step(self, trainer, progress):
            if progress.step == 3:
                trainer.interrupt()

    settings = {"steps": 6, "batch_size": 4, "average": 0.9, "progress": False}
    whole = s7.train(model(), data(), data(), **settings)
    with pytest.raises(s7.training.Interrupted):
        s7.train(model(), data(), data(), out=tmp_path / "run", callbacks=[Stop()], **settings)
    resumed = s7.train(model(), data(), data(), out=tmp_path / "run", resume=True, **settings)
    np.testing.assert_array_equal(whole.model.head["W"], resumed.model.head["W"])


def test_the_last_epoch_is_kept_on_request():
    trained = s7.train(model(), data(), data(), epochs=3, keep="last", progress=False)
    assert trained.result["best_epoch"] == 3


def test_minutes_with_steps_is_an_upper_bound(monkeypatch):
    monkeypatch.setattr("s7.training.run.steps_within", lambda seconds, trainer: 100)
    assert s7.train(model(), data(), data(), minutes=1, steps=3, progress=False).result["steps"] == 3


@pytest.mark.parametrize(
    ("settings", "message"), [({"average": 1.0}, "average=1.0"), ({"keep": "first"}, "keep='first'")]
)
@pytest.mark.usefixtures("as_users_see_it")
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        s7.training.TrainConfig(**settings)
