"""The progress of a study on the terminal."""

import io
import json

from s7.study.display import Lines, Live, Silent, display_for
from s7.study.messages import EpochDone

from .conftest import RESULT


def finish(trial):
    trial.folder.path.mkdir(parents=True)
    result = RESULT | {"valid": {"loss": 1.0, "mse": 0.5}, "test": {"loss": 1.0, "mse": 0.25}}
    (trial.folder.path / "result.json").write_text(json.dumps(result))


def test_finished_and_failed_trials_are_printed(make_study, capsys):
    display = Lines()
    first, second = make_study("s7", "lstm", seeds=1).trials()
    finish(first)
    display.on_start(first, 1, 2)
    display.on_epoch(first, EpochDone(1, 2, {"mse": 2.0}, True))
    display.on_end(first, None)
    display.on_start(second, 2, 2)
    display.on_end(second, "out of memory")
    assert capsys.readouterr().out.splitlines() == [
        "[1/2] s7, seed 0: test MSE 0.25 (0:00)",
        "[2/2] lstm, seed 0: failed: out of memory (0:00)",
    ]


def test_a_terminal_shows_the_running_trials(make_study, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    display = Live()
    (trial,) = make_study("s7", seeds=1).trials()
    display.on_start(trial, 1, 1)
    display.on_epoch(trial, EpochDone(1, 2, {"loss": 9.0, "mse": 2.5}, True))
    shown = capsys.readouterr().out
    assert "[1/1] s7-0: starting" in shown
    assert "[1/1] s7-0: epoch 1/2, valid MSE 2.5" in shown


def test_the_display_depends_on_the_output(monkeypatch):
    assert type(display_for(as_json=True)) is Silent
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert type(display_for(as_json=False)) is Lines
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert type(display_for(as_json=False)) is Live
