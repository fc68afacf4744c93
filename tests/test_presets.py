"""Presets: all can be built, and those of the paper have its hyperparameters."""

import tomllib
from importlib.resources import files

import numpy as np
import pytest
from benchmarks.edge_models import PARTS, preset_names

import s7
from s7.baselines import architectures
from s7.config import build_config
from s7.job import Job
from s7.presets import NAMES, preset
from s7.settings import build
from s7.tasks import TASKS, Problem
from s7.training import TrainConfig
from s7.training.objectives import CrossEntropy

FILES = {file.name.removesuffix(".toml"): file for file in files("s7.presets").iterdir() if file.name.endswith(".toml")}
TABLES = {task: tomllib.loads(file.read_text(encoding="utf-8")) for task, file in FILES.items()}
ALL = [(task, name) for task, tables in sorted(TABLES.items()) for name in tables if name in NAMES]
PEERS = set(architectures()) | {architecture.family for architecture in architectures().values()}

# The paper's table of hyperparameters: depth, H, dropout, P, J, SSM LR, WD, epochs, B; and the factor from the
# SSM LR to the rate of all else.
PAPER = {
    "dvs-gesture": (6, 32, 0.10, 16, 1, 1.44e-4, 0, 100, 3, 6),
    "eigenworms": (1, 16, 0.03, 14, 7, 6.78e-4, 0.044, 900, 12, 4),
    "human-activity": (1, 120, 0.04, 64, 32, 7.42e-3, 0.019, 400, 80, 2),
    "image": (2, 60, 0.15, 24, 12, 2.79e-3, 0.015, 200, 280, 16),
    "listops": (6, 102, 0.23, 8, 1, 3.42e-4, 0.065, 200, 64, 3),
    "pathfinder": (6, 50, 0, 2, 1, 9.23e-4, 0.010, 200, 16, 4),
    "retrieval": (3, 80, 0.10, 10, 2, 5.04e-4, 0.045, 90, 18, 3),
    "shd": (6, 48, 0.14, 8, 1, 1.54e-3, 0.021, 30, 32, 10),
    "ssc": (8, 32, 0.25, 32, 4, 8.68e-5, 0.004, 200, 8, 5),
    "text": (6, 96, 0.31, 4, 1, 1.03e-3, 0.021, 200, 32, 4),
    "walker2d": (1, 100, 0.21, 32, 16, 2.25e-3, 0.085, 100, 60, 2),
}


def test_every_task_has_presets():
    assert set(TABLES) == set(PAPER) | set(TASKS)
    for tables in TABLES.values():
        assert set(tables) <= set(NAMES) | PEERS
        for table in tables.values():
            assert set(table) <= {"data", "model", "train"}


@pytest.mark.parametrize(("task", "name"), ALL)
def test_a_preset_can_be_built(task, name):
    if task in TASKS:
        Job(task, preset=name).check()
    table = preset(task, name)
    model = table["model"]
    from_data = {"encoder": s7.LinearEncoder(1), "head": s7.Mean(1)}
    config = build_config(model, "model", {name: q for name, q in from_data.items() if name not in model})
    assert config.state % config.blocks == 0
    build(TrainConfig, table["train"], "train")


@pytest.mark.parametrize("model", architectures())
def test_every_model_can_be_set_up_for_every_task(model):
    for task in TASKS:
        Job(task, model=model).check()


def test_baselines_have_the_units_of_the_papers_tables():
    units = {"fitzhugh-nagumo": {"lstm": 16}, "eigenworms": {"lstm": 32}, "walker2d": {"lstm": 64}}
    for task, models in units.items():
        for model, width in models.items():
            table = Job(task, model=model).tables["model"]
            assert table["width"] == width
            assert table["stages"] == [{"depth": 1}]


def test_a_users_task_gets_the_mean_gap_of_its_training_data():
    samples = s7.Samples.of(np.zeros((2, 3, 1)), np.array([0, 1]), np.array([[7.0, 2, 4], [7, 3, 3]]))
    problem = Problem(samples, samples, samples, s7.LinearEncoder(1), s7.Mean(2), CrossEntropy(2))
    assert Job("fitzhugh-nagumo").model_config(problem).time_unit == 3
    settings = {"model": {"time_unit": 5.0}}
    assert Job("fitzhugh-nagumo", settings=settings).model_config(problem).time_unit == 5
    assert Job("walker2d").model_config(problem).time_unit == 1


@pytest.mark.parametrize("task", PAPER)
def test_the_papers_settings_are_as_printed(task):
    table = preset(task, "paper")
    model, train = table["model"], table["train"]
    depth, width, dropout, state, blocks, rate, decay, epochs, batch, factor = PAPER[task]
    # The gaps of these tasks are in milliseconds, ticks or steps, and used as they are.
    timed = task in ("dvs-gesture", "human-activity", "shd", "ssc", "walker2d")
    assert model.pop("time_unit", None) == (1.0 if timed else None)
    assert model.pop("gaps", None) == ("read" if timed else None)
    assert model == {
        "depth": depth,
        "width": width,
        "dropout": dropout,
        "state": state,
        "blocks": blocks,
        "norm": "batch",
        "form": {"kind": "Full", "D": "full"},
        "transition": {"kind": "Stable", "gain": "none"},
    }
    assert train.pop("learning_rate") == pytest.approx(rate * factor)
    assert train == {"ssm_learning_rate": rate, "weight_decay": decay, "epochs": epochs, "batch_size": batch}


def test_the_paper_has_these_tasks():
    assert {task for task, tables in TABLES.items() if "paper" in tables} == set(PAPER)


@pytest.mark.parametrize(
    ("task", "name", "message"),
    [
        ("walker2d", "papr", "no preset 'papr'; did you mean 'paper'"),
        ("walker2d", "x", "no preset 'x'; known: ours, paper"),
        ("pendulum", "paper", r"pendulum has no preset 'paper'; the paper prints no settings .* \(there is: ours\)"),
        ("no-task", "ours", r"no-task has no preset 'ours' \(there is: none\)"),
    ],
)
def test_an_unknown_preset_is_rejected(task, name, message):
    with pytest.raises(ValueError, match=message):
        preset(task, name)


def test_models_of_all_presets_can_be_compared_with_the_library():
    assert {task for task, _ in preset_names()} == set(PARTS)
