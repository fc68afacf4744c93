"""Progress of several runs: a line that rewrites itself on a terminal, a line for each run elsewhere."""

import shutil
import sys
import threading
import time
from typing import Any

from s7.cli.screen import clock, number
from s7.study.runner import Listener
from s7.study.study import Trial


class Quiet(Listener):
    """For machines: all they need is printed at the end."""

    def say(self, text: str) -> None:
        """A sentence for people."""


class Lines(Quiet):
    """A line when a run ends."""

    def __init__(self):
        self._lock = threading.Lock()
        self._running: dict[str, tuple[str, float]] = {}
        self._last: dict[str, dict[str, Any]] = {}

    def say(self, text):
        print(text, flush=True)

    def begin(self, trial, number, total):
        with self._lock:
            self._running[trial.folder.path.name] = (f"[{number}/{total}]", time.perf_counter())

    def epoch(self, trial, line):
        with self._lock:
            self._last[trial.folder.path.name] = line

    def end(self, trial, failure):
        with self._lock:
            place, began = self._running.pop(trial.folder.path.name)
            told = f"failed: {failure}" if failure else _best(trial)
            self.say(f"{place} {trial.variant.name}, seed {trial.seed}: {told} ({clock(time.perf_counter() - began)})")


class Live(Lines):
    """One line that rewrites itself, with all runs that are under way."""

    def begin(self, trial, number, total):
        super().begin(trial, number, total)
        self._show()

    def epoch(self, trial, line):
        super().epoch(trial, line)
        self._show()

    def end(self, trial, failure):
        print("\r\033[K", end="")
        super().end(trial, failure)
        self._show()

    def _show(self) -> None:
        with self._lock:
            parts = []
            for name, (place, _) in self._running.items():
                line = self._last.get(name)
                told = "starts" if line is None else f"epoch {line['epoch']}, {_metrics(line['valid'])}"
                parts.append(f"{place} {name}: {told}")
            width = shutil.get_terminal_size().columns
            print(f"\r{'  '.join(parts)[: width - 1]}\033[K", end="", flush=True)


def listener_for(as_json: bool) -> Quiet:
    """The right one for where the output goes."""
    if as_json:
        return Quiet()
    return Live() if sys.stdout.isatty() else Lines()


def _best(trial: Trial) -> str:
    result = trial.folder.result().to_json()
    split = "test" if result["test"] else "valid"
    return f"{split} {_metrics(result[split])}"


def _metrics(values: dict[str, float]) -> str:
    return "  ".join(f"{name} {number(value)}" for name, value in values.items() if name != "loss")
