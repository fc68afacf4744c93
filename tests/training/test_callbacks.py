"""Callbacks: stopping keeps the trained model, early stopping, selection of the best epoch, order of the hooks."""

import json

import jax
import numpy as np
import pytest

import s7
from s7.training import Callback, CrossEntropy, EarlyStopping, Interrupted, TrainConfig, Trainer
from s7.training.class_weights import with_class_weights


def data(count=24, seed=0):
    """Sequences labelled by the sign of their sum."""
    x = np.random.default_rng(seed).normal(size=(count, 10, 1)).astype(np.float32)
    return x, (x.sum((1, 2)) > 0).astype(np.int32)


def model():
    settings = {"width": 4, "state": 3, "depth": 1, "form": s7.Factored(rank=2)}
    return s7.S7Model(encoder=s7.LinearEncoder(1), head=s7.Mean(2), key=jax.random.key(0), **settings)


SETTINGS = {"epochs": 4, "batch_size": 8, "learning_rate": 0.05}


class Hooks(Callback):
    """Records the hooks as they are called."""

    def __init__(self):
        self.called = []

    def on_start(self, trainer):
        self.called.append("start")

    def on_step(self, trainer, progress):
        self.called.append(f"step {progress.step}")

    def on_epoch_end(self, trainer, progress):
        self.called.append(f"epoch {progress.epoch}")

    def on_improvement(self, trainer):
        self.called.append("improvement")

    def on_checkpoint(self, trainer):
        self.called.append("checkpoint")

    def on_end(self, trainer):
        self.called.append("end")


class Stop(Callback):
    """Stops at a step."""

    def __init__(self, step):
        self.step = step

    def on_step(self, trainer, progress):
        if progress.step == self.step:
            trainer.stop("enough")


def test_hooks_are_called_in_order():
    hooks = Hooks()
    s7.train(model(), data(), data(8, 1), callbacks=[hooks], epochs=1, batch_size=12)
    assert hooks.called == ["start", "step 1", "step 2", "improvement", "checkpoint", "epoch 1", "end"]


def test_on_end_is_called_after_an_error():
    class Fail(Hooks):
        def on_step(self, trainer, progress):
            raise ZeroDivisionError

    hooks = Fail()
    with pytest.raises(ZeroDivisionError):
        s7.train(model(), data(), data(8, 1), callbacks=[hooks], epochs=1)
    assert hooks.called == ["start", "end"]


@pytest.mark.parametrize("step", [2, 5])
def test_a_stopped_run_without_a_folder_returns_the_trained_model(step):
    trained = s7.train(model(), data(), data(8, 1), callbacks=[Stop(step)], **SETTINGS)
    assert (trained.result["steps"], trained.result["stopped"]) == (step, "enough")
    assert len(trained.history) == -(-step // 3)
    for before, after in zip(jax.tree.leaves(model().blocks), jax.tree.leaves(trained.model.blocks), strict=True):
        assert not np.array_equal(before, after)


def test_a_stopped_run_in_a_folder_is_finished(tmp_path):
    arguments = (model(), data(), data(8, 1))
    trained = s7.train(*arguments, callbacks=[Stop(5)], out=tmp_path / "run", **SETTINGS)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["stopped"] == "enough"
    again = s7.train(*arguments, out=tmp_path / "run", resume=True, **SETTINGS)
    assert again.result == trained.result


def test_a_run_that_was_killed_after_it_stopped_is_not_trained_further(tmp_path):
    class StopAtEpoch(Callback):
        def on_epoch_end(self, trainer, progress):
            trainer.stop("enough")

    arguments = (model(), data(), data(8, 1))
    s7.train(*arguments, callbacks=[StopAtEpoch()], out=tmp_path / "run", **SETTINGS)
    (tmp_path / "run" / "result.json").unlink()
    again = s7.train(*arguments, out=tmp_path / "run", resume=True, **SETTINGS)
    assert (again.result["epochs"], again.result["stopped"]) == (1, "enough")


def test_training_stops_early_without_improvement():
    # A learning rate of zero never improves after the first epoch.
    trained = s7.train(
        model(), data(), data(8, 1), early_stopping=2, epochs=9, batch_size=8, learning_rate=0.0, warmup=0.0
    )
    assert (trained.result["epochs"], trained.result["best_epoch"]) == (3, 1)
    assert trained.result["stopped"] == "no improvement of the validation accuracy in 2 epochs"


def test_early_stopping_survives_a_resume(tmp_path):
    class Interrupt(Callback):
        def on_epoch_end(self, trainer, progress):
            if progress.epoch == 2:
                raise KeyboardInterrupt

    arguments = (model(), data(), data(8, 1))
    settings = {"early_stopping": EarlyStopping(2), "epochs": 9, "batch_size": 8, "learning_rate": 0.0}
    with pytest.raises(KeyboardInterrupt):
        s7.train(*arguments, callbacks=[Interrupt()], out=tmp_path / "run", **settings)
    trained = s7.train(*arguments, out=tmp_path / "run", resume=True, **settings)
    assert trained.result["epochs"] == 3
    with pytest.raises(ValueError, match=r"started with early_stopping.patience=2, not 5"):
        s7.train(*arguments, out=tmp_path / "run", resume=True, **settings | {"early_stopping": 5})


def test_small_improvements_do_not_count():
    stopping = EarlyStopping(patience=1, min_delta=0.1)
    trainer = Trainer.start(
        model(), CrossEntropy(2), s7.Samples.of(*data()), s7.Samples.of(*data(8, 1)), TrainConfig(), 0
    )
    for accuracies, stops in (([0.5, 0.55], True), ([0.5, 0.7], False), ([0.5, 0.7, 0.75], True)):
        lines = [{"valid": {"accuracy": value, "loss": 1.0}, "best": True} for value in accuracies]
        trainer.position.history, trainer.position.stopped = lines, ""
        stopping.on_start(trainer)
        assert bool(trainer.position.stopped) is stops


def test_ties_in_the_metric_are_broken_by_the_loss():
    trainer = Trainer.start(
        model(), CrossEntropy(2), s7.Samples.of(*data()), s7.Samples.of(*data(8, 1)), TrainConfig(), 0
    )
    for accuracy, loss in ((0.5, 3.1), (0.5, 0.4), (0.5, 0.4), (0.4, 0.1), (0.5, 0.9)):
        trainer._finish_epoch({"accuracy": accuracy, "loss": loss})
    assert [line["best"] for line in trainer.position.history] == [True, True, False, False, False]
    assert trainer.position.best_epoch == 2


@pytest.mark.parametrize("patience", [0, -1, True])
def test_patience_is_checked(patience):
    with pytest.raises(ValueError, match="patience"):
        EarlyStopping(patience)


def test_an_interrupted_run_resumes(tmp_path):
    class Interrupt(Callback):
        def on_step(self, trainer, progress):
            if progress.step == 4:
                trainer.interrupt()

    arguments = (model(), data(), data(8, 1))
    whole = s7.train(*arguments, **SETTINGS)
    with pytest.raises(Interrupted):
        s7.train(*arguments, callbacks=[Interrupt()], out=tmp_path / "run", **SETTINGS)
    again = s7.train(*arguments, out=tmp_path / "run", resume=True, **SETTINGS)
    assert again.result["valid"] == whole.result["valid"]


def test_a_run_resumes_only_with_its_objective_and_weights(tmp_path):
    arguments = (data(), data(8, 1))
    settings = SETTINGS | {"out": tmp_path / "run"}
    s7.train(model(), *arguments, **settings)
    with pytest.raises(ValueError, match=r"started with objective.weights=\[\], not \[1.0, 2.0\]"):
        s7.train(model(), *arguments, resume=True, class_weights=(1.0, 2.0), **settings)
    other = jax.tree.map(lambda leaf: leaf * 1.5, model())
    with pytest.raises(ValueError, match="started with other initial weights"):
        s7.train(other, *arguments, resume=True, **settings)


def test_resuming_a_missing_run_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing: no run to resume"):
        s7.train(model(), data(), data(8, 1), out=tmp_path / "nothing", resume=True)
    with pytest.raises(ValueError, match="resume=True needs out="):
        s7.train(model(), data(), data(8, 1), resume=True)
    assert not (tmp_path / "nothing").exists()


def test_class_weights():
    samples = s7.Samples.of(np.zeros((4, 3, 1), np.float32), np.array([0, 0, 0, 1]))
    objective = CrossEntropy(2, names=("no", "yes"))
    assert with_class_weights(objective, None, samples) is objective
    assert with_class_weights(objective, "balanced", samples).weights == (4 / 6, 2.0)
    assert with_class_weights(objective, [1, 3], samples).weights == (1.0, 3.0)
    assert with_class_weights(objective, {"yes": 5, "no": 1}, samples).weights == (1.0, 5.0)
    outputs = np.log(np.array([[0.25, 0.75], [0.25, 0.75]], np.float32))
    losses = CrossEntropy(2, weights=(1.0, 3.0)).values(outputs, np.array([0, 1]))["loss"]
    np.testing.assert_allclose(losses, -np.log([0.25, 0.75]) * [1, 3], rtol=1e-6)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("equal", 'class_weights=.equal.: expected "balanced"'),
        ([1.0], "1 weights for 2 classes"),
        ({"no": 1}, "no weight for class 'yes'"),
        ({"no": 1, "maybe": 2}, "'maybe' is not a class; classes are 'no', 'yes'"),
        ([1.0, -1.0], "the weight of class 1 is -1.0"),
        ([0.0, 0.0], "the weights of all classes are 0"),
    ],
)
def test_class_weights_that_do_not_fit_are_rejected(weights, message):
    samples = s7.Samples.of(np.zeros((4, 3, 1), np.float32), np.array([0, 0, 0, 1]))
    with pytest.raises(ValueError, match=message):
        with_class_weights(CrossEntropy(2, names=("no", "yes")), weights, samples)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": 0.1}, "no argument 'lr'; it is called 'learning_rate'"),
        ({"patience": 3}, "no argument 'patience'; it is called 'early_stopping'"),
        ({"rate": 0.1}, "'rate' is now called learning_rate"),
        ({"batch": 3}, "'batch' is now called batch_size"),
        ({"early_stoping": 3}, "did you mean 'early_stopping'"),
        ({"seed": -1}, r"seed=-1 must be a whole number from 0 to 2\*\*32 - 1"),
        ({"seed": 2**32}, "seed=4294967296 must be"),
        ({"early_stopping": "3"}, "early_stopping='3' must be a whole number of epochs or an EarlyStopping"),
        ({"early_stopping": 2.5}, "early_stopping=2.5 must be"),
        ({"callbacks": [print]}, "callbacks=.* must be a list of s7.training.Callback objects"),
        ({"callbacks": Hooks()}, "callbacks=.* must be a list"),
        ({"class_weights": 5}, 'class_weights=5: expected "balanced"'),
        ({"minutes": 1.0, "epochs": 3}, "minutes=1 and epochs=3: omit one of them"),
        ({"minutes": 0}, "minutes=0 must be positive"),
    ],
)
def test_wrong_arguments_get_a_hint(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        s7.train(model(), data(), data(8, 1), **settings)


def test_stopping_before_the_first_step_is_an_error():
    class Refuse(Callback):
        def on_start(self, trainer):
            trainer.stop("not today")

    with pytest.raises(ValueError, match="training stopped before the first step: not today"):
        s7.train(model(), data(), data(8, 1), callbacks=[Refuse()])


def test_minutes_and_a_fraction_for_validation(monkeypatch, tmp_path):
    monkeypatch.setattr("s7.training.run.steps_within", lambda seconds, trainer: round(seconds / 10))
    trained = s7.train(model(), data(), valid=0.25, minutes=0.5, out=tmp_path / "run", batch_size=8)
    assert trained.result["steps"] == 3
    again = s7.train(model(), data(), valid=0.25, minutes=0.5, out=tmp_path / "run", batch_size=8, resume=True)
    assert again.result == trained.result
