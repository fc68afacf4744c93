"""Jobs resolve presets, architectures and overrides into complete settings."""

from dataclasses import replace

import numpy as np
import pytest

import s7
from s7.job import SECTIONS, Job
from s7.settings import from_assignments
from s7.tasks import Problem
from s7.training.objectives import CrossEntropy

TASK = "fitzhugh-nagumo"


@pytest.fixture
def problem() -> Problem:
    gaps = np.array([[7.0, 2, 4], [7, 3, 3]])
    samples = s7.Samples.of(np.zeros((2, 3, 1)), np.array([0, 1]), gaps)
    return Problem(samples, samples, samples, s7.LinearEncoder(1), s7.Mean(2), CrossEntropy(2))


def test_settings_override_the_architecture_which_overrides_the_preset():
    ours, lstm = Job(TASK).tables["model"], Job(TASK, model="lstm").tables["model"]
    assert "layer" not in ours
    assert lstm["layer"]["kind"] == "Lstm"
    assert Job(TASK, model="lstm", settings={"model": {"width": 3}}).tables["model"]["width"] == 3


@pytest.mark.parametrize("task", [TASK, "nmnist"], ids=["with depth", "with stages"])
def test_depth_replaces_the_stages_of_a_preset_and_the_reverse(task, problem):
    config = Job(task, settings={"model": {"depth": 4}}).model_config(problem)
    assert config.stages == (s7.Stage(depth=4),)
    config = Job(task, settings={"model": {"stages": [{"stride": 3}]}}).model_config(problem)
    assert config.stages == (s7.Stage(stride=3),)


def test_a_protocol_may_require_model_settings(problem):
    config = Job(TASK).model_config(replace(problem, model={"depth": 3, "bidirectional": True}))
    assert (config.depth, config.bidirectional) == (3, True)


def test_encoder_and_head_follow_from_the_data_and_can_be_changed(problem):
    config = Job(TASK, settings={"model": {"head": {"scale": 3.0}, "encoder": {"bias": 0.1}}}).model_config(problem)
    assert (config.head, config.encoder) == (s7.Mean(2, scale=3.0), s7.LinearEncoder(1, bias=0.1))
    config = Job(TASK, settings={"model": {"head": {"kind": "Last", "outputs": 2}}}).model_config(problem)
    assert config.head == s7.Last(2)


@pytest.mark.parametrize("settings", [{}, {"model": {"width": 5, "head": {"scale": 2.0}}, "train": {"epochs": 2}}])
def test_a_config_describes_its_job(settings, problem):
    job = Job(TASK, seed=3, settings=settings, test=False, variant="v")
    config = job.config(problem)
    again = Job.of(config)
    assert again.config(problem) == config
    assert again.model_config(problem) == job.model_config(problem)
    assert (again.seed, again.test, again.variant) == (3, False, "v")
    assert again.changes(problem) == job.changes(problem)


def test_changes_are_the_settings_that_make_the_same_job(problem):
    job = Job(TASK, settings={"model": {"width": 5, "depth": 3}, "train": {"epochs": 2}})
    changes = job.changes(problem)
    assert set(changes) == {
        "model.width=5",
        'model.stages=[{kind = "Stage", depth = 3, stride = 1, width = "none", pool = "mean"}]',
        "train.epochs=2",
    }
    assert Job(TASK, settings=from_assignments(changes)).config(problem) == job.config(problem)
    assert Job(TASK).changes(problem) == []


def test_a_difference_names_the_setting_as_the_job_has_it():
    job = Job(TASK, settings={"model": {"width": 5}})
    assert job.difference({"model": {"width": 5}}) is None
    assert job.difference({"model": {"width": 6}}) == "model.width=5"
    assert job.difference({"data": {"tolerance": 1e-5}}) == "data.tolerance=0.001"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modle": {}}, "modle: no section 'modle'; did you mean 'model'"),
        ({"model": {"widht": 3}}, "model.widht: no setting 'widht'; did you mean 'width'"),
        ({"model": {"dept": 3}}, "model.dept: no setting 'dept'; did you mean 'depth'"),
        ({"model": {"depth": 2, "stages": []}}, "model: give depth or stages, not both"),
        ({"model": {"depth": 0}}, "depth=0 must be at least 1"),
        ({"train": {"batch": 3}}, "train.batch: 'batch' is now called batch_size"),
        ({"data": {"tolerance": "low"}}, "data.tolerance='low' is not a number"),
    ],
)
def test_wrong_settings_are_named_before_data_are_read(settings, message):
    with pytest.raises(ValueError, match=message):
        Job(TASK, settings=settings).check()


def test_minutes_and_steps_exclude_each_other():
    with pytest.raises(ValueError, match=r"minutes=2 and train.steps=5: omit one of them"):
        Job(TASK, settings={"train": {"steps": 5}}, minutes=2).check()


def test_a_run_on_arrays_is_not_a_job():
    with pytest.raises(ValueError, match=r"trained on arrays with s7.train"):
        Job.of({name: {} for name in SECTIONS})
