"""A run from its first step to its result, in memory or in a folder. `s7.train` and `s7 train` both end up here."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

from s7 import files, machine, segments
from s7.data.loader import Augmentation
from s7.data.samples import Samples
from s7.model import S7Model
from s7.records import RunRecord
from s7.run_folder import RunFolder
from s7.settings import Table, table_of
from s7.training.callbacks import Callback, EarlyStopping, StopOnSignal
from s7.training.checkpoint import Checkpointing, require_same
from s7.training.config import TrainConfig
from s7.training.group import ALONE, Group
from s7.training.objectives import Objective
from s7.training.optimizer import AdamW, Schedule, by_name, description
from s7.training.pace import steps_within
from s7.training.results import result_of, write_examples
from s7.training.trainer import NewOptimizer, Trainer


class Trained(NamedTuple):
    """The result of training.

    Attributes:
        model: the model of the best epoch.
        history: one dictionary for each epoch, as in metrics.jsonl.
        result: the content of result.json.
    """

    model: Any
    history: list[dict[str, Any]]
    result: dict[str, Any]


@dataclass(frozen=True)
class Run:
    """Everything that determines a run.

    Attributes:
        splits: "train", "valid" and, unless the run is not tested, "test".
        optimizer: an optax transformation in place of the default.
        schedule: learning rates for the default optimizer.
        minutes: train for about this long; `config.steps` is then measured, and is at most what it was before.
        expectation: a sentence on what so many epochs can expect, or None; said when `minutes` are measured.
        about: entries for result.json.
        settings: the content of config.toml; by default the settings of model and training.
    """

    model: Any
    splits: Mapping[str, Samples]
    objective: Objective
    config: TrainConfig
    seed: int = 0
    augmentation: Augmentation | None = None
    optimizer: Any = None
    schedule: Schedule | None = None
    early_stopping: EarlyStopping | None = None
    minutes: float | None = None
    expectation: Callable[[float], str | None] = lambda epochs: None
    about: Table = field(default_factory=dict)
    settings: Table | None = None

    def __post_init__(self):
        if isinstance(self.model, S7Model) and self.config.pack is not None and self.model.config.norm == "batch":
            raise ValueError("train.pack: batch norm needs statistics of each sequence; use another norm, or no pack")

        if self.config.truncate is not None:
            segments.check(self.model, self.config.truncate)

        if self.config.sequence_shards > 1:
            _check_divisible(self.model)

        if self.config.remat == "blocks" and not isinstance(self.model, S7Model):
            raise ValueError(f"train.remat='blocks' needs an S7Model; {type(self.model).__name__} has no blocks")

    def trainer(self, group: Group = ALONE) -> Trainer:
        """The trainer before its first step."""
        train, valid = self.splits["train"], self.splits["valid"]
        parts = (self.model, self.objective, train, valid, self.config, self.seed, self.augmentation)
        return Trainer.start(*parts, new_optimizer=self._new_optimizer(), group=group)

    def fit(self, callbacks: Sequence[Callback] = (), say: Callable[[str], None] = lambda text: None) -> Trained:
        """Train in memory, together with all processes that `jax.distributed` has connected."""
        group = Group.current(self.config.sequence_shards)
        with group.watched():
            trainer = self._start(group)
            if self.minutes is not None:
                self._measure(trainer, say)
            return self._finish(trainer, callbacks)

    def _start(self, group: Group) -> Trainer:
        """The trainer, after a comparison with those of the other processes."""
        trainer = self.trainer(group)
        if group.count > 1:
            require_same(group, self._identity(trainer) | {"version": machine.versions()["s7"]})
        return trainer

    def fit_in(
        self,
        folder: RunFolder,
        *,
        resume: bool,
        callbacks: Sequence[Callback] = (),
        say: Callable[[str], None] = lambda text: None,
    ) -> Trained:
        """Train in a folder that this process has locked, from the start or from the run's last checkpoint.

        Of several processes the first one reads and writes the folder; the others need not see it.
        """
        group = Group.current(self.config.sequence_shards)
        with group.watched():
            return self._fit_in(folder, group, resume, callbacks, say)

    def _fit_in(self, folder: RunFolder, group: Group, resume: bool, callbacks: Sequence[Callback], say) -> Trained:
        if group.is_first and folder.last.exists() and not resume:
            raise FileExistsError(f"{folder.path}: holds a run; resume it or choose another folder")
        trainer = self._start(group)
        found = group.from_first(_found(folder) if group.is_first else None)
        known = found["steps"]
        measured = isinstance(known, int) and (known != self.config.steps or found["begun"])
        if self.minutes is not None and measured:
            trainer.limit(known)
        if not found["begun"]:
            # Before the speed is measured, so that a run that is interrupted there knows its length.
            self._write_config(folder, group, None)
            if self.minutes is not None:
                if not measured:
                    self._measure(trainer, say)
                self._write_config(folder, group, trainer.config.steps)
        checkpointing = Checkpointing(folder, self._identity(trainer))
        if found["begun"]:
            checkpointing.restore(trainer)
            if found["result"] is not None:
                return Trained(trainer.best_model, trainer.position.history, found["result"])
        elif group.is_first:
            files.save(trainer.best_model, folder.initial)
        if not any(isinstance(callback, StopOnSignal) for callback in callbacks):
            callbacks = (StopOnSignal(), *callbacks)
        trained = self._finish(trainer, (checkpointing, *callbacks))
        if group.is_first:
            shown = self.splits.get("test") or trainer.valid
            if group.parts == 1:  # a process may not have the memory for a whole sequence
                write_examples(trained.model, shown, folder.examples, list(self.about.get("columns", [])))
            RunRecord({}).with_result(trained.result).write_result(folder.path)
        return trained

    def _write_config(self, folder: RunFolder, group: Group, steps: int | None) -> None:
        config = self._table()
        if group.is_first:
            RunRecord(config if steps is None else with_steps(config, steps)).write_config(folder.path)

    def _finish(self, trainer: Trainer, callbacks: Sequence[Callback]) -> Trained:
        if self.early_stopping is not None:
            callbacks = (*callbacks, self.early_stopping)
        trainer.fit(callbacks)
        about = self.about
        if self.minutes is not None and "set" in about:
            about = with_steps(about, trainer.config.steps)
        result = result_of(trainer, self.splits.get("test"), self._digests, about)
        return Trained(trainer.best_model, trainer.position.history, result.to_json())

    def _measure(self, trainer: Trainer, say: Callable[[str], None]) -> None:
        assert self.minutes is not None
        steps = steps_within(60 * self.minutes, trainer)
        if self.config.steps is not None:
            steps = min(steps, self.config.steps)
        epochs = steps / trainer.per_epoch
        expected = self.expectation(epochs)
        more = "" if expected is None else f"; {expected}"
        say(f"{self.minutes:g} minutes are about {steps:,} batches, {epochs:.2g} epochs{more}")
        trainer.limit(steps)

    def _new_optimizer(self) -> NewOptimizer:
        if self.optimizer is not None:
            return lambda layout, batches: by_name(self.optimizer, layout)
        return partial(AdamW.of, self.config, schedule=self.schedule)

    @cached_property
    def _digests(self) -> dict[str, str]:
        return {name: samples.digest() for name, samples in self.splits.items()}

    def _identity(self, trainer: Trainer) -> Table:
        """The properties that must be equal for the run to resume."""
        identity: Table = {name: self.about[name] for name in ("task", "protocol") if name in self.about}
        identity["seed"] = self.seed
        # How sequences are divided, and what is computed twice, changes nothing but rounding.
        train = table_of(trainer.config)
        identity["train"] = {name: train[name] for name in train if name not in ("sequence_shards", "remat")}
        if trainer.config.precision == "float32":  # as in runs of versions without the setting
            del identity["train"]["precision"]
        identity["objective"] = table_of(self.objective)
        if self.optimizer is not None:
            identity["optimizer"] = description(self.optimizer)
        if self.schedule is not None:
            identity["schedule"] = description(self.schedule)
        if self.early_stopping is not None:
            identity["early_stopping"] = table_of(self.early_stopping)
        if self.augmentation is not None:
            identity["augmentation"] = table_of(self.augmentation)
        identity["data"] = self._digests
        is_ours = isinstance(self.model, S7Model)
        identity["model"] = files.to_json(self.model.config) if is_ours else type(self.model).__name__
        identity["weights"] = _digest_of_weights(self.model)
        return identity

    def _table(self) -> Table:
        """The content of config.toml."""
        minutes = {} if self.minutes is None else {"minutes": float(self.minutes)}
        if self.settings is not None:
            return minutes | self.settings
        is_ours = isinstance(self.model, S7Model)
        name = "s7" if is_ours else type(self.model).__name__
        model = (table_of(self.model.config) if is_ours else {}) | {"kind": self.about.get("model", name)}
        train = {name: value for name, value in table_of(self.config).items() if name != "kind"}
        return {"seed": self.seed} | minutes | {"model": model, "train": train}


def _check_divisible(model: Any) -> None:
    """Refuse models whose sequences cannot be divided over processes."""
    if not isinstance(model, S7Model) or model.config.layer is not None:
        raise ValueError("train.sequence_shards needs a model of S7 layers")
    if model.config.head.documents > 1:
        raise ValueError("train.sequence_shards: the Retrieval head reads pairs, which cannot be divided")


def _found(folder: RunFolder) -> dict[str, Any]:
    """Whether a folder holds a checkpoint, the steps measured for its run, and the result of a finished one."""
    begun = folder.last.exists()
    return {
        "begun": begun,
        "steps": folder.record().section("train").get("steps") if folder.is_begun else None,
        "result": folder.result().to_json() if begun and folder.is_finished else None,
    }


def with_steps(table: Table, steps: int | None) -> Table:
    """A configuration or description of a run with the number of steps that was measured for it."""
    changed = dict(table)
    if "set" in table:
        changed["set"] = [*(one for one in table["set"] if not one.startswith("train.steps=")), f"train.steps={steps}"]
    if "train" in table:
        changed["train"] = table["train"] | {"steps": steps}
    return changed


def _digest_of_weights(model: Any) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(files.named_arrays(model).items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
