"""Ablations apply to every task's preset and change the named component."""

import pytest

from s7.config import ModelConfig, build_config
from s7.encoders import LinearEncoder
from s7.heads import PerStep
from s7.job import Job
from s7.settings import merge, table_of
from s7.study.ablations import ABLATIONS, variants
from s7.tasks import TASKS


def model_config(table: dict) -> ModelConfig:
    """The configuration of a model, with any encoder and head."""
    table = {name: value for name, value in table.items() if name not in ("encoder", "head")}
    return build_config(table, "model", {"encoder": LinearEncoder(1), "head": PerStep(1)})


def resolved(task: str, **changes) -> dict:
    """The complete model settings of a task's preset."""
    return table_of(model_config(merge(Job(task).tables["model"], changes)))


@pytest.mark.parametrize("task", TASKS)
def test_every_ablation_of_every_task_can_be_built(task):
    base = resolved(task)
    for variant in variants(base, irregular=True):
        job = Job(task, settings=variant.settings, variant=variant.label)
        job.check()
        config = model_config(job.tables["model"])
        assert (table_of(config) != base) == (variant.label != "as set"), variant.name


def test_ablations_that_change_nothing_are_omitted():
    names = [variant.name for variant in variants(resolved("walker2d"), irregular=False)]
    assert names[0] == "as set"
    assert {"no reparameterization", "a=0.5 b=0.5", "a=1 b=1", "Λ static", "B static", "no gain"} <= set(names)
    assert not {"a=1 b=0.5", "dt ignored"} & set(names)
    assert not any("pooling" in name for name in names)
    pools = {name for name in ABLATIONS if "pooling" in name}
    assert pools - {variant.name for variant in variants(resolved("nmnist"), irregular=True)} == {"pooling: mean"}


def test_ablations_change_what_they_name():
    plain = ABLATIONS["no reparameterization"](resolved("walker2d"))
    assert plain == {"transition": {"kind": "Plain", "selective": True, "gain": "rate", "tau": [1.0, 50.0]}}
    changed = ABLATIONS["a=1 b=1"](resolved("walker2d", transition={"tau": [0.5, 9.0]}))
    assert changed["transition"]["tau"] == [1.0, 9.0]
