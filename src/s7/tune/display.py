"""The progress of a worker on the terminal: one line per trial that ends, and a line about the running one."""

import time
from contextlib import ExitStack

from s7 import progress
from s7.publishing.text import clock, metric_name, metric_value
from s7.study.messages import EpochDone, Rung
from s7.tune.summary import setting, shortened
from s7.tune.worker import Listener


class Silent(Listener):
    """Prints nothing: with --json, the summary is printed at the end."""

    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""

    def say(self, text: str) -> None:
        """Print a message for the user."""


class Display(Silent):
    """Prints a line when a trial ends; on a terminal, a bar shows the running trial."""

    def __init__(self):
        self._bar, self._stack, self._began = progress.Bar(), ExitStack(), 0.0

    def __enter__(self):
        self._bar = self._stack.enter_context(progress.bar("starting", total=1.0))
        return self

    def __exit__(self, *_):
        self._stack.close()

    def say(self, text):
        print(text, flush=True)

    def on_start(self, candidate):
        self._began = time.monotonic()
        self._bar.update(done=0, total=1, text=f"trial {candidate.number}: starting")

    def on_event(self, candidate, event):
        if isinstance(event, EpochDone):
            text = "  ".join(
                f"{metric_name(name)} {metric_value(name, value)}"
                for name, value in event.valid.items()
                if name != "loss"
            )
            state = f"trial {candidate.number}: epoch {event.epoch}/{event.epochs}, {text}"
            self._bar.update(done=event.epoch, total=event.epochs, text=state)
        elif isinstance(event, Rung):
            shown = f"{metric_name(event.metric)} {metric_value(event.metric, event.value)}"
            self._bar.update(text=f"trial {candidate.number}: {event.fraction:.0%} of the budget, {shown}")

    def on_end(self, trial, summary):
        names = shortened(list(summary.config["space"]))
        values = " ".join(f"{names[name]}={setting(trial.values.get(name))}" for name in names)
        result = f"{metric_name(summary.metric)} {metric_value(summary.metric, trial.value)}"
        if trial.outcome == "finished":
            best = summary.best is not None and summary.best.number == trial.number
            outcome = result + (", best so far" if best else "")
        elif trial.outcome == "requeued":
            outcome = "stopped, to be continued"
        else:
            outcome = f"{trial.outcome}: {trial.reason}" + (f", {result}" if trial.value is not None else "")
        what = "preset" if trial.preset else values
        self.say(f"trial {trial.number}: {outcome} ({what}; {clock(time.monotonic() - self._began)})")

    def on_requeue(self, numbers):
        shown = ", ".join(map(str, numbers))
        self.say(f"put back trial{'s' if len(numbers) > 1 else ''} {shown}: the worker is gone")


def display_for(as_json: bool) -> Silent:
    """The display of a command: silent if its output is JSON."""
    return Silent() if as_json else Display()
