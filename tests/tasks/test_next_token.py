"""Prediction of the next token, and training that starts from it."""

import equinox as eqx
import jax
import numpy as np
import pytest

import s7
from s7.data.folder import DataFolder
from s7.job import Job
from s7.records import RunRecord
from s7.tasks.next_token import shifted
from tests.listening import silent
from tests.tasks.test_lra_files import write_lines

SETTINGS = {"width": 4, "state": 2, "stages": [{"depth": 1}], "form": {"kind": "Static"}}
TRAIN = {"epochs": 1, "batch_size": 8, "buckets": 1}


def job(target: str, **changes) -> Job:
    tables = {"data": {"target": target, "length": 12}, "model": SETTINGS, "train": TRAIN}
    return Job("text", settings=tables, test=False, **changes)


def test_the_target_of_a_token_is_the_next_one():
    samples = shifted(s7.Samples.of([np.array([3, 1, 2]), np.array([5, 4])], [0, 1], per_step=False))
    assert samples.targets.tolist() == [1, 2, 5, 4, 3]
    assert samples.counts.tolist() == [True, True, False, True, False]
    assert samples.per_step


def test_a_run_starts_from_the_encoder_and_the_blocks_of_another(place, tmp_path):
    write_lines(place)
    data, first = DataFolder(place), tmp_path / "first"
    job("next").run(first, data, say=silent)
    later = job("label", init=str(first))
    problem = later.problem(data, silent)
    model, source = later.new_model(problem), s7.load(first)
    assert eqx.tree_equal((model.encoder, model.blocks), (source.encoder, source.blocks))
    assert model.head["W"].shape == (2, 4)
    assert source.head["W"].shape[0] == problem.encoder.tokens

    trained = later.run(tmp_path / "second", data, say=silent)
    record = RunRecord.read(tmp_path / "second")
    assert f"--init {first}" in record.command
    assert Job.of(record.config).init == str(first)
    again = Job.of(record.config).run(tmp_path / "second", data, resume=True, say=silent)
    jax.tree.map(np.testing.assert_array_equal, again.model, trained.model)


def test_a_model_with_other_blocks_is_rejected(place, tmp_path):
    write_lines(place)
    other = s7.S7Model(encoder=s7.LinearEncoder(2), head=s7.Mean(2), width=8, state=2, depth=1, key=jax.random.key(0))
    path = s7.save(other, tmp_path / "model.safetensors")
    later = job("label", init=str(path))
    message = r"init=.*model.safetensors: encoder\['W'\] has shape \(8, 2\) there and none here"
    with pytest.raises(ValueError, match=message):
        later.new_model(later.problem(DataFolder(place), silent))
