"""Progress: a line that rewrites itself on a terminal, a line for each epoch elsewhere, JSON lines for machines."""

import json
import math
import shutil
import sys
import time
from typing import Any

from s7.training import Progress, Watcher

# Seconds between two rewritings of the line.
REFRESH = 0.2


class Screen(Watcher):
    """Hears what a training loop tells; shows nothing."""

    def __init__(self, stream: Any = None):
        self.stream = stream or sys.stdout

    def say(self, text: str) -> None:
        """A sentence for people."""


class Lines(Screen):
    """A line for each epoch."""

    def begin(self, trainer):
        loader = trainer.loader
        plans = loader.plans(0)
        lengths = sorted({plan.length for plan in plans})
        shown = ", ".join(f"{length:,}" for length in lengths)
        self.say(
            f"{trainer.state.trained.size:,} parameters; {len(loader.samples):,} training sequences in {len(plans):,} "
            f"batches of length {shown}; padding {loader.batching.waste(loader.lengths):.1%}"
        )
        if trainer.position.step:
            self.say(f"going on from epoch {trainer.position.epoch}, batch {trainer.position.batch}")

    def say(self, text):
        print(text, file=self.stream, flush=True)

    def progress(self, progress):
        if progress.epoch_done:
            self.say(epoch_line(progress))


class Live(Lines):
    """One line that rewrites itself, and stays when an epoch was the best so far."""

    shown = 0.0

    def progress(self, progress):
        if progress.epoch_done:
            keep = progress.position.best_epoch == progress.position.epoch or progress.position.epoch == progress.epochs
            self._write(epoch_line(progress), "\n" if keep else "")
            return
        now = time.perf_counter()
        if now - self.shown > REFRESH:
            self.shown = now
            self._write(step_line(progress), "")

    def _write(self, line: str, end: str) -> None:
        width = shutil.get_terminal_size().columns
        print(f"\r{line[: width - 1]}\033[K", end=end, file=self.stream, flush=True)


class JsonLines(Screen):
    """A JSON object for each epoch."""

    def progress(self, progress):
        if progress.epoch_done:
            print(json.dumps(progress.position.history[-1]), file=self.stream, flush=True)


def screen_for(as_json: bool, stream: Any = None) -> Screen:
    """The right one for where the output goes."""
    stream = stream or sys.stdout
    if as_json:
        return JsonLines(stream)
    return Live(stream) if stream.isatty() else Lines(stream)


def epoch_line(progress: Progress) -> str:
    """Where training stands after an epoch."""
    at = progress.position
    best = " *" if at.best_epoch == at.epoch else ""
    valid = "  ".join(f"{name} {number(value)}" for name, value in progress.valid.items() if name != "loss")
    return (
        f"epoch {at.epoch:>{len(str(progress.epochs))}}/{progress.epochs}  loss {number(progress.loss)}  "
        f"valid {valid}{best}  {progress.steps_per_second:.1f} steps/s  "
        f"{clock(at.seconds)}, {clock(progress.seconds_left)} left"
    )


def step_line(progress: Progress) -> str:
    """Where training stands within an epoch."""
    at = progress.position
    best = "" if at.best is None else f"  best {number(at.best)} (epoch {at.best_epoch})"
    waiting = f"  waits for data {progress.waiting:.0%}" if progress.waiting > 0.05 else ""
    return (
        f"epoch {at.epoch + 1}/{progress.epochs}  batch {at.batch}/{progress.batches}  loss {number(progress.loss)}"
        f"{best}  {progress.steps_per_second:.1f} steps/s  {clock(progress.seconds_left)} left{waiting}"
    )


def number(value: float) -> str:
    """Four digits, whatever the size; dots for what is not known yet."""
    if math.isnan(value):
        return "…"
    return f"{value:.4f}" if 0.01 <= abs(value) < 1000 or value == 0 else f"{value:.3e}"


def clock(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any."""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
