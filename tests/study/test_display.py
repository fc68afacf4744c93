"""The progress of a study on the terminal."""

import json

from s7.study.display import Display, Silent, display_for
from s7.study.messages import EpochDone

from .conftest import RESULT


def finish(trial):
    trial.folder.path.mkdir(parents=True)
    result = RESULT | {"valid": {"loss": 1.0, "mse": 0.5}, "test": {"loss": 1.0, "mse": 0.25}}
    (trial.folder.path / "result.json").write_text(json.dumps(result))


def test_finished_and_failed_trials_are_printed(make_study, capsys):
    display = Display()
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


def test_the_status_describes_the_running_trials(make_study):
    display = Display()
    first, second = make_study("s7", "lstm", seeds=1).trials()
    with display:  # no bar is drawn because the output of tests is not a terminal
        display.on_start(first, 1, 2)
        display.on_start(second, 2, 2)
        display.on_epoch(first, EpochDone(1, 2, {"loss": 9.0, "mse": 2.5}, True))
    assert display.status() == "s7-0: epoch 1/2, MSE 2.5  lstm-0: starting"


def test_json_output_has_no_display(capsys):
    display = display_for(as_json=True)
    assert type(display) is Silent
    with display:
        display.say("a message")
    assert capsys.readouterr().out == ""
    assert type(display_for(as_json=False)) is Display
