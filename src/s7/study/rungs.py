"""Rungs: validations at fixed fractions of a trial's training, at which trials are compared.

A fraction of the training is the same number of epochs in every trial that trains for the same number of epochs, and
the same training time in every trial that trains for the same time, because the steps that fit into that time are
measured before training starts. The learning-rate schedules of the trials are at the same place, too.
"""

import math
from collections.abc import Callable, Sequence

from s7.study.messages import Rung
from s7.training import Callback
from s7.training.evaluation import measure


class Rungs(Callback):
    """Validates the model at fractions of its training and sends the results.

    Args:
        fractions: The fractions, between 0 and 1.
        send: Called with an event at each rung.
    """

    def __init__(self, fractions: Sequence[float], send: Callable[[Rung], None]):
        self._fractions, self._send = fractions, send
        self._at: dict[int, float] = {}

    def on_start(self, trainer):
        total = trainer.config.batches(trainer.per_epoch)
        self._at = {math.ceil(fraction * total): fraction for fraction in sorted(self._fractions)}

    def on_step(self, trainer, progress):
        fraction = self._at.get(progress.step)
        if fraction is None:
            return
        objective = trainer.objective
        valid = measure(trainer.steps, trainer.validated, trainer.valid, trainer.batching, objective, trainer.group)
        value = valid[objective.metric]
        if math.isfinite(value):  # otherwise training is about to stop with an explanation
            self._send(Rung(fraction, progress.step, progress.seconds, objective.metric, value, objective.better))
