"""The progress of a study on the terminal: a status line on a terminal, one line per finished trial elsewhere."""

import shutil
import sys
import threading
import time

from s7.publishing.text import clock, metric_name, metric_value
from s7.study.messages import EpochDone
from s7.study.runner import Listener
from s7.study.study import Trial


class Silent(Listener):
    """Prints nothing: with --json everything is printed at the end."""

    def say(self, text: str) -> None:
        """Print a message for people."""


class Lines(Silent):
    """Prints a line when a trial ends."""

    def __init__(self):
        self._lock = threading.Lock()
        self._running: dict[str, tuple[str, float]] = {}
        self._latest: dict[str, EpochDone] = {}

    def say(self, text):
        print(text, flush=True)

    def on_start(self, trial, number, total):
        with self._lock:
            self._running[trial.folder.path.name] = (f"[{number}/{total}]", time.perf_counter())

    def on_epoch(self, trial, event):
        with self._lock:
            self._latest[trial.folder.path.name] = event

    def on_end(self, trial, failure):
        with self._lock:
            place, started = self._running.pop(trial.folder.path.name)
            outcome = f"failed: {failure}" if failure else _outcome(trial)
            elapsed = clock(time.perf_counter() - started)
            self.say(f"{place} {trial.variant.name}, seed {trial.seed}: {outcome} ({elapsed})")


class Live(Lines):
    """Shows all running trials in one line that is updated."""

    def on_start(self, trial, number, total):
        super().on_start(trial, number, total)
        self._show()

    def on_epoch(self, trial, event):
        super().on_epoch(trial, event)
        self._show()

    def on_end(self, trial, failure):
        print("\r\033[K", end="")
        super().on_end(trial, failure)
        self._show()

    def _show(self) -> None:
        with self._lock:
            parts = []
            for name, (place, _) in self._running.items():
                event = self._latest.get(name)
                state = (
                    "starting"
                    if event is None
                    else f"epoch {event.epoch}/{event.epochs}, valid {_metrics(event.valid)}"
                )
                parts.append(f"{place} {name}: {state}")
            width = shutil.get_terminal_size().columns
            print(f"\r{'  '.join(parts)[: width - 1]}\033[K", end="", flush=True)


def display_for(as_json: bool) -> Silent:
    """The display for where the output goes."""
    if as_json:
        return Silent()
    return Live() if sys.stdout.isatty() else Lines()


def _outcome(trial: Trial) -> str:
    result = trial.folder.result()
    split, metrics = ("test", result.test) if result.test else ("valid", result.valid)
    return f"{split} {_metrics(metrics)}"


def _metrics(values: dict[str, float]) -> str:
    return "  ".join(
        f"{metric_name(name)} {metric_value(name, value)}" for name, value in values.items() if name != "loss"
    )
