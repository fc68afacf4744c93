"""Run records: written and read back equal, older formats read, damaged files named in one line."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from s7.records import Epoch, Result, RunRecord, read_result

CONFIG = {
    "task": "walker2d",
    "preset": "ours",
    "protocol": "strict",
    "seed": 3,
    "test": True,
    "variant": "",
    "set": ["model.width=8", "train.steps=12"],
    "minutes": 0.5,
    "data": {"copies": 1},
    "model": {"kind": "s7", "width": 8, "form": {"kind": "Factored", "rank": 2}},
    "train": {"steps": 12, "learning_rate": 0.01},
}
HISTORY = (
    Epoch(1, {"loss": 1.0, "mse": 1.0}, {"loss": 2.0, "mse": 2.0}, 6, 1.5, 0.01, True),
    Epoch(2, {"loss": 0.5, "mse": 0.5}, {"loss": 3.0, "mse": 3.0}, 12, 3.0, 0.005),
)
RESULT = Result(
    task="walker2d",
    model="s7",
    preset="ours",
    protocol="strict",
    seed=3,
    set=("model.width=8", "train.steps=12"),
    parameters=100,
    best_epoch=1,
    metric="mse",
    valid={"mse": 2.0},
    test={"mse": 2.5},
    classes=("a", "b"),
    confusion=((1, 0), (2, 3)),
    extra={"note": [1, 2]},
)


@pytest.fixture
def folder(tmp_path) -> Path:
    RunRecord(CONFIG, HISTORY, RESULT).write(tmp_path)
    return tmp_path


def test_a_record_is_read_back_equal(folder):
    assert RunRecord.read(folder) == RunRecord(CONFIG, HISTORY, RESULT)


def test_an_unfinished_record_has_no_result(tmp_path):
    RunRecord(CONFIG, HISTORY).write(tmp_path)
    record = RunRecord.read(tmp_path)
    assert record == RunRecord(CONFIG, HISTORY)
    assert not record.finished
    assert record.value("valid", "mse") == 2.0
    assert record.value("test", "mse") is None
    assert (record.metric, record.better) == ("mse", "min")


def test_attributes_are_read_from_the_result_or_the_configuration():
    finished, begun = RunRecord(CONFIG, HISTORY, RESULT), RunRecord(CONFIG)
    for record in (finished, begun):
        assert (record.task, record.model, record.preset, record.protocol) == ("walker2d", "s7", "ours", "strict")
        assert (record.seed, record.variant, record.tests, record.minutes) == (3, "", True, 0.5)
        assert record.changes == ("model.width=8", "train.steps=12")
        assert record.section("train")["learning_rate"] == 0.01
    assert finished.best == HISTORY[0]
    assert begun.best is None


def test_the_command_has_every_option():
    config = CONFIG | {"test": False, "variant": "two words", "model": {"kind": "lstm"}}
    words = shlex.split(RunRecord(config).command or "")
    assert words[:3] == ["s7", "train", "walker2d"]
    options = ["--model", "lstm", "--preset", "ours", "--protocol", "strict", "--seed", "3", "--variant", "two words"]
    assert words[3:] == [*options, "--no-test", "--set", "model.width=8", "train.steps=12"]


def test_the_command_has_the_minutes_until_the_steps_are_known():
    assert (RunRecord(CONFIG | {"set": []}).command or "").endswith("--minutes 0.5")


def test_a_run_on_arrays_has_no_command():
    assert RunRecord({"seed": 0, "train": {"epochs": 3}}).command is None


def test_runs_of_version_0_6_are_read_under_the_present_names(tmp_path):
    (tmp_path / "config.toml").write_text('format = 1\ntask = "text"\nseed = 0\n\n[train]\nrate = 0.5\nbatch = 4\n')
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1, "train": {}, "valid": {}, "rate": 0.25, "best": true}\n')
    (tmp_path / "result.json").write_text('{"task": "text", "set": ["train.rate=0.5"], "test": {"mse": 1}}')
    record = RunRecord.read(tmp_path)
    assert record.section("train") == {"learning_rate": 0.5, "batch_size": 4}
    assert record.history[0].learning_rate == 0.25
    assert record.changes == ("train.learning_rate=0.5",)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.toml", "format = 3\n", "config.toml: run format 3; this version of s7 reads formats 1 and 2"),
        ("config.toml", "= =", "config.toml: not TOML"),
        ("result.json", '{"format": 7}', "result.json: not a result .run format 7"),
        ("result.json", '{"test": 3}', "result.json: not a result .test is not an object"),
        ("result.json", '{"parameters": "many"}', "result.json: not a result .parameters='many' is not a"),
        ("result.json", "{", "result.json: not a result"),
        ("metrics.jsonl", '{"epoch": 1}\n', "metrics.jsonl, line 1: not an epoch; .*train is missing"),
    ],
)
def test_damaged_files_give_one_line_errors(folder, name, text, message):
    (folder / name).write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        RunRecord.read(folder)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_run_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        RunRecord.read(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="not a run's folder"):
        RunRecord.read(tmp_path)


def test_published_results_are_read():
    results = Path(__file__).parent.parent / "docs" / "results"
    for path in sorted(results.glob("*.json")):
        table = json.loads(path.read_text())
        if "task" not in table:
            continue
        result = read_result(path)
        assert table.items() <= result.to_json().items()


def test_records_do_not_import_jax():
    program = "import sys, s7.records; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
