"""`s7 bench train`. No test depends on a speed."""

import jax
import numpy as np
import pytest

import s7
from s7.bench import models, problems, train
from s7.bench.table import Table
from s7.model import S7Model
from s7.presets import tasks_with


@pytest.fixture
def only_xla(monkeypatch):
    """One backend, to compile less, and no matrix products."""
    monkeypatch.setattr(train, "backend_names", lambda: ["xla"])
    monkeypatch.setattr(train, "sgemm_rate", lambda: 100.0)


@pytest.mark.parametrize(("task", "preset", "batch"), [("eigenworms", "paper", 12), ("spoken-digits", "ours", 16)])
def test_training_steps(task, preset, batch, only_xla):
    (row,) = train.rows([task], [8], preset=preset, runs=1)
    assert (row["task"], row["preset"], row["batch"], row["length"]) == (task, preset, batch, 8)
    assert row["steps_per_s"] == pytest.approx(1000 / row["step_ms"])
    assert row["step_ratio"] == 1
    assert row["step_of_sgemm"] == pytest.approx(2 * row["multiply_adds"] / row["step_ms"] / 1e6 / 100)
    assert row["compile_s"] > 0
    assert row["memory_mb"] > 0


def test_models_are_compared_with_their_arithmetic(monkeypatch):
    monkeypatch.setattr(models, "sgemm_rate", lambda clock: 100.0)
    skipped, row = models.rows("human-activity", ["cnn-s5", "lstm"], length=2, runs=1)
    assert (row["implementation"], row["batch"], row["length"]) == ("lstm", 16, 2)
    assert row["step_relative"] == 1
    assert row["slowness"] == pytest.approx(row["step_ms"] / (row["step_mflop"] / 20))
    assert "not tokens" in skipped["skipped"]
    assert Table("models").line(skipped).endswith("choose another model")


def test_every_preset_has_a_kind_of_data():
    assert set(tasks_with("ours")) == set(problems.KINDS)
    assert train.preset_tasks(["ours"]) == {"ours": sorted(problems.KINDS)}
    chosen = train.preset_tasks(["paper", "ours"], ["walker2d", "nmnist"])
    assert chosen == {"paper": ["walker2d"], "ours": ["walker2d", "nmnist"]}


@pytest.mark.parametrize("task", problems.KINDS)
def test_the_data_fit_the_model(task):
    case = problems.train_case(task, "ours", 16)
    batch = case.data()
    model = S7Model(case.config, key=jax.random.key(0))
    dt = None if batch.dt is None else batch.dt[0]
    outputs = jax.eval_shape(lambda inputs, dt: model(inputs, dt), batch.inputs[0], dt)
    windows = -(-16 // model.stride)
    expected = (windows, case.objective.outputs) if case.config.head.per_step else (case.objective.outputs,)
    assert outputs.shape == expected
    assert batch.weight.shape == batch.targets.shape[: batch.weight.ndim]
    assert (batch.dt is not None) == case.gaps


def test_lengths_are_those_of_the_data_unless_given():
    assert problems.train_case("walker2d", "ours").length == 64
    assert problems.train_case("walker2d", "paper").length == 1024
    case = problems.train_case("dvs-gesture", "ours", 65_536)
    assert (case.batch, case.length) == (1, 65_536)
    encoder = case.config.encoder
    assert isinstance(encoder, s7.EventEncoder)
    assert not encoder.token  # the preset's, not the task's
    np.testing.assert_array_equal(case.data().inputs, case.data().inputs)
