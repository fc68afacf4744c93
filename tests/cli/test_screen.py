"""What is shown while training goes on."""

import io
import json

import pytest

from s7.cli.screen import JsonLines, Lines, Live, clock, number, screen_for
from s7.training import Progress
from s7.training.checkpoint import Position


def progress(epoch_done: bool, epoch: int = 3, best_epoch: int = 3) -> Progress:
    line: dict = {"epoch": epoch, "valid": {"loss": 0.5, "mse": 0.25, "rmse": 0.5}}
    at = Position(epoch, 7, 107, 60.0, 0.0, {}, 0.0, 0.25, best_epoch, [line])
    return Progress(at, 10, 50, 0.75, line["valid"], 12.5, 125.0, 0.2, epoch_done)


def shown(kind, *events):
    stream = io.StringIO()
    screen = kind(stream)
    for event in events:
        screen.progress(event)
    return stream.getvalue()


def test_off_a_terminal_only_epochs_are_told():
    text = shown(Lines, progress(False), progress(True))
    assert text == "epoch  3/10  loss 0.7500  valid mse 0.2500  rmse 0.5000 *  12.5 steps/s  1:00, 2:05 left\n"


def test_on_a_terminal_the_line_is_rewritten_and_the_best_epochs_stay(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = shown(Live, progress(False), progress(True, best_epoch=2), progress(True))
    first, second, third = text.split("\r")[1:]
    assert first.startswith("epoch 4/10  batch 7/50  loss 0.7500  best 0.2500 (epoch 3)  12.5 steps/s  2:05 left")
    assert not second.endswith("\n")
    assert third.endswith("\n")


def test_a_step_says_when_the_model_waits_for_data(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert "waits for data 20%" in shown(Live, progress(False))


def test_machines_get_json():
    (line,) = shown(JsonLines, progress(False), progress(True)).splitlines()
    assert json.loads(line)["epoch"] == 3


def test_the_screen_is_the_one_for_where_it_goes():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    assert type(screen_for(False, io.StringIO())) is Lines
    assert type(screen_for(False, terminal)) is Live
    assert type(screen_for(True, terminal)) is JsonLines


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5000"), (0.0012, "1.200e-03"), (0.0, "0.0000"), (12345.0, "1.234e+04"), (float("nan"), "…")],
)
def test_numbers_have_four_digits(value, text):
    assert number(value) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3725, "1:02:05"), (float("inf"), "?")])
def test_clock(seconds, text):
    assert clock(seconds) == text
