"""Progress bars, for every command and for `s7.train`. JAX is not imported.

Everything here is silent unless the output is a terminal or a notebook.

    with progress.bar("downloading", total=size, unit="bytes") as bar:
        bar.advance(len(chunk))

    with progress.status("compiling") as status:
        status.update("timing")
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console

Unit = Literal["items", "bytes"]


def console(stream: Any = None) -> "Console":
    """A rich console for the stream; by default for stderr."""
    from rich.console import Console

    return Console(file=stream, stderr=stream is None, highlight=False)


def is_interactive(stream: Any = None) -> bool:
    """Whether the stream (by default stderr) is a terminal or a notebook, where a bar can be drawn."""
    found = console(stream)
    return (found.is_terminal and not found.is_dumb_terminal) or found.is_jupyter


class Bar:
    """One progress bar. `display` is None if it is not drawn."""

    def __init__(self, display: Any = None, task: Any = None):
        self._display, self._task = display, task

    def advance(self, amount: float = 1) -> None:
        """Advance the bar."""
        if self._display is not None:
            self._display.advance(self._task, amount)

    def update(self, done: float | None = None, total: float | None = None, text: str | None = None) -> None:
        """Set the position, the total or the text; None leaves it unchanged."""
        if self._display is not None:
            given = {"completed": done, "total": total, "description": text}
            self._display.update(self._task, **{name: value for name, value in given.items() if value is not None})

    def print(self, text: str) -> None:
        """Print a line above the bar, if it is drawn."""
        if self._display is not None:
            self._display.console.print(text, markup=False, soft_wrap=True)


@contextmanager
def bar(text: str, total: float | None = None, *, unit: Unit = "items", stream: Any = None) -> Iterator[Bar]:
    """Show a progress bar while the context lasts.

    Args:
        text: what is being done.
        total: when it is finished; None if that is not known.
        unit: "bytes" shows sizes and a speed.
        stream: where to draw; by default stderr.
    """
    if not is_interactive(stream):
        yield Bar()
        return
    from rich import progress as rich_progress

    columns: list[Any] = [rich_progress.TextColumn("{task.description}", markup=False), rich_progress.BarColumn(None)]
    if unit == "bytes":
        columns += [rich_progress.DownloadColumn(), rich_progress.TransferSpeedColumn()]
    else:
        columns += [rich_progress.MofNCompleteColumn()]
    columns += [rich_progress.TimeRemainingColumn(compact=True)]
    with rich_progress.Progress(*columns, console=console(stream), transient=True, expand=True) as display:
        yield Bar(display, display.add_task(text, total=total))


class Status:
    """A line about the current operation. `display` is None if it is not drawn."""

    def __init__(self, display: Any = None):
        self._display = display

    def update(self, text: str) -> None:
        """Replace the text."""
        if self._display is not None:
            self._display.update(_plain(text))


@contextmanager
def status(text: str = "", *, spinner: bool = True, stream: Any = None) -> Iterator[Status]:
    """Show the current operation in one line while the context lasts.

    Args:
        text: what is being done.
        spinner: whether to show that time passes. Without it, no thread runs in the background, as benchmarks need.
        stream: where to draw; by default stderr.
    """
    if not is_interactive(stream):
        yield Status()
        return
    if spinner:
        with console(stream).status(_plain(text)) as display:
            yield Status(display)
        return
    from rich.live import Live

    with Live(_plain(text), console=console(stream), auto_refresh=False, transient=True) as live:
        yield Status(_Refreshed(live))


class _Refreshed:
    """Redraws a line when its text changes, and only then."""

    def __init__(self, live: Any):
        self._live = live

    def update(self, text: Any) -> None:
        self._live.update(text, refresh=True)


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)
