"""The progress of a study on the terminal: one line per finished trial, and a progress bar."""

import threading
import time
from contextlib import ExitStack
from types import TracebackType

from s7 import progress
from s7.publishing.text import clock, metric_name, metric_value
from s7.study.messages import EpochDone
from s7.study.runner import Listener
from s7.study.study import Trial


class Silent(Listener):
    """Prints no progress: with --json, the output is printed at the end."""

    def __enter__(self) -> "Silent":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing."""

    def say(self, text: str) -> None:
        """Print a message for the user."""


class Display(Silent):
    """Prints a line when a trial ends; on a terminal, a bar shows the running trials."""

    def __init__(self):
        self._lock = threading.Lock()
        self._running: dict[str, tuple[str, float]] = {}
        self._latest: dict[str, EpochDone] = {}
        self._bar, self._stack = progress.Bar(), ExitStack()

    def __enter__(self):
        self._bar = self._stack.enter_context(progress.bar("starting"))
        return self

    def __exit__(self, *_):
        self._stack.close()

    def say(self, text):
        print(text, flush=True)

    def on_start(self, trial, number, total):
        with self._lock:
            self._running[trial.folder.path.name] = (f"[{number}/{total}]", time.perf_counter())
            self._bar.update(total=total, text=self.status())

    def on_epoch(self, trial, event):
        with self._lock:
            self._latest[trial.folder.path.name] = event
            self._bar.update(text=self.status())

    def on_end(self, trial, failure):
        with self._lock:
            place, started = self._running.pop(trial.folder.path.name)
            outcome = f"failed: {failure}" if failure else _outcome(trial)
            elapsed = clock(time.perf_counter() - started)
            self.say(f"{place} {trial.variant.name}, seed {trial.seed}: {outcome} ({elapsed})")
            self._bar.advance()
            self._bar.update(text=self.status())

    def status(self) -> str:
        """The state of the running trials."""
        return "  ".join(f"{name}: {_state(self._latest.get(name))}" for name in self._running)


def display_for(as_json: bool) -> Silent:
    """The display of a command: silent if its output is JSON."""
    return Silent() if as_json else Display()


def _state(event: EpochDone | None) -> str:
    return "starting" if event is None else f"epoch {event.epoch}/{event.epochs}, {_metrics(event.valid)}"


def _outcome(trial: Trial) -> str:
    result = trial.folder.result()
    split, metrics = ("test", result.test) if result.test else ("valid", result.valid)
    return f"{split} {_metrics(metrics)}"


def _metrics(values: dict[str, float]) -> str:
    parts = (f"{metric_name(name)} {metric_value(name, value)}" for name, value in values.items() if name != "loss")
    return "  ".join(parts)
