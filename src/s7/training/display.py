"""How training shows its progress: a bar, a line for each epoch, or a JSON object for each epoch."""

import json
import math
import sys
from contextlib import ExitStack
from typing import Any

from s7 import progress as bars
from s7.publishing.text import clock, number
from s7.training.callbacks import Callback, Progress


class ProgressBar(Callback):
    """A progress bar in terminals and notebooks; nothing elsewhere.

    Args:
        keep: also print a line, which stays, for every epoch that improved.
        stream: where to draw; by default stderr.
    """

    def __init__(self, *, keep: bool = False, stream: Any = None):
        self._keep, self._stream = keep, stream
        self._stack, self._bar = ExitStack(), bars.Bar()

    def on_start(self, trainer):
        total = trainer.config.batches(trainer.per_epoch)
        text = "training" if trainer.position.step else "compiling"
        self._bar = self._stack.enter_context(bars.bar(text, total, stream=self._stream))
        self._bar.update(done=trainer.position.step)

    def on_step(self, trainer, progress):
        self._bar.update(done=progress.step, text=step_text(progress))

    def on_epoch_end(self, trainer, progress):
        self._bar.update(done=progress.step, text=step_text(progress))
        if self._keep and (progress.best_epoch == progress.epoch or progress.epoch == progress.epochs):
            self._bar.print(epoch_line(progress))

    def on_end(self, trainer):
        self._stack.close()


class EpochLines(Callback):
    """A line for each epoch."""

    def __init__(self, stream: Any = None):
        self._stream = stream or sys.stdout

    def on_start(self, trainer):
        for line in start_lines(trainer):
            print(line, file=self._stream, flush=True)

    def on_epoch_end(self, trainer, progress):
        print(epoch_line(progress), file=self._stream, flush=True)


class JsonLines(Callback):
    """A JSON object for each epoch, as in metrics.jsonl."""

    def __init__(self, stream: Any = None):
        self._stream = stream or sys.stdout

    def on_epoch_end(self, trainer, progress):
        print(json.dumps(trainer.position.history[-1]), file=self._stream, flush=True)


class TerminalDisplay(ProgressBar):
    """The bar, with a description of the data before it and the epochs that improved above it."""

    def __init__(self, stream: Any = None):
        super().__init__(keep=True, stream=stream)
        self._out = stream or sys.stdout

    def on_start(self, trainer):
        for line in start_lines(trainer):
            print(line, file=self._out, flush=True)
        super().on_start(trainer)


def display(*, as_json: bool = False, stream: Any = None) -> Callback:
    """The display that suits the stream (by default stdout)."""
    stream = stream or sys.stdout
    if as_json:
        return JsonLines(stream)
    return TerminalDisplay(stream) if bars.is_interactive(stream) else EpochLines(stream)


def start_lines(trainer: Any) -> list[str]:
    """The size of the model and the data, and where a resumed run continues."""
    loader = trainer.loader
    plans = loader.plans(0)
    lengths = ", ".join(f"{length:,}" for length in sorted({plan.length for plan in plans}))
    lines = [
        f"{trainer.state.trained.size:,} parameters; {len(loader.samples):,} training sequences in {len(plans):,} "
        f"batches of length {lengths}; padding {loader.batching.waste(loader.lengths):.1%}"
    ]
    if trainer.position.step:
        lines.append(f"resuming after epoch {trainer.position.epoch}, batch {trainer.position.batch}")
    return lines


def epoch_line(progress: Progress) -> str:
    """The state of training after an epoch; a star marks the best so far."""
    best = " *" if progress.best_epoch == progress.epoch else ""
    valid = "  ".join(f"{name} {number(value)}" for name, value in progress.valid.items() if name != "loss")
    return (
        f"epoch {progress.epoch:>{len(str(progress.epochs))}}/{progress.epochs}  loss {_number(progress.loss)}  "
        f"valid {valid}{best}  {progress.steps_per_second:.1f} steps/s  "
        f"{clock(progress.seconds)}, {clock(progress.seconds_left)} left"
    )


def step_text(progress: Progress) -> str:
    """The state of training within an epoch, in front of the bar."""
    best = "" if progress.best is None else f"  best {number(progress.best)} (epoch {progress.best_epoch})"
    waiting = f"  waiting for data {progress.waiting:.0%}" if progress.waiting > 0.05 else ""
    epoch = min(progress.epoch + 1, progress.epochs)
    return f"epoch {epoch}/{progress.epochs}  loss {_number(progress.loss)}{best}{waiting}"


def _number(value: float) -> str:
    # The loss is not known before the first step is accounted for.
    return "…" if math.isnan(value) else number(value)
