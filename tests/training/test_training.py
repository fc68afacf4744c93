"""Training on arrays: it learns, it resumes bit-equal, and errors name the cause."""

import json
import shutil
import time
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import s7
from s7.data.loader import Augmentation
from s7.training import Callback, CrossEntropy, Diverged, Interrupted, MeanSquared, TrainConfig, Trainer, pace

SETTINGS = {"width": 4, "state": 3, "depth": 1, "form": s7.Factored(rank=2)}


def sums(count=24, seed=0):
    """Sequences of one feature, labelled by the sign of their sum."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 10, 1)).astype(np.float32)
    return x, (x.sum((1, 2)) > 0).astype(np.int32)


def classifier(**changes):
    return s7.S7Model(encoder=s7.LinearEncoder(1), head=s7.Mean(2), key=jax.random.key(0), **SETTINGS | changes)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody disturbed, and its folder."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    trained = s7.train(
        classifier(dropout=0.2), sums(), sums(8, 1), sums(8, 2), out=folder, epochs=4, batch_size=7, learning_rate=0.05
    )
    return trained, folder


class StopAt(Callback):
    """Interrupts the run at a step, as a signal does."""

    def __init__(self, step):
        self.step = step

    def on_step(self, trainer, progress):
        if progress.step == self.step:
            trainer.interrupt()


class Quit(Exception):
    """As if the power failed."""


class Fail(Callback):
    """Raises at a step, as if the process died."""

    def __init__(self, step):
        self.step = step

    def on_step(self, trainer, progress):
        if progress.step == self.step:
            raise Quit


def lines(folder):
    """The history without the clock."""
    history = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in ("seconds", "cpu_seconds")} for line in history]


def test_it_learns(whole):
    trained, _ = whole
    assert trained.history[-1]["train"]["loss"] < 0.9 * trained.history[0]["train"]["loss"]
    assert trained.result["valid"]["accuracy"] > 0.5


def test_the_best_epoch_is_returned_and_tested_once(whole):
    trained, folder = whole
    order = [(-line["valid"]["accuracy"], line["valid"]["loss"]) for line in trained.history]
    assert trained.result["best_epoch"] == order.index(min(order)) + 1
    x, y = sums(8, 2)
    hits = np.argmax(jax.vmap(trained.model)(x), -1) == y
    assert trained.result["test"]["accuracy"] == pytest.approx(hits.mean())
    assert np.asarray(trained.result["confusion"]).trace() == hits.sum()
    kept = s7.load(folder)
    for mine, theirs in zip(jax.tree.leaves(kept), jax.tree.leaves(trained.model), strict=True):
        assert np.array_equal(mine, theirs)


def test_the_run_folder_has_all_files(whole):
    trained, folder = whole
    names = {"config.toml", "metrics.jsonl", "result.json", "best", "last", "initial", "examples"}
    assert {path.name.removesuffix(".safetensors") for path in folder.iterdir() if path.name != ".lock"} == names
    assert json.loads((folder / "result.json").read_text()) == trained.result
    expected = {"seed", "parameters", "epochs", "best_epoch", "seconds", "steps_per_second"}
    assert expected | {"valid", "test", "data_sha256", "versions"} <= set(trained.result)


@pytest.mark.parametrize("step", [1, 4, 9])
def test_a_stopped_run_resumes_bit_equal(whole, tmp_path, step):
    model = classifier(dropout=0.2)
    arguments = (model, sums(), sums(8, 1), sums(8, 2))
    settings = {"out": tmp_path / "run", "epochs": 4, "batch_size": 7, "learning_rate": 0.05}
    with pytest.raises(Interrupted):
        s7.train(*arguments, **settings, callbacks=[StopAt(step)])
    again = s7.train(*arguments, **settings, resume=True)
    assert lines(tmp_path / "run") == lines(whole[1])
    assert again.result["test"] == whole[0].result["test"]
    for name in ("best.safetensors", "initial.safetensors", "examples.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (whole[1] / name).read_bytes()


def test_training_can_end_within_an_epoch(whole, tmp_path):
    arguments = (classifier(dropout=0.2), sums(), sums(8, 1))
    # Of the epochs, 4 batches each, the first is as ever; the second ends after 2, with a validation and a rate near 0.
    settings = {"epochs": 4, "steps": 6, "batch_size": 7, "learning_rate": 0.05}
    trained = s7.train(*arguments, **settings)
    assert [(line["epoch"], line["step"]) for line in trained.history] == [(1, 4), (2, 6)]
    assert (trained.result["epochs"], trained.result["steps"], trained.result["steps_per_epoch"]) == (2, 6, 4)
    assert trained.history[-1]["learning_rate"] < 0.2 * trained.history[0]["learning_rate"]
    with pytest.raises(Interrupted):
        s7.train(*arguments, **settings, out=tmp_path / "run", callbacks=[StopAt(5)])
    again = s7.train(*arguments, **settings, out=tmp_path / "run", resume=True)
    assert [line["valid"] for line in again.history] == [line["valid"] for line in trained.history]


def test_the_pace_is_measured(monkeypatch):
    samples = s7.Samples.of(*sums())
    trainer = Trainer.start(classifier(), CrossEntropy(2), samples, samples, TrainConfig(batch_size=7), 0)
    before = np.array(trainer.state.trained)
    # A step takes two seconds and a validation eight: an epoch of 4 batches sixteen.
    ticks = iter([tick for seconds in 2 * [2 * pace.TIMED, 8, 8] for tick in (0, seconds)])
    monkeypatch.setattr(pace, "working_clock", lambda: lambda: next(ticks))
    assert [pace.steps_within(seconds, trainer) for seconds in (32, 40)] == [8, 10]
    assert np.array_equal(trainer.state.trained, before)


def test_one_compiled_step_serves_any_length_and_learning_rate():
    samples = s7.Samples.of(*sums())
    settings = {"batch_size": 7, "buckets": 1}
    first, second = (
        Trainer.start(classifier(), CrossEntropy(2), samples, samples, TrainConfig(**settings | more), 0)
        for more in ({"steps": 3}, {"epochs": 50, "learning_rate": 0.1, "warmup": 0.3})
    )
    first.fit()
    compiled = first.train_step.compiled._cache_size()
    second.train_step = first.train_step
    with pytest.raises(Interrupted):
        second.fit([StopAt(2)])
    assert first.train_step.compiled._cache_size() == compiled == 1


@dataclass(frozen=True)
class Slow(Augmentation):
    """An augmentation that takes 20 ms of processor time."""

    def longest(self, lengths):
        return lengths

    def __call__(self, samples, chosen, seed, epoch):
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        return samples.take(chosen)


def test_the_pace_includes_the_preparation_of_batches():
    samples = s7.Samples.of(*sums())
    trainer = Trainer.start(classifier(), CrossEntropy(2), samples, samples, TrainConfig(batch_size=7), 0, Slow())
    # A few may have been made before the clock began to run.
    assert pace.steps_within(10, trainer) < 1.5 * 10 / 0.02


@pytest.mark.parametrize("step", [2, 6])
def test_a_crashed_run_resumes_bit_equal(whole, tmp_path, step):
    arguments = (classifier(dropout=0.2), sums(), sums(8, 1), sums(8, 2))
    settings = {"out": tmp_path / "run", "epochs": 4, "batch_size": 7, "learning_rate": 0.05}
    with pytest.raises(Quit):
        s7.train(*arguments, **settings, callbacks=[Fail(step)])
    s7.train(*arguments, **settings, resume=True)
    assert lines(tmp_path / "run") == lines(whole[1])
    assert (tmp_path / "run" / "best.safetensors").read_bytes() == (whole[1] / "best.safetensors").read_bytes()


def test_a_finished_run_is_not_run_again(whole):
    trained, folder = whole
    arguments = (classifier(dropout=0.2), sums(), sums(8, 1), sums(8, 2))
    again = s7.train(
        *arguments, out=folder, resume=True, epochs=4, batch_size=7, learning_rate=0.05, callbacks=[StopAt(1)]
    )
    assert again.result == trained.result
    with pytest.raises(FileExistsError, match="holds a run"):
        s7.train(*arguments, out=folder, epochs=4, batch_size=7, learning_rate=0.05)


def test_a_run_resumes_only_with_its_own_settings_and_data(whole, tmp_path):
    folder = shutil.copytree(whole[1], tmp_path / "run")
    model, train, valid, test = classifier(dropout=0.2), sums(), sums(8, 1), sums(8, 2)
    for change, message in (
        ({"learning_rate": 0.1}, "started with train.learning_rate=0.05, not 0.1"),
        ({"seed": 3}, "started with seed=0, not 3"),
    ):
        with pytest.raises(ValueError, match=message):
            s7.train(
                model,
                train,
                valid,
                test,
                out=folder,
                resume=True,
                **{"epochs": 4, "batch_size": 7, "learning_rate": 0.05} | change,
            )
    settings = {"out": folder, "resume": True, "epochs": 4, "batch_size": 7, "learning_rate": 0.05}
    with pytest.raises(ValueError, match="it was started with other train data"):
        s7.train(model, sums(seed=5), valid, test, **settings)
    with pytest.raises(ValueError, match=r"model\.dropout"):
        s7.train(classifier(dropout=0.1), train, valid, test, **settings)


def test_a_checkpoint_that_was_cut_off_is_rejected(whole, tmp_path):
    folder = shutil.copytree(whole[1], tmp_path / "run")
    last = folder / "last.safetensors"
    last.write_bytes(last.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"last\.safetensors: truncated"):
        s7.train(
            classifier(dropout=0.2), sums(), sums(8, 1), sums(8, 2), out=folder, resume=True, epochs=4, batch_size=7
        )


def test_two_runs_in_one_folder_are_rejected(tmp_path):
    class Other(Callback):
        def on_start(self, trainer):
            with pytest.raises(OSError, match="another run is active"):
                s7.train(classifier(), sums(), sums(8, 1), out=tmp_path, epochs=1)
            raise Quit

    with pytest.raises(Quit):
        s7.train(classifier(), sums(), sums(8, 1), out=tmp_path, epochs=1, callbacks=[Other()])


def test_a_full_disk_preserves_existing_files(whole, tmp_path, monkeypatch):
    arguments = (classifier(dropout=0.2), sums(), sums(8, 1), sums(8, 2))
    settings = {"out": tmp_path / "run", "epochs": 4, "batch_size": 7, "learning_rate": 0.05}
    with pytest.raises(Quit):
        s7.train(*arguments, **settings, callbacks=[Fail(6)])
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}

    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            s7.train(*arguments, **settings, resume=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    s7.train(*arguments, **settings, resume=True)
    assert lines(tmp_path / "run") == lines(whole[1])


class Breaks(eqx.Module):
    """The square root of its input, with an infinite gradient at zero."""

    a: jax.Array
    b: jax.Array

    def __call__(self, inputs, dt=None, length=None, *, key=None):
        return self.a * inputs + jnp.sqrt(self.b * inputs)


def test_a_non_finite_number_stops_the_run_with_its_position(tmp_path):
    x = np.ones((12, 5, 1), np.float32)
    x[9] = 0
    model = Breaks(jnp.ones(()), jnp.ones(()))
    with pytest.raises(Diverged) as caught:
        s7.train(model, (x, x), (x, x), objective=MeanSquared(1), out=tmp_path, epochs=3, batch_size=1)
    message = str(caught.value)
    assert "step" in message
    assert "samples 9" in message
    assert "first parameter that is not finite is b" in message


def test_after_divergence_the_last_checkpoint_is_valid(tmp_path):
    x = np.ones((8, 5, 1), np.float32)
    bad = x.copy()
    bad[3] = 0
    arguments = {"objective": MeanSquared(1), "out": tmp_path, "epochs": 3, "batch_size": 8, "learning_rate": 1e-3}
    model = Breaks(jnp.ones(()), jnp.ones(()))
    with pytest.raises(Quit):
        s7.train(model, (x, x), (x, x), **arguments, callbacks=[Fail(2)])
    before = (tmp_path / "last.safetensors").read_bytes()
    with pytest.raises(ValueError, match="data"):
        s7.train(model, (bad, bad), (x, x), **arguments, resume=True)
    assert (tmp_path / "last.safetensors").read_bytes() == before


class Line(eqx.Module):
    w: jax.Array

    def __call__(self, inputs, dt=None, length=None, *, key=None):
        return self.w * inputs


def test_any_module_can_be_trained_and_resumed(tmp_path):
    x = np.random.default_rng(0).normal(size=(8, 6, 1)).astype(np.float32)
    data = (x, 3 * x)
    settings = {"epochs": 30, "batch_size": 4, "learning_rate": 0.3}
    whole = s7.train(Line(jnp.zeros(())), data, data, **settings)
    assert float(whole.model.w) == pytest.approx(3, abs=0.05)
    with pytest.raises(Interrupted):
        s7.train(Line(jnp.zeros(())), data, data, **settings, out=tmp_path, callbacks=[StopAt(9)])
    again = s7.train(Line(jnp.zeros(())), data, data, **settings, out=tmp_path, resume=True)
    assert float(again.model.w) == float(whole.model.w)


def test_a_target_may_be_a_single_number():
    x, _ = sums()
    model = s7.S7Model(encoder=s7.LinearEncoder(1), head=s7.Mean(1), key=jax.random.key(0), **SETTINGS)
    data = (x, x.sum((1, 2)))
    trained = s7.train(model, data, data, epochs=2, learning_rate=0.05)
    assert trained.result["objective"] == "MeanSquared"
    outputs = np.asarray(jax.vmap(trained.model)(x))[:, 0]
    assert trained.result["valid"]["mse"] == pytest.approx(np.mean((outputs - data[1]) ** 2), rel=1e-4)


def test_accumulated_batches_make_one_update(tmp_path):
    whole = s7.train(classifier(), sums(), sums(8, 1), epochs=2, batch_size=24, learning_rate=0.02, warmup=0)
    parts = s7.train(
        classifier(), sums(), sums(8, 1), epochs=2, batch_size=8, accumulate=3, learning_rate=0.02, warmup=0
    )
    for one, other in zip(jax.tree.leaves(whole.model), jax.tree.leaves(parts.model), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-4)


def test_batch_norms_statistics_follow_the_data_and_are_not_trained():
    model = classifier(norm="batch")
    trained = s7.train(model, sums(), sums(8, 1), epochs=1, batch_size=8)
    before, after = model.moments[0], trained.model.moments[0]
    assert not np.allclose(before.mean, after.mean)
    assert trained.result["parameters"] == model.parameter_count


def test_packed_and_padded_training_agree():
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(n, 1)).astype(np.float32) for n in (3, 9, 5, 7)]
    y = np.array([0, 1, 1, 0], np.int32)
    padded = s7.train(classifier(), (x, y), (x, y), epochs=2, batch_size=4, buckets=1)
    packed = s7.train(classifier(), (x, y), (x, y), epochs=2, batch_size=1, pack=24)
    for one, other in zip(padded.history, packed.history, strict=True):
        assert one["valid"]["loss"] == pytest.approx(other["valid"]["loss"], rel=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epohcs": 3}, "no setting 'epohcs'; did you mean 'epochs'"),
        ({"batch_size": 0}, "batch_size=0 must be at least 1"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0 must be finite and not negative"),
        ({"epochs": 2.5}, "train.epochs=2.5 is not a whole number"),
        ({"objective": s7.training.CrossEntropy(5)}, "the model has 2 outputs, CrossEntropy needs 5"),
    ],
)
def test_invalid_settings_are_rejected(change, message):
    with pytest.raises(ValueError, match=message):
        s7.train(classifier(), sums(), sums(8, 1), **change)


def test_data_that_do_not_fit_are_rejected():
    x, y = sums()
    bad = x.copy()
    bad[4, 2] = np.nan
    cases = [
        ((bad, y), "train: inputs of sequence 4, event 2 is not finite"),
        ((x, y + 1), "train: label of sequence .* is outside of 0 to 1"),
        ((x, np.zeros((24, 10), np.int32)), "targets are one per step, but Mean gives one output per sequence"),
        ((np.concatenate([x, x], -1), y), r"train: an event has shape \(2,\), the encoder reads \(1,\)"),
        ((x, y, -np.ones((24, 10), np.float32)), "train: dt of sequence 0, event 0 is negative"),
    ]
    for data, message in cases:
        with pytest.raises(ValueError, match=message):
            s7.train(classifier(), data, sums(8, 1))
    shape = {"width": 4, "state": 3, "stages": (s7.Stage(stride=2),)}
    pooling = s7.S7Model(encoder=s7.LinearEncoder(1), head=s7.PerStep(1), key=jax.random.key(0), **shape)
    with pytest.raises(ValueError, match="pools by 2"):
        s7.train(pooling, (x, x), (x, x))


def test_pairs_of_documents_are_trained_on(tmp_path):
    rng = np.random.default_rng(0)
    documents = [rng.integers(0, 5, size) for size in rng.integers(3, 9, 24)]
    pairs = s7.Samples.of(documents, np.arange(12) % 2, documents=2, name="pairs")
    model = s7.S7Model(
        encoder=s7.TokenEncoder(5), head=s7.Retrieval(2), width=4, state=2, depth=1, key=jax.random.key(0)
    )
    trained = s7.train(model, pairs, pairs, epochs=1, batch_size=5, buckets=1, out=tmp_path / "run")
    assert np.sum(trained.result["confusion"]) == 12
    examples = load_file(tmp_path / "run" / "examples.safetensors")
    assert examples["0.inputs"].shape == (2, min(len(documents[0]), len(documents[1])))
    assert examples["0.inputs"][1].tolist() == documents[1][: examples["0.inputs"].shape[1]].tolist()
