"""The training loop: epochs of batches, validation after each, the best epoch kept.

Everything random is a function of the seed and of the position, so a run that was stopped anywhere and goes on from a
checkpoint gives the numbers, to the last bit, that it would have given.
"""

import math
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from s7.data.batching import Batching, Plan
from s7.data.loader import Augmentation, Loader
from s7.data.samples import Samples
from s7.training.checkpoint import Position
from s7.training.config import TrainConfig
from s7.training.evaluation import measure
from s7.training.objectives import Objective
from s7.training.optimizer import AdamW
from s7.training.parameters import ParamLayout, flatten
from s7.training.steps import Outcome, Steps, TrainState


class Diverged(ArithmeticError):
    """A number was not finite. The message says where; what was saved before is good."""


class Interrupted(Exception):
    """Somebody asked the run to stop; all is saved."""


class Progress(NamedTuple):
    """Where training stands. `loss` is the epoch's mean so far, `valid` the metrics of the last epoch."""

    position: Position
    epochs: int
    batches: int
    loss: float
    valid: dict[str, float]
    steps_per_second: float
    seconds_left: float
    waiting: float
    epoch_done: bool


class Watcher:
    """What a training loop tells, and asks. This one says nothing and never stops; override what is of interest."""

    def begin(self, trainer: "Trainer") -> None:
        """Before the first step."""

    def progress(self, progress: Progress) -> None:
        """After each step and each epoch."""

    def better(self, trainer: "Trainer") -> None:
        """The epoch just done is the best so far."""

    def save(self, trainer: "Trainer") -> None:
        """A moment to write a checkpoint: after each epoch, every few minutes, and before stopping."""

    def should_stop(self) -> bool:
        """Whether to stop after this step."""
        return False


class Pending(NamedTuple):
    """A step that was started; its outcome may still be on the way."""

    step: int
    batch: int
    plan: Plan
    outcome: Outcome


@dataclass
class Trainer:
    """A model in training. `state` and `position` are all that changes. `per_epoch` batches make an epoch."""

    objective: Objective
    loader: Loader
    valid: Samples
    config: TrainConfig
    seed: int
    optimizer: AdamW
    layout: ParamLayout
    steps: Steps
    state: TrainState
    position: Position
    best_model: Any
    per_epoch: int

    @classmethod
    def start(
        cls,
        model: Any,
        objective: Objective,
        train: Samples,
        valid: Samples,
        config: TrainConfig,
        seed: int,
        augmentation: Augmentation | None = None,
    ) -> "Trainer":
        """At the beginning."""
        loader = Loader(train, config.batching(getattr(model, "stride", 1)), seed, augmentation)
        layout, trained, carried = flatten(model)
        per_epoch = len(loader.plans(0))
        optimizer = AdamW.of(config, layout, config.batches(per_epoch))
        state = TrainState(trained, carried, optimizer.init(trained), jnp.asarray(True))
        steps = Steps(layout, objective)
        parts = objective, loader, valid, config, seed, optimizer, layout, steps
        return cls(*parts, state, Position(), model, per_epoch)

    @property
    def batching(self) -> Batching:
        """How batches are made."""
        return self.loader.batching

    @property
    def model(self) -> Any:
        """The model as it is now."""
        # Copies: the state's own memory is given away at the next step.
        trained = self.layout.unravel(jnp.array(self.state.trained))
        return self.layout.model(trained, {name: jnp.array(q) for name, q in self.state.carried.items()})

    @property
    def is_done(self) -> bool:
        """Whether all that was asked for is trained."""
        steps = self.config.steps
        return self.position.epoch >= self.config.epochs if steps is None else self.position.step >= steps

    @property
    def learning_rate(self) -> float:
        """The rate of most parameters at the last step."""
        step = max(0, self.position.step // self.config.accumulate - 1)
        return self.config.learning_rate * float(self.optimizer.schedule(step))

    def run(self, watcher: Watcher) -> None:
        """From where it stands to the end."""
        watcher.begin(self)
        while not self.is_done:
            self._epoch(watcher)

    def _epoch(self, watcher: Watcher) -> None:
        at = self.position
        plans = self.loader.plans(at.epoch)
        if self.config.steps is not None:
            plans = plans[: self.config.steps - (at.step - at.batch)]
        key = jax.random.key(self.seed)
        began, waited, first = time.perf_counter(), 0.0, at.batch
        seconds, saved = at.seconds, time.perf_counter()
        pending: Pending | None = None
        with closing(self.loader.batches(plans[first:], at.epoch)) as batches:
            for number in range(first, len(plans)):
                asked = time.perf_counter()
                batch = next(batches)
                now = time.perf_counter()
                waited, at.waited = waited + now - asked, at.waited + now - asked
                self.state, outcome = self.steps.train(
                    self.optimizer, self.state, batch, jax.random.fold_in(key, at.step)
                )
                # The outcome of the step before: by now it is there, and the machine is already busy with this one.
                if pending is not None:
                    self._account(pending)
                at.batch, at.step = number + 1, at.step + 1
                pending = Pending(at.step, at.batch, plans[number], outcome)
                now = time.perf_counter()
                at.seconds = seconds + now - began
                due = now - saved > 60 * self.config.save_every
                stop = watcher.should_stop()
                if due or stop:
                    self._account(pending)
                    pending = None
                    watcher.save(self)
                    saved = now
                if stop:
                    raise Interrupted
                watcher.progress(self._progress(plans, began, first, waited, epoch_done=False))
        if pending is not None:
            self._account(pending)
        valid = measure(self.steps, self.state, self.valid, self.batching, self.objective)
        at.seconds = seconds + time.perf_counter() - began
        value = valid[self.objective.metric]
        if not np.isfinite(value):
            raise Diverged(f"validation {self.objective.metric} is {value} after epoch {at.epoch + 1}")
        at.epoch, at.batch = at.epoch + 1, 0
        best = self.objective.is_better(value, at.best)
        means = {name: total / max(at.count, 1) for name, total in at.sums.items()}
        line = {
            "epoch": at.epoch,
            "step": at.step,
            "seconds": round(at.seconds, 3),
            "learning_rate": self.learning_rate,
            "train": self.objective.summary(means),
            "valid": valid,
            "best": best,
        }
        at.history.append(line)
        at.sums, at.count = {}, 0.0
        if best:
            at.best, at.best_epoch = value, at.epoch
            self.best_model = self.model
            watcher.better(self)
        watcher.save(self)
        watcher.progress(self._progress(plans, began, first, waited, epoch_done=True))

    def _account(self, pending: "Pending") -> None:
        """Adds a step to the epoch's sums, or stops if it broke something."""
        outcome = pending.outcome
        if not bool(outcome.good):
            raise Diverged(self._diagnosis(pending))
        at = self.position
        for name, value in outcome.sums.values.items():
            at.sums[name] = at.sums.get(name, 0.0) + float(value)
        at.count += float(outcome.sums.weight)

    def _diagnosis(self, pending: "Pending") -> str:
        outcome = pending.outcome
        bad = int(outcome.bad)
        loss = float(outcome.sums.values["loss"] / outcome.sums.weight)
        samples = np.concatenate(pending.plan.rows)
        shown = ", ".join(map(str, samples[:8])) + (", …" if len(samples) > 8 else "")
        first = f"the first parameter to go bad is {self.layout.name_at(bad)}" if bad >= 0 else "gradients are finite"
        return (
            f"step {pending.step} (epoch {self.position.epoch + 1}, batch {pending.batch}, samples {shown}): "
            f"the loss is {loss:g}, {first}; "
            f"try a lower train.learning_rate (it is {self.config.learning_rate:g}) or a train.clip_norm"
        )

    def _progress(self, plans: list[Plan], began: float, first: int, waited: float, *, epoch_done: bool) -> Progress:
        at = self.position
        spent = time.perf_counter() - began
        done = (len(plans) if epoch_done else at.batch) - first
        pace = done / spent if spent > 0 else 0.0
        overall = at.step / at.seconds if at.seconds > 0 else pace
        left = max(0, self.config.batches(len(plans)) - at.step) / overall if overall > 0 else float("inf")
        loss = at.sums.get("loss", 0.0) / at.count if at.count else float("nan")
        if epoch_done:
            loss = at.history[-1]["train"]["loss"]
        valid = at.history[-1]["valid"] if at.history else {}
        waiting = waited / spent if spent > 0 else 0.0
        epochs = self.config.batches(self.per_epoch) / self.per_epoch
        return Progress(at, math.ceil(epochs), len(plans), loss, valid, pace, left, waiting, epoch_done)
