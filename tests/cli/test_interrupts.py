"""Ctrl-C at any moment ends `s7 train` within seconds and leaves a run that resumes as it was requested."""

import json
import shlex
import signal
import subprocess
import sys
import time
import tomllib

import pytest

from s7.cli.main import main

from .processes import SMALL, run, start


def test_ctrl_c_in_the_first_moment_ends_the_process(data, tmp_path):
    process = start("train", "walker2d", "--data", data, "--out", tmp_path / "run", "--set", *SMALL)
    # Python itself ignores an interrupt while it reads the .pth files of site-packages; people press the keys again.
    for pause in (0.05, 1.0):
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode != 0
    assert not (tmp_path / "run" / "result.json").exists()


@pytest.mark.parametrize("delay", [0.0, 2.0])
def test_ctrl_c_before_the_first_step_leaves_a_run_that_resumes(data, tmp_path, delay):
    folder = tmp_path / "run"
    settings = ("--data", data, "--out", folder)
    process = start("train", "walker2d", *settings, "--minutes", "0.01", "--seed", "3", "--set", *SMALL)
    while not (folder / "config.toml").exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(delay)
    began = time.perf_counter()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    took = time.perf_counter() - began
    if (folder / "result.json").exists():  # a fast machine was done by then
        assert process.returncode in (0, 130), err
        return
    assert process.returncode == 130, err
    # Two seconds on an idle machine; here other tests run at the same time.
    assert took < 6 or "stopping after the current step" in err
    assert f"to continue: s7 train walker2d --out {folder} --resume" in err
    assert tomllib.loads((folder / "config.toml").read_text())["minutes"] == 0.01
    status, out, err = run("train", "walker2d", *settings, "--resume", "--minutes", "0.01", "--json")
    assert status == 0, err
    result = json.loads(out.splitlines()[-1])
    assert result["seed"] == 3
    assert any(change.startswith("train.steps=") for change in result["set"])


def test_ctrl_c_while_the_interpreter_shuts_down_keeps_the_exit_status():
    code = """
import atexit, os, signal, sys
sys.argv = ["s7", "tasks", "--json"]
from s7.cli.main import main
atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def measured(data, tmp_path_factory):
    """A run with --set and --minutes."""
    folder = tmp_path_factory.mktemp("measured") / "run"
    settings = ["--data", str(data), "--out", str(folder), "--minutes", "0.01", "--variant", "two words", "--seed", "1"]
    assert main(["train", "walker2d", *settings, "--set", *SMALL]) == 0
    return folder


def test_the_command_in_the_report_repeats_the_run(measured, data, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    assert main(["report", str(measured), "--out", str(tmp_path / "report.html")]) == 0
    from html import unescape

    page = unescape((tmp_path / "report.html").read_text())
    start_of = page.index("s7 train walker2d")
    line = page[start_of : page.index("<", start_of)]
    words = shlex.split(line)
    assert words[0] == "s7"
    monkeypatch.setenv("S7_DATA", str(data))
    assert main([*words[1:], "--out", str(tmp_path / "again")]) == 0
    first, second = (json.loads((folder / "result.json").read_text()) for folder in (measured, tmp_path / "again"))
    assert sorted(first["set"]) == sorted(second["set"])
    same = ("valid", "test", "steps", "best_epoch", "parameters", "variant", "seed", "data_sha256")
    assert {name: first[name] for name in same} == {name: second[name] for name in same}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "5"], "a run with seed 1, not 5"),
        (["--minutes", "3"], "a run with minutes 0.01, not 3"),
        (["--variant", "other"], "a run with variant two words, not other"),
        (["--no-test"], "a run with a test"),
        (["--set", "model.width=8"], "a run with model.width=4"),
        (["--set", "train.batch_size=3"], "a run with train.batch_size=16"),
        (["--set", "train.steps=3"], "a run with train.steps="),
        (["--prot", "strict"], "did you mean '--protocol'"),
    ],
)
def test_a_finished_run_rejects_options_that_differ(measured, data, capsys, arguments, message):
    words = ["train", "walker2d", "--data", str(data), "--out", str(measured), "--resume", *arguments]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_finished_run_accepts_its_own_options(measured, data, capsys):
    words = ["train", "walker2d", "--data", str(data), "--out", str(measured), "--resume", "--seed", "1"]
    assert main([*words, "--minutes", "0.01", "--set", *SMALL]) == 0
    capsys.readouterr()


def test_resuming_a_missing_run_is_an_error(tmp_path, capsys):
    folder = tmp_path / "deep" / "nothing"
    assert main(["train", "walker2d", "--out", str(folder), "--resume"]) == 2
    assert f"{folder}: no run to resume; omit --resume to start one" in capsys.readouterr().err
    assert not folder.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "-1"], "--seed: expected a whole number of at least 0"),
        (["--set", "model.width=-3"], "width=-3"),
        (["--set", "train.rate=0.1"], "'rate' is now called learning_rate"),
        (["--seed", "4294967296"], "--seed: expected a whole number below 2**32"),
        (["--minutes", "1", "--set", "train.steps=4"], "omit one of them"),
        (["--minutes", "1", "--set", "train.epochs=4"], "--minutes 1 and --set train.epochs=4: omit one of them"),
    ],
)
def test_an_invalid_request_leaves_no_files(data, tmp_path, capsys, arguments, message):
    folder = tmp_path / "deep" / "run"
    assert main(["train", "walker2d", "--data", str(data), "--out", str(folder), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not folder.parent.exists()


def test_an_invalid_number_of_threads_is_rejected(data, tmp_path, monkeypatch):
    monkeypatch.setenv("S7_THREADS", "abc")
    status, _, err = run("train", "walker2d", "--data", data, "--out", tmp_path / "run", "--set", *SMALL)
    assert status == 2
    assert err == "s7 train: S7_THREADS='abc': expected a whole number of at least 1\n"
    assert not (tmp_path / "run").exists()


def test_eval_says_how_to_evaluate_a_run_on_arrays(tmp_path, capsys):
    (tmp_path / "config.toml").write_text("format = 2\nseed = 0\n")
    assert main(["eval", str(tmp_path)]) == 2
    assert f"s7.evaluate(s7.load('{tmp_path}'), (inputs, targets))" in capsys.readouterr().err
