"""`s7 train`: output, interruptions at any moment, resuming, errors."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from s7.cli.main import main
from s7.data.folder import DataFolder
from s7.job import Job
from s7.run_folder import RunFolder

from .processes import SMALL, numbers, run, start, temporary_files


def test_json_output_has_a_line_per_epoch_and_the_result(finished):
    folder, out = finished
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["epoch"] for line in lines[:-1]] == list(range(1, 61))
    result = lines[-1]
    assert result == json.loads((folder / "result.json").read_text())
    expected = {"task", "model", "preset", "protocol", "seed", "parameters", "epochs", "best_epoch", "seconds"}
    assert expected | {"steps_per_second", "valid", "test", "data_sha256", "versions"} <= set(result)
    assert (result["task"], result["model"], result["protocol"]) == ("walker2d", "s7", "strict")
    assert "persistence" in result["baselines"]


def test_a_run_killed_at_any_moment_resumes_to_the_same_bits(finished, data, tmp_path):
    folder = tmp_path / "run"
    chance = random.Random(7)
    arguments = ("train", "walker2d", "--data", data, "--out", folder)
    first = (*arguments, "--set", "train.epochs=60", *SMALL)
    kills = 0
    while not (folder / "result.json").exists():
        begun = (folder / "last.safetensors").exists()
        process = start(*((*arguments, "--resume") if begun else first))
        # Wait for the first epoch, then kill: so small a run mostly writes checkpoints.
        before = (folder / "metrics.jsonl").stat().st_mtime_ns if (folder / "metrics.jsonl").exists() else 0
        while process.poll() is None:
            path = folder / "metrics.jsonl"
            if kills < 2 and path.exists() and path.stat().st_mtime_ns > before:
                time.sleep(chance.uniform(0, 0.05))
                process.kill()
                kills += 1
                break
            time.sleep(0.002)
        process.communicate()
        assert process.returncode in (0, -signal.SIGKILL)
    assert kills >= 1  # a fast machine may finish before the second
    assert numbers(folder) == numbers(finished[0])
    for name in ("best.safetensors", "examples.safetensors"):
        assert (folder / name).read_bytes() == (finished[0] / name).read_bytes()


@pytest.mark.parametrize(("moment", "call"), [("fsync", 19), ("replace", 20)])
def test_a_run_killed_while_saving_resumes_to_the_same_bits(finished, data, tmp_path, moment, call):
    """Half of the file is written, or all of it under its temporary name."""
    folder = tmp_path / "run"
    program = f"""
import os, signal, sys
from s7.cli.main import main
real, calls = os.{moment}, 0
def deadly(*arguments):
    global calls
    calls += 1
    if calls == {call}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments)
os.{moment} = deadly
sys.exit(main())
"""
    arguments = ["train", "walker2d", "--data", str(data), "--out", str(folder)]
    first = [*arguments, "--set", "train.epochs=60", *SMALL]
    done = subprocess.run([sys.executable, "-c", program, *first], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    assert temporary_files(folder)
    status, _, err = run(*arguments, "--resume")
    assert status == 0, err
    assert numbers(folder) == numbers(finished[0])
    assert (folder / "best.safetensors").read_bytes() == (finished[0] / "best.safetensors").read_bytes()
    assert not temporary_files(folder)


def test_a_stopped_run_saves_and_prints_how_to_resume(finished, data, tmp_path):
    folder = tmp_path / "run"
    last = folder / "last.safetensors"
    arguments = ("train", "walker2d", "--data", data, "--out", folder)
    for number in (signal.SIGINT, signal.SIGTERM):
        before = last.stat().st_mtime_ns if last.exists() else 0
        process = start(*arguments, *(["--resume"] if before else ["--set", "train.epochs=60", *SMALL]))
        while process.poll() is None and (not last.exists() or last.stat().st_mtime_ns == before):
            time.sleep(0.005)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert f"--out {folder} --resume" in err
    status, out, _ = run(*arguments, "--resume")
    assert status == 0
    assert "resuming after epoch" in out
    assert numbers(folder) == numbers(finished[0])


def test_a_full_disk_is_a_one_line_error_without_data_loss(finished, data, tmp_path):
    folder = tmp_path / "run"
    arguments = ("train", "walker2d", "--data", data, "--out", folder)
    size = (finished[0] / "last.safetensors").stat().st_size

    # Files cannot grow to the size of a checkpoint.
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size - 2000}, {size - 2000}))"
    program = f"{limit}; import sys; from s7.cli.main import main; sys.exit(main())"
    words = [sys.executable, "-c", program, *map(str, arguments), "--set", "train.epochs=60", *SMALL]
    # JAX's cache of compiled code would be cut off, too, and other tests share it.
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    message = done.stderr
    assert message.count("\n") == 1, message
    assert "File too large" in message
    assert not list(folder.glob(".last*"))
    status, _, err = run(*arguments, "--resume")
    assert status == 0, err
    assert numbers(folder) == numbers(finished[0])


def test_no_test_does_not_use_the_test_data(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = ["--data", str(data), "--out", str(tmp_path / "run"), "--no-test", "--set", "train.epochs=1", *SMALL]
    assert main(["train", "walker2d", *settings]) == 0
    said = capsys.readouterr().out
    assert "valid: mse" in said
    assert "test:" not in said
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["test"] == {}
    assert set(result["data_sha256"]) == {"train", "valid"}


def test_minutes_are_converted_to_steps(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("s7.training.run.steps_within", lambda seconds, trainer: round(seconds / 60))
    out = tmp_path / "run"
    settings = ["--data", str(data), "--out", str(out), "--model", "gru", "--set", *SMALL]
    assert main(["train", "walker2d", "--minutes", "3", *settings]) == 0
    result = json.loads((out / "result.json").read_text())
    assert (result["steps"], result["model"], result["gaps"]) == (3, "gru", "not used")
    assert "train.steps=3" in result["set"]
    said = capsys.readouterr().out
    assert "3 minutes are about 3 batches" in said
    assert said.count("gru ignores time") == 1
    assert main(["train", "walker2d", "--minutes", "0", *settings]) == 2


def test_the_recorded_changes_are_those_of_the_job(finished, data):
    folder = RunFolder(finished[0])
    job = Job.of(folder.record().config)
    recorded = list(folder.record().changes)
    assert job.changes(job.problem(DataFolder(data), print)) == recorded
    changed = {"data.copies", "model.width", "model.state", "model.form", "model.stages", "train.epochs"}
    assert {one.partition("=")[0] for one in recorded} == changed


def test_a_folder_with_another_run_is_rejected(finished, data, tmp_path, capsys):
    def refuse(*arguments):
        assert main([str(argument) for argument in arguments]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        return said

    folder = finished[0]
    assert "holds a run" in refuse("train", "walker2d", "--data", data, "--out", folder)
    assert "a run of walker2d, not of pendulum" in refuse("train", "pendulum", "--out", folder, "--resume")
    assert "a run with seed 0, not 5" in refuse("train", "walker2d", "--out", folder, "--resume", "--seed", "5")
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.toml").write_text('format = 99\ntask = "walker2d"\n')
    assert "run format 99; this version of s7" in refuse("train", "walker2d", "--out", other, "--resume")
    assert "not a run's folder" in refuse("eval", tmp_path)
    assert "/sys" in refuse("train", "walker2d", "--data", data, "--out", "/sys/s7-run")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["walker2"], "no task 'walker2'; did you mean 'walker2d'?"),
        (["walker2d", "--preset", "papper"], "no preset 'papper'; did you mean 'paper'?"),
        (["pendulum", "--preset", "paper"], "the paper prints no settings for this task"),
        (["walker2d", "--protocol", "strickt"], "did you mean 'strict'?"),
        (["walker2d", "--model", "s8"], "no model 's8'; known: "),
        (["walker2d", "--set", "model.widht=3"], "model.widht: no setting 'widht'; did you mean 'width'?"),
        (["walker2d", "--set", "train.epochs=many"], "train.epochs='many' is not a whole number"),
        (["walker2d", "--set", "modle.width=3"], "did you mean 'model'?"),
        (["walker2d", "--set", "model.width"], "expected key=value"),
        (["walker2d", "--set", "model.form=Factord"], "did you mean 'Factored'?"),
        (["walker2d", "--data", "/nowhere"], "is not in /nowhere"),
    ],
)
def test_errors_are_one_line(arguments, message, monkeypatch, capsys):
    monkeypatch.delenv("S7_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere")
    assert main(["train", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
