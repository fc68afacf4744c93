"""Search spaces: declared ranges, ranges of the command line, and the settings that they change."""

import re
from dataclasses import replace

import pytest

from s7.job import Job
from s7.ranges import Choice, Range
from s7.tune.space import Space, parse

PAPER = {"model.depth", "model.width", "model.state", "model.blocks", "model.dropout"}
PAPER |= {"train.learning_rate", "train.weight_decay", "train.batch_size"}


@pytest.fixture(scope="module")
def job() -> Job:
    return Job("pendulum", test=False)


def test_the_preset_is_a_point_of_the_declared_space(job):
    space = Space.of(job)
    assert set(space.ranges) == PAPER | {"model.form.rank"}
    assert space.preset_values().keys() == space.ranges.keys()
    unchanged = replace(job, settings=space.settings(job, space.preset_values()))
    assert unchanged.complete() == job.complete()
    # Settings of S7 are not searched for other layers, and depth is one of each stage.
    assert set(Space.of(Job("pendulum", "gru-d")).ranges) == PAPER - {"model.state", "model.blocks"}
    assert {"model.stages.0.depth", "model.stages.1.depth"} <= set(Space.of(Job("nmnist")).ranges)


def test_only_and_space_choose_settings(job):
    given = ["model.encoder.hidden=16:128:16", "train.warmup=0:0.2", "model.norm=layer,rms"]
    space = Space.of(job, given, ["train.learning_rate", "model.transition.tau.1", "model.depth"])
    values = {
        "model.encoder.hidden": 32,
        "train.warmup": 0.1,
        "model.norm": "rms",
        "train.learning_rate": 0.5,
        "model.transition.tau.1": 70.0,
        "model.depth": 2,
    }
    assert space.ranges.keys() == values.keys()
    changed = replace(job, settings=space.settings(job, values)).complete()
    assert changed["model"]["encoder"]["hidden"] == 32
    assert changed["model"]["encoder"]["kind"] == "DenseEncoder"
    least = job.complete()["model"]["transition"]["tau"][0]
    assert changed["model"]["transition"]["tau"] == [least, 70.0]
    assert [stage["depth"] for stage in changed["model"]["stages"]] == [2]
    assert (changed["train"]["learning_rate"], changed["train"]["warmup"]) == (0.5, 0.1)
    assert Space.of(job, only=["train"]).ranges.keys() == {name for name in PAPER if name.startswith("train.")}
    assert "train.ssm_learning_rate" in Space.of(job, only=["train.ssm_learning_rate"]).ranges


def test_ranges_on_the_command_line():
    assert parse("1:8", 4, "") == Range(1, 8)
    assert parse("1:8", 0.5, "") == Range(1.0, 8.0)
    assert parse("1e-4:1e-2:log", 0.5, "") == Range(1e-4, 1e-2, log=True)
    assert parse("16:64:16", 32, "") == Range(16, 64, step=16)
    assert parse("true,false", True, "") == Choice((True, False))
    assert parse("rate, none", "rate", "") == Choice(("rate", "none"))


@pytest.mark.parametrize(
    ("given", "only", "message"),
    [
        (["model.widht=1:2"], [], "--space model.widht: no setting 'widht'; did you mean 'width'?"),
        (["model.width"], [], "expected KEY=LOW:HIGH"),
        (["model.width=3"], [], "different values"),
        (["model.width=5:2"], [], "expected two finite numbers in order"),
        (["model.width=a:b"], [], "expected LOW:HIGH with two numbers"),
        (["model.width=1:2:3:4"], [], "expected LOW:HIGH with two numbers"),
        (["train.learning_rate=0:1:log"], [], "a logarithmic range starts above 0"),
        (["model.dropout=0:2"], [], "range model.dropout=0:2: model: dropout=2.0 must be"),
        ([], ["model.widht"], "no declared range 'model.widht'; did you mean 'model.width'?"),
        ([], ["data"], "no declared range 'data'"),
    ],
)
def test_errors_name_the_range(job, given, only, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        Space.of(job, given, only)
    assert "\n" not in str(error.value)
