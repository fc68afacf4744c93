"""The training loop: epochs of batches, validation after each, and the best epoch kept.

Everything random is a function of the seed and of the position, so a run that stopped anywhere and resumes from a
checkpoint gives the same numbers, to the last bit, as one that never stopped.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from jaxtyping import Array

from s7.data.batching import Batching, Plan
from s7.data.loader import Augmentation, Loader
from s7.data.samples import Samples
from s7.training.averaging import Averaged, averaged
from s7.training.callbacks import Callback, Progress
from s7.training.checkpoint import Position
from s7.training.clock import Clock
from s7.training.config import TrainConfig
from s7.training.evaluation import measure
from s7.training.group import ALONE, ROWS, Group
from s7.training.objectives import Objective
from s7.training.optimizer import AdamW, Optimizer
from s7.training.parameters import ParamLayout, flatten
from s7.training.steps import (
    END,
    INTERRUPT,
    NO_REQUESTS,
    SAVE,
    Outcome,
    Steps,
    TrainState,
    TrainStep,
    arrays_of,
    new_stream,
)

# Makes the optimizer for a model's parameters and a number of batches.
NewOptimizer = Callable[[ParamLayout, int], Optimizer]


class Diverged(ArithmeticError):
    """A value was not finite. The message names the position; the last checkpoint is valid."""


class Interrupted(Exception):
    """The run was interrupted; its folder holds a checkpoint from which it resumes."""


class Pending(NamedTuple):
    """A step that was started; its outcome may not be computed yet."""

    step: int
    batch: int
    plan: Plan
    outcome: Outcome


@dataclass
class Trainer:
    """A model in training. `state` and `position` are all that changes; `per_epoch` batches make an epoch.

    The processes of a `group` each have a trainer and do the same; each holds its share of the rows of every batch.

    Examples:
        trainer = Trainer.start(model, objective, train, valid, TrainConfig(epochs=5), seed=0)
        trainer.fit([EarlyStopping(patience=2)])
        trainer.best_model
    """

    objective: Objective
    loader: Loader
    valid: Samples
    config: TrainConfig
    seed: int
    layout: ParamLayout
    new_optimizer: NewOptimizer
    optimizer: Optimizer
    steps: Steps
    train_step: TrainStep
    state: TrainState
    position: Position
    best_model: Any
    per_epoch: int
    group: Group = ALONE
    _callbacks: tuple[Callback, ...] = ()
    _interrupted: bool = field(default=False)

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
        new_optimizer: NewOptimizer | None = None,
        group: Group = ALONE,
    ) -> "Trainer":
        """A trainer before its first step. The optimizer is AdamW unless `new_optimizer` makes another."""
        _check_rows(model, config, group)
        new_optimizer = new_optimizer or partial(AdamW.of, config)
        if config.average:
            new_optimizer = averaged(new_optimizer, config.average)
        loader = Loader(train, config.batching(getattr(model, "stride", 1)), seed, augmentation, group.share)
        layout, trained, carried = flatten(model)
        per_epoch = len(loader.plans(0))
        optimizer = new_optimizer(layout, config.batches(per_epoch))
        state = TrainState(trained, carried, optimizer.init(trained), jnp.asarray(True))
        if config.truncate is not None:
            state = state._replace(stream=new_stream(model, config.batch_size))
        trainer = cls(
            *(objective, loader, valid, config, seed, layout, new_optimizer, optimizer),
            steps=Steps(layout, objective, group, per_step=train.per_step),
            train_step=TrainStep(layout, objective, optimizer, group, per_step=train.per_step, config=config),
            state=state,
            position=Position(),
            best_model=model,
            per_epoch=per_epoch,
            group=group,
        )
        trainer.set_state(state)
        return trainer

    def whole_state(self) -> TrainState:
        """The state with all rows of `stream`, as arrays of this process. All processes of a group call this."""
        state = self.group.local(self.state)
        if self.group.count == 1:
            return state
        rows = jax.tree.map(lambda q: np.concatenate(self.group.gather(np.asarray(q))), state.stream)
        return state._replace(stream=jax.tree.map(lambda q: q[: self.config.batch_size], rows))

    def set_state(self, state: TrainState) -> None:
        """Continue from a state that is equal in all processes, such as one of `whole_state`."""
        if self.group.count > 1:
            each, at = self.group.share.batching(self.batching).size, self.group.index

            def own(q: Array) -> np.ndarray:
                padding = [(0, each * self.group.count - len(q)), *[(0, 0)] * (q.ndim - 1)]
                return np.pad(np.asarray(q), padding)[at * each : (at + 1) * each]

            rows = self.group.place(jax.tree.map(own, state.stream), PartitionSpec(ROWS))
            state = self.group.replicate(state._replace(stream=()))._replace(stream=rows)
        self.state = state

    def limit(self, steps: int) -> None:
        """Train on this many batches in total. Compiled code stays valid."""
        self.config = replace(self.config, steps=steps)
        self.optimizer = self.new_optimizer(self.layout, steps)

    def stop(self, reason: str) -> None:
        """End training after the current step; the model is validated and the best one kept."""
        self.position.stopped = self.position.stopped or reason

    def interrupt(self) -> None:
        """End training after the current step with a checkpoint; `fit` raises Interrupted."""
        self._interrupted = True

    @property
    def batching(self) -> Batching:
        """How batches are made."""
        return self.loader.batching

    @property
    def validated(self) -> TrainState:
        """The state that is validated and kept: the current one, or with the average of its parameters."""
        state = self.group.local(self.state)
        if not isinstance(self.optimizer, Averaged):
            return state
        return state._replace(trained=state.memory.average)

    @property
    def model(self) -> Any:
        """The model as it is now."""
        # Copies: the next step consumes the memory of the state.
        state = self.validated
        trained = self.layout.unravel(jnp.array(state.trained))
        return self.layout.model(trained, {name: jnp.array(q) for name, q in state.carried.items()})

    @property
    def is_done(self) -> bool:
        """Whether training is complete."""
        if self.position.stopped:
            return True
        steps = self.config.steps
        return self.position.epoch >= self.config.epochs if steps is None else self.position.step >= steps

    @property
    def learning_rate(self) -> float | None:
        """The learning rate of most parameters at the last step; None if only the optimizer knows it."""
        optimizer = self.optimizer.inner if isinstance(self.optimizer, Averaged) else self.optimizer
        if not isinstance(optimizer, AdamW):
            return None
        step = max(0, self.position.step // self.config.accumulate - 1)
        peak = self.config.learning_rate if optimizer.given is None else 1.0
        return peak * float(optimizer.schedule(step))

    def fit(self, callbacks: Sequence[Callback] = ()) -> None:
        """Train from the current position to the end.

        Raises:
            Diverged: a loss, gradient or parameter was not finite.
            Interrupted: `interrupt` was called; a checkpoint was due before.
        """
        self._callbacks = tuple(callbacks)
        started = []
        try:
            for callback in self._callbacks:
                started.append(callback)
                callback.on_start(self)
            while not self.is_done:
                self._epoch()
        finally:
            for callback in reversed(started):
                callback.on_end(self)

    def _epoch(self) -> None:
        at = self.position
        plans = self.loader.plans(at.epoch)
        if self.config.steps is not None:
            plans = plans[: self.config.steps - (at.step - at.batch)]
        clock = Clock(at)
        self._batches(plans, clock)
        valid = measure(self.steps, self.validated, self.valid, self.batching, self.objective, self.group)
        clock.read()
        self._finish_epoch(valid)
        for callback in self._callbacks:
            callback.on_checkpoint(self)
        progress = self._progress(plans, clock, epoch_done=True)
        for callback in self._callbacks:
            callback.on_epoch_end(self, progress)
        at.stopped = self.group.from_first(at.stopped)  # callbacks may look at the clock
        if at.stopped:  # so that a resumed run knows
            for callback in self._callbacks:
                callback.on_checkpoint(self)

    def _batches(self, plans: list[Plan], clock: Clock) -> None:
        """Train on the rest of an epoch, or until a callback stops it."""
        at = self.position
        key, numbers = jax.random.key(self.seed), arrays_of(self.optimizer)
        saved = time.perf_counter()
        pending: Pending | None = None
        before: Outcome | None = None
        with closing(self.loader.batches(plans[at.batch :], at.epoch)) as batches:
            for number in range(at.batch, len(plans)):
                with clock.waiting():
                    batch = next(batches)
                keys = jax.random.fold_in(key, at.step)
                self.state, outcome = self.train_step.train(numbers, self.state, batch, keys, self._requests(saved))
                # The previous outcome is computed by now, and the machine is already busy with this step.
                if pending is not None:
                    self._account(pending)
                at.batch, at.step = number + 1, at.step + 1
                pending = Pending(at.step, at.batch, plans[number], outcome)
                clock.read()
                progress = self._progress(plans, clock, epoch_done=False)
                for callback in self._callbacks:
                    callback.on_step(self, progress)
                due = self._due(before, saved)
                before = outcome
                if due[INTERRUPT] or due[SAVE]:
                    self._account(pending)
                    pending = before = None
                    for callback in self._callbacks:
                        callback.on_checkpoint(self)
                    saved = time.perf_counter()
                if due[INTERRUPT]:
                    self.group.wait()  # until the checkpoint is written
                    raise Interrupted
                if due[END]:
                    at.stopped = self.group.from_first(at.stopped) or "a process ended training"
                    break
        if pending is not None:
            self._account(pending)

    def _requests(self, saved: float) -> np.ndarray:
        """What this process asks for after the current step, given the time of its last checkpoint."""
        late = time.perf_counter() - saved > 60 * self.config.save_every
        return np.array([bool(self.position.stopped), self._interrupted, late], np.float32)

    def _due(self, before: Outcome | None, saved: float) -> np.ndarray:
        """The requests to act on now. Processes learn of each other's with the outcome of the step before."""
        if self.group.count == 1:
            return self._requests(saved)
        return NO_REQUESTS if before is None else np.asarray(before.requests)

    def _finish_epoch(self, valid: dict[str, float]) -> None:
        """Add the epoch to the history and keep its model if it is the best."""
        at, metric = self.position, self.objective.metric
        if not np.isfinite(valid[metric]):
            raise Diverged(f"validation {metric} is {valid[metric]} after epoch {at.epoch + 1}")
        at.epoch, at.batch = at.epoch + 1, 0
        best = self._is_best(valid)
        means = {name: total / max(at.count, 1) for name, total in at.sums.items()}
        line = {
            "epoch": at.epoch,
            "step": at.step,
            "seconds": round(at.seconds, 3),
            "cpu_seconds": round(at.cpu_seconds, 3),
            "learning_rate": self.learning_rate,
            "train": self.objective.summary(means),
            "valid": valid,
            "best": best,
        }
        at.history.append(line)
        at.sums, at.count = {}, 0.0
        if best:
            at.best, at.best_loss, at.best_epoch = valid[metric], valid["loss"], at.epoch
            self.best_model = self.model
            for callback in self._callbacks:
                callback.on_improvement(self)

    def _is_best(self, valid: dict[str, float]) -> bool:
        """By the metric, then by the loss; of two equal epochs the earlier is the best. Or always the last."""
        if self.config.keep == "last":
            return True
        at, value = self.position, valid[self.objective.metric]
        if value == at.best:
            return at.best_loss is not None and valid["loss"] < at.best_loss
        return self.objective.is_better(value, at.best)

    def _account(self, pending: Pending) -> None:
        """Add a step to the epoch's sums; raises Diverged if it was not finite."""
        outcome = pending.outcome
        if not bool(outcome.good):
            raise Diverged(self._diagnosis(pending))
        at = self.position
        for name, value in outcome.sums.values.items():
            at.sums[name] = at.sums.get(name, 0.0) + float(value)
        at.count += float(outcome.sums.weight)

    def _diagnosis(self, pending: Pending) -> str:
        outcome = pending.outcome
        bad = int(outcome.bad)
        loss = float(outcome.sums.values["loss"] / outcome.sums.weight)
        samples = np.concatenate(pending.plan.rows)
        shown = ", ".join(map(str, samples[:8])) + (", …" if len(samples) > 8 else "")
        first = (
            f"the first parameter that is not finite is {self.layout.name_at(bad)}"
            if bad >= 0
            else "gradients are finite"
        )
        return (
            f"step {pending.step} (epoch {self.position.epoch + 1}, batch {pending.batch}, samples {shown}): "
            f"the loss is {loss:g}, {first}; "
            f"try a lower learning_rate (it is {self.config.learning_rate:g}) or a smaller clip_norm"
        )

    def _progress(self, plans: list[Plan], clock: Clock, *, epoch_done: bool) -> Progress:
        at = self.position
        spent = clock.spent
        done = (len(plans) if epoch_done else at.batch) - clock.first_batch
        pace = done / spent if spent > 0 else 0.0
        total = self.config.batches(self.per_epoch)
        overall = at.step / at.seconds if at.seconds > 0 else pace
        left = max(0, total - at.step) / overall if overall > 0 else float("inf")
        loss = at.sums.get("loss", 0.0) / at.count if at.count else float("nan")
        if epoch_done:
            loss = at.history[-1]["train"]["loss"]
        return Progress(
            epoch=at.epoch,
            epochs=math.ceil(total / self.per_epoch),
            batch=at.batch,
            batches=len(plans),
            step=at.step,
            steps=total,
            loss=loss,
            valid=at.history[-1]["valid"] if at.history else {},
            best=at.best,
            best_epoch=at.best_epoch,
            seconds=at.seconds,
            seconds_left=left,
            steps_per_second=pace,
            waiting=clock.waited / spent if spent > 0 else 0.0,
        )


def _check_rows(model: Any, config: TrainConfig, group: Group) -> None:
    """Refuse to divide batches into shares that have to be filled, if that would change the result."""
    if config.batch_size % group.count and any(jax.tree.leaves(getattr(model, "moments", None))):
        raise ValueError(
            f"train.batch_size={config.batch_size} is not a multiple of the {group.count} processes, and batch norms "
            "would count the rows that fill the batches; choose a multiple, or another norm"
        )
