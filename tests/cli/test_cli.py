"""The commands, as a person or a machine runs them: real processes, killed at any moment."""

import json
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from s7.cli.main import main
from s7.data.folder import DataFolder
from s7.job import Job
from s7.run_folder import RunFolder

SMALL = ("model.width=4", "model.state=3", "model.depth=1", "model.form.rank=2", "data.copies=1", "train.batch_size=16")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with a few short rollouts in it."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    lengths = rng.integers(100, 160, 20)
    obs = np.cumsum(rng.normal(size=(lengths.sum(), 17)), 0).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    names = np.array([f"rollout_{n:03d}.npy" for n in range(20)])
    (folder / "walker2d").mkdir()
    np.savez(folder / "walker2d" / "rollouts.npz", obs=obs, offsets=offsets, names=names)
    return folder


def command(*arguments):
    process = [sys.executable, "-W", "error", "-m", "s7", *map(str, arguments)]
    return subprocess.Popen(process, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*arguments):
    process = command(*arguments)
    out, err = process.communicate(timeout=200)
    return process.returncode, out, err


def leftovers(folder):
    """Files that were being written."""
    return [path for path in folder.glob(".*") if path.name != ".lock"]


def numbers(folder):
    """All that must be the same however often a run was stopped: everything but the clock."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    result = json.loads((folder / "result.json").read_text())
    kept = ("best_epoch", "valid", "test", "data_sha256", "parameters")
    return [{**line, "seconds": 0} for line in lines], {name: result[name] for name in kept}


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """A run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("run") / "whole"
    settings = ("--data", data, "--out", folder, "--json", "--set", "train.epochs=60", *SMALL)
    status, out, err = run("train", "walker2d", *settings)
    assert status == 0, err
    return folder, out


def test_json_has_a_line_for_each_epoch_and_the_result(finished):
    folder, out = finished
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["epoch"] for line in lines[:-1]] == list(range(1, 61))
    result = lines[-1]
    assert result == json.loads((folder / "result.json").read_text())
    expected = {"task", "model", "preset", "protocol", "seed", "parameters", "epochs", "best_epoch", "seconds"}
    assert expected | {"steps_per_second", "valid", "test", "data_sha256", "versions"} <= set(result)
    assert (result["task"], result["model"], result["protocol"]) == ("walker2d", "s7", "strict")
    assert "persistence" in result["baselines"]


def test_killed_at_any_moment_it_goes_on_to_the_same_bits(finished, data, tmp_path):
    folder = tmp_path / "run"
    chance = random.Random(7)
    arguments = ("train", "walker2d", "--data", data, "--out", folder)
    first = (*arguments, "--set", "train.epochs=60", *SMALL)
    kills = 0
    while not (folder / "result.json").exists():
        begun = (folder / "last.safetensors").exists()
        process = command(*((*arguments, "--resume") if begun else (*first, "--resume")))
        # Wait until it works, then strike: most of the time of so small a run goes into writing checkpoints.
        before = (folder / "metrics.jsonl").stat().st_mtime_ns if (folder / "metrics.jsonl").exists() else 0
        while process.poll() is None:
            path = folder / "metrics.jsonl"
            if kills < 3 and path.exists() and path.stat().st_mtime_ns > before:
                time.sleep(chance.uniform(0, 0.05))
                process.kill()
                kills += 1
                break
            time.sleep(0.002)
        process.communicate()
        assert process.returncode in (0, -signal.SIGKILL)
    assert kills >= 1  # a fast machine may be done before it is struck three times
    assert numbers(folder) == numbers(finished[0])
    for name in ("best.safetensors", "examples.safetensors"):
        assert (folder / name).read_bytes() == (finished[0] / name).read_bytes()


@pytest.mark.parametrize(("moment", "call"), [("fsync", 19), ("replace", 20)])
def test_killed_while_a_checkpoint_is_written_it_goes_on_to_the_same_bits(finished, data, tmp_path, moment, call):
    """Half of the file is on the disk, or all of it but under its other name."""
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
    assert leftovers(folder)
    status, _, err = run(*arguments, "--resume")
    assert status == 0, err
    assert numbers(folder) == numbers(finished[0])
    assert (folder / "best.safetensors").read_bytes() == (finished[0] / "best.safetensors").read_bytes()
    assert not leftovers(folder)


def test_asked_to_stop_it_saves_and_says_how_to_go_on(finished, data, tmp_path):
    folder = tmp_path / "run"
    last = folder / "last.safetensors"
    arguments = ("train", "walker2d", "--data", data, "--out", folder, "--resume")
    for number in (signal.SIGINT, signal.SIGTERM):
        before = last.stat().st_mtime_ns if last.exists() else 0
        process = command(*arguments, *([] if before else ["--set", "train.epochs=60", *SMALL]))
        while process.poll() is None and (not last.exists() or last.stat().st_mtime_ns == before):
            time.sleep(0.005)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert f"--out {folder} --resume" in err
    status, out, _ = run(*arguments)
    assert status == 0
    assert "going on from epoch" in out
    assert numbers(folder) == numbers(finished[0])


def test_a_disk_that_is_full_is_one_line_and_nothing_is_lost(finished, data, tmp_path):
    folder = tmp_path / "run"
    arguments = ("train", "walker2d", "--data", data, "--out", folder)
    size = (finished[0] / "last.safetensors").stat().st_size

    # No file may grow as large as a checkpoint.
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size - 2000}, {size - 2000}))"
    program = f"{limit}; import sys; from s7.cli.main import main; sys.exit(main())"
    words = [*arguments, "--set", "train.epochs=60", *SMALL]
    done = subprocess.run([sys.executable, "-c", program, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 2
    message = done.stderr
    assert message.count("\n") == 1, message
    assert "File too large" in message
    assert not list(folder.glob(".last*"))
    status, _, err = run(*arguments, "--resume")
    assert status == 0, err
    assert numbers(folder) == numbers(finished[0])


def test_without_a_test_the_test_data_are_left_alone(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = ["--data", str(data), "--out", str(tmp_path / "run"), "--no-test", "--set", "train.epochs=1", *SMALL]
    assert main(["train", "walker2d", *settings]) == 0
    said = capsys.readouterr().out
    assert "valid: mse" in said
    assert "test:" not in said
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["test"] == {}
    assert set(result["data_sha256"]) == {"train", "valid"}


def test_models_side_by_side(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = ["--data", str(data), "--out", str(tmp_path / "out"), "--seeds", "1", "--set", *SMALL]
    assert main(["compare", "walker2d", "--models", "s7,lstm", "--epochs", "1", *settings]) == 0
    said = capsys.readouterr().out
    assert "This model ignores time gaps: lstm" in said
    assert {line.split()[0] for line in said.splitlines() if "MB" in line} == {"s7", "lstm"}
    record = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [score["model"] for score in record["scores"]] == ["s7", "lstm"]
    for score in record["scores"]:
        result = json.loads((tmp_path / "out" / f"{score['model']}-0" / "result.json").read_text())
        assert score["test"] == [result["test"]["mse"]]
        assert "train.epochs=1" in result["set"]
    assert (tmp_path / "out" / "report.html").exists()


def test_so_many_minutes_are_so_many_batches(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("s7.job.steps_within", lambda seconds, trainer: round(seconds / 60))
    out = tmp_path / "run"
    settings = ["--data", str(data), "--out", str(out), "--model", "gru", "--set", *SMALL]
    assert main(["train", "walker2d", "--minutes", "3", *settings]) == 0
    result = json.loads((out / "result.json").read_text())
    assert (result["steps"], result["model"], result["gaps"]) == (3, "gru", "not used")
    assert "train.steps=3" in result["set"]
    said = capsys.readouterr().out
    assert "3 minutes are about 3 batches" in said
    assert said.count("gru has no notion of time") == 1
    assert main(["train", "walker2d", "--minutes", "0", *settings]) == 2


def test_models_are_listed(capsys):
    assert main(["models"]) == 0
    assert "ode-lstm" in capsys.readouterr().out
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["model"] == "s7"


def test_a_run_that_goes_on_tells_the_same_changes(finished, data):
    folder = RunFolder(finished[0])
    job = Job.of(folder.record().config)
    told = list(folder.record().changes)
    assert job.changes(job.problem(DataFolder(data), print)) == told
    assert {one.partition("=")[0] for one in told} == {
        *("data.copies", "model.width", "model.state", "model.form", "model.stages", "train.epochs", "train.batch_size")
    }


def test_eval_gives_the_result_again(finished, data):
    status, out, _ = run("eval", finished[0], "--data", data, "--json")
    assert status == 0
    assert json.loads(out)["metrics"]["mse"] == pytest.approx(numbers(finished[0])[1]["test"]["mse"], rel=1e-6)


def test_a_report_is_one_page(finished):
    pytest.importorskip("matplotlib")
    status, out, err = run("report", finished[0])
    assert status == 0, err
    assert out.strip() == f"report: {finished[0] / 'report.html'}"
    assert "<svg" in (finished[0] / "report.html").read_text()


def test_making_data_without_the_extra_names_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    assert main(["data", "make", "walker2d", "--data", str(tmp_path)]) == 2
    assert "pip install 's7-ssm[walker]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert main(["data", "make", "pendulum"]) == 2
    assert "nothing to make" in capsys.readouterr().err


def test_tasks_says_what_is_here_and_what_is_not(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for place, missing in ((data, False), (tmp_path, True)):
        assert main(["tasks", "--data", str(place), "--json"]) == 0
        tasks = {task["task"]: task for task in map(json.loads, capsys.readouterr().out.splitlines())}
        assert {"fitzhugh-nagumo", "pendulum", "walker2d"} <= set(tasks)
        assert bool(tasks["walker2d"]["missing"]) is missing


def test_a_folder_that_is_finished_or_of_another_task_is_refused(finished, data, tmp_path, capsys):
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
        (["walker2d", "--model", "s8"], "no model 's8'; known: s7"),
        (["walker2d", "--set", "model.widht=3"], "model.widht: no setting 'widht'; did you mean 'width'?"),
        (["walker2d", "--set", "train.epochs=many"], "train.epochs='many' is not a whole number"),
        (["walker2d", "--set", "modle.width=3"], "did you mean 'model'?"),
        (["walker2d", "--set", "model.width"], "expected key=value"),
        (["walker2d", "--set", "model.form=Factord"], "did you mean 'Factored'?"),
        (["walker2d", "--data", "/nowhere"], "is not in /nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments, message, monkeypatch, capsys):
    monkeypatch.delenv("S7_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere")
    assert main(["train", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
