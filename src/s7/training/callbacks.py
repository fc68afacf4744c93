"""Callbacks: actions during training, such as checkpointing, early stopping and progress.

class PrintLoss(s7.training.Callback):
    def on_epoch_end(self, trainer, progress):
        print(progress.epoch, progress.valid)
        if progress.valid["loss"] < 0.1:
            trainer.stop("the loss is small enough")
"""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from s7.interrupts import Interrupts

if TYPE_CHECKING:
    from s7.training.trainer import Trainer


class Progress(NamedTuple):
    """How far training has come.

    Attributes:
        epoch: finished epochs; `epochs` is the total, `batch` of `batches` the position in the current epoch.
        step: batches trained on in all.
        loss: mean training loss of the current epoch so far, or of the epoch that has just ended.
        valid: validation metrics of the last finished epoch; empty before that.
        best: the best value of the selection metric, reached in epoch `best_epoch`; None before the first epoch ends.
        seconds: training time so far; `seconds_left` is an estimate.
        waiting: the fraction of the epoch's time that steps waited for data.
    """

    epoch: int
    epochs: int
    batch: int
    batches: int
    step: int
    steps: int
    loss: float
    valid: dict[str, float]
    best: float | None
    best_epoch: int
    seconds: float
    seconds_left: float
    steps_per_second: float
    waiting: float


class Callback:
    """Base class of callbacks. Every hook does nothing; override those of interest.

    A hook may call `trainer.stop(reason)`: training ends after the current step, the model is validated, and the best
    model is returned.
    """

    def on_start(self, trainer: "Trainer") -> None:
        """Training starts or resumes."""

    def on_step(self, trainer: "Trainer", progress: Progress) -> None:
        """A training step was taken."""

    def on_epoch_end(self, trainer: "Trainer", progress: Progress) -> None:
        """An epoch and its validation are finished, and a checkpoint was written."""

    def on_improvement(self, trainer: "Trainer") -> None:
        """The epoch that has just ended is the best so far; `trainer.best_model` is its model."""

    def on_checkpoint(self, trainer: "Trainer") -> None:
        """A checkpoint is due: after each epoch, every `save_every` minutes, and before an interrupted run ends."""

    def on_end(self, trainer: "Trainer") -> None:
        """Training ended: finished, stopped, or left by an exception."""


@dataclass(frozen=True)
class EarlyStopping(Callback):
    """Stops when the validation metric has not improved for `patience` epochs.

    Args:
        patience: epochs without improvement after which training stops.
        min_delta: the change in the metric that counts as an improvement.
    """

    patience: int = 5
    min_delta: float = 0.0

    def __post_init__(self):
        if isinstance(self.patience, bool) or not isinstance(self.patience, int) or self.patience < 1:
            raise ValueError(f"early_stopping: patience={self.patience!r} must be a whole number of at least 1")
        if not self.min_delta >= 0:
            raise ValueError(f"early_stopping: min_delta={self.min_delta!r} must not be negative")

    def on_start(self, trainer):
        # A run may have been killed after the checkpoint of its last epoch.
        self._check(trainer)

    def on_epoch_end(self, trainer, progress):
        self._check(trainer)

    def _check(self, trainer: "Trainer") -> None:
        # A function of the history alone, so a resumed run stops in the same epoch.
        epochs = trainer.position.history
        since = len(epochs) - self._last_improvement(trainer, epochs)
        if epochs and since >= self.patience:
            trainer.stop(f"no improvement of the validation {trainer.objective.metric} in {since} epochs")

    def _last_improvement(self, trainer: "Trainer", epochs: list[dict[str, Any]]) -> int:
        """The number of the last epoch that improved on all before it by more than `min_delta`."""
        objective = trainer.objective
        sign = 1 if objective.better == "min" else -1
        best, last = float("inf"), 0
        for number, line in enumerate(epochs, 1):
            value = sign * line["valid"][objective.metric]
            if value < best - self.min_delta or (self.min_delta == 0 and line["best"]):
                best, last = min(value, best), number
        return last


class StopOnSignal(Callback):
    """Stops on Ctrl-C or SIGTERM after the current step, with a checkpoint; `fit` then raises Interrupted.

    Args:
        interrupts: those of a process that handles the signals from its start; by default, they are handled while the
            model trains.
    """

    def __init__(self, interrupts: Interrupts | None = None):
        self._given = interrupts
        self._stack = ExitStack()
        self._interrupts = interrupts or Interrupts()
        self._early_exit = self._interrupts.early_exit

    def on_start(self, trainer):
        if self._given is None:
            self._interrupts = self._stack.enter_context(Interrupts().installed())

    def on_step(self, trainer, progress):
        # From here on there is something to lose.
        self._interrupts.early_exit = None
        if self._interrupts.requested:
            trainer.interrupt()

    def on_end(self, trainer):
        # Later work, such as testing, can be repeated from the last checkpoint.
        self._interrupts.early_exit = self._early_exit
        self._stack.close()
