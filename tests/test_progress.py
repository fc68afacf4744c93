"""Progress bars: drawn on terminals, silent elsewhere."""

import io
import threading

import pytest

from s7 import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def test_progress_is_not_drawn_outside_of_a_terminal():
    stream = io.StringIO()
    with progress.bar("downloading", 3, stream=stream) as bar:
        bar.advance()
        bar.print("a line")
    with progress.status("compiling", stream=stream) as status:
        status.update("timing")
    assert stream.getvalue() == ""


@pytest.mark.parametrize("unit", ["items", "bytes"])
def test_a_terminal_shows_a_bar(terminal, unit):
    with progress.bar("downloading [file]", 3, unit=unit, stream=terminal) as bar:
        bar.update(done=2, text="almost [done]")
        bar.print("a line")
    shown = terminal.getvalue()
    assert "almost [done]" in shown
    assert "a line" in shown


@pytest.mark.parametrize("spinner", [True, False])
def test_a_terminal_shows_the_status(terminal, spinner):
    before = set(threading.enumerate())
    with progress.status("compiling", spinner=spinner, stream=terminal) as status:
        assert bool(set(threading.enumerate()) - before) == spinner
        status.update("timing [2×4]")
    if not spinner:
        assert "timing [2×4]" in terminal.getvalue()
