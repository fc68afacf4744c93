"""The progress of training on the terminal."""

import io
import json
from types import SimpleNamespace

import pytest

from s7 import progress as bars
from s7.training import Progress
from s7.training.display import EpochLines, JsonLines, ProgressBar, TerminalDisplay, display, step_text


class Terminal(io.StringIO):
    """A stream that pretends to be a terminal."""

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")


def at(epoch: int = 3, best_epoch: int = 3, batch: int = 7) -> Progress:
    return Progress(
        epoch=epoch,
        epochs=10,
        batch=batch,
        batches=50,
        step=50 * epoch + batch,
        steps=500,
        loss=0.75,
        valid={"loss": 0.5, "mse": 0.25, "rmse": 0.5},
        best=0.25,
        best_epoch=best_epoch,
        seconds=60.0,
        seconds_left=125.0,
        steps_per_second=12.5,
        waiting=0.2,
    )


def trainer():
    position = SimpleNamespace(step=0, epoch=0, batch=0, history=[{"epoch": 3, "valid": {"mse": 0.25}}])
    samples = SimpleNamespace(__len__=lambda: 4)
    loader = SimpleNamespace(plans=lambda epoch: [SimpleNamespace(length=8)], samples=[samples], lengths=None)
    loader.batching = SimpleNamespace(waste=lambda lengths: 0.0)
    config = SimpleNamespace(batches=lambda per_epoch: 500)
    state = SimpleNamespace(trained=SimpleNamespace(size=1234))
    return SimpleNamespace(position=position, loader=loader, config=config, state=state, per_epoch=50)


def test_outside_of_a_terminal_each_epoch_is_one_line():
    stream = io.StringIO()
    lines = EpochLines(stream)
    lines.on_step(trainer(), at())
    lines.on_epoch_end(trainer(), at())
    shown = "epoch  3/10  loss 0.75  valid mse 0.25  rmse 0.5 *  12.5 steps/s  1:00, 2:05 left\n"
    assert stream.getvalue() == shown


def test_on_a_terminal_there_is_a_bar_and_the_best_epochs_stay():
    stream = Terminal()
    bar = TerminalDisplay(stream)
    bar.on_start(trainer())
    bar.on_step(trainer(), at())
    bar.on_epoch_end(trainer(), at(best_epoch=2))
    bar.on_epoch_end(trainer(), at(epoch=4, best_epoch=4))
    bar.on_end(trainer())
    text = stream.getvalue()
    assert "1,234 parameters" in text
    assert "epoch  4/10  loss 0.75  valid mse 0.25  rmse 0.5 *" in text
    assert "epoch  3/10  loss 0.75  valid" not in text


def test_the_progress_bar_shows_the_time_spent_waiting_for_data():
    assert step_text(at()) == "epoch 4/10  loss 0.75  best 0.25 (epoch 3)  waiting for data 20%"
    assert "waiting" not in step_text(at()._replace(waiting=0.01))


def test_the_bar_is_silent_elsewhere():
    stream = io.StringIO()
    bar = ProgressBar(stream=stream)
    bar.on_start(trainer())
    bar.on_step(trainer(), at())
    bar.on_epoch_end(trainer(), at())
    bar.on_end(trainer())
    assert stream.getvalue() == ""


def test_machines_get_json():
    stream = io.StringIO()
    lines = JsonLines(stream)
    lines.on_step(trainer(), at())
    lines.on_epoch_end(trainer(), at())
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["epoch"] == 3


def test_the_display_suits_the_stream():
    assert type(display(stream=io.StringIO())) is EpochLines
    assert type(display(stream=Terminal())) is TerminalDisplay
    assert type(display(as_json=True, stream=Terminal())) is JsonLines


def test_bars_and_status_lines_of_other_commands():
    for stream, expected in ((Terminal(), True), (io.StringIO(), False)):
        with bars.bar("fetching [file]", 100, unit="bytes", stream=stream) as bar:
            bar.advance(40)
            bar.update(done=60, total=200, text="fetching")
            bar.print("a line")
        with bars.status("compiling", stream=stream) as status:
            status.update("timing")
        assert bool(stream.getvalue()) is expected
