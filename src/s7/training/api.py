"""`s7.train`: a model, samples to learn from, samples to choose the best epoch by.

    trained = s7.train(model, (inputs, targets), (valid_inputs, valid_targets), epochs=10)

The commands do the same with a task's data and a folder's name.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from s7 import files, machine, storage
from s7.data.loader import Augmentation
from s7.data.samples import Samples
from s7.model import S7Model
from s7.records import Epoch, Result, RunRecord
from s7.run_folder import RunFolder
from s7.settings import Table, build, table_of
from s7.training.checkpoint import Checkpoint
from s7.training.config import TrainConfig
from s7.training.evaluation import confusion, measure, outputs_of, state_of
from s7.training.loop import Trainer, Watcher
from s7.training.objectives import CrossEntropy, Objective
from s7.training.signals import StopRequest, stop_request
from s7.training.splits import prepare

EXAMPLES = 3

Data = Samples | tuple


class Trained(NamedTuple):
    """The model of the best epoch, one line for each epoch, and what is in result.json."""

    model: Any
    history: list[dict[str, Any]]
    result: dict[str, Any]


def train(
    model: Any,
    train: Data,
    valid: Data | float,
    test: Data | None = None,
    *,
    objective: Objective | None = None,
    augmentation: Augmentation | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    seed: int = 0,
    watch: Watcher | None = None,
    about: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Trained:
    """Trains a model and returns it as it was in its best epoch on `valid`; `test` is looked at once, at the end.

    Samples are `s7.Samples`, or tuples of arrays: (inputs, targets) or (inputs, targets, dt); `valid` may also be a
    fraction of the training data. The objective is cross-entropy for labels and the mean square otherwise. `settings`
    are those of `s7.training.TrainConfig`: epochs, batch_size, learning_rate and so on. An `augmentation` varies the
    training samples.

    With `out`, a folder, the run is kept there and survives: `resume=True` goes on where it stopped, whatever stopped
    it, to the same numbers. `about` is added to result.json.
    """
    data = {"train": train, "valid": valid, "test": test}
    config = build(TrainConfig, settings, "train")
    run = Run.of(model, data, objective, config, seed, watch or Watcher(), dict(about or {}), augmentation)
    if out is None:
        return run.to_the_end()
    folder = RunFolder(Path(out))
    with folder.locked():
        return run.kept_in(folder, resume=resume)


class Run(Watcher):
    """A run without a folder: nothing is kept but the best model."""

    def __init__(self, trainer: Trainer, test: Samples | None, digests: dict[str, str], about: Table, watch: Watcher):
        self.trainer, self.test, self.digests, self.about, self.watch = trainer, test, digests, about, watch

    @classmethod
    def of(
        cls,
        model: Any,
        data: Mapping[str, Any],
        objective: Objective | None,
        config: TrainConfig,
        seed: int,
        watch: Watcher,
        about: Table,
        augmentation: Augmentation | None = None,
    ) -> "Run":
        """Ready to start. What does not fit together is said before anything is compiled."""
        _check_packing(model, config)
        model, splits, objective = prepare(model, **data, objective=objective, seed=seed)
        trainer = Trainer.start(model, objective, splits["train"], splits["valid"], config, seed, augmentation)
        digests = {name: samples.digest() for name, samples in splits.items()}
        return cls(trainer, splits.get("test"), digests, about, watch)

    def kept_in(self, folder: RunFolder, *, resume: bool) -> Trained:
        """Trains in a folder that this process has to itself, from the start or from where the run there stands."""
        trainer = self.trainer
        if folder.last.exists() and not resume:
            raise FileExistsError(f"{folder.path}: holds a run; go on with it (resume) or choose another folder")
        belongs_to = self._identity()
        if folder.last.exists():
            checkpoint = Checkpoint.read(folder.last, trainer.state, belongs_to)
            trainer.state, trainer.position = checkpoint.state, checkpoint.position
            if trainer.position.best_epoch:
                trainer.best_model = files.load(folder.best)
            _record(trainer).write_history(folder.path)
        else:
            files.save(trainer.best_model, folder.initial)
        if folder.is_finished:
            return Trained(trainer.best_model, trainer.position.history, folder.result().to_json())
        if not folder.is_begun:
            RunRecord(self._config()).write_config(folder.path)
        with stop_request() as request:
            trained = _KeptRun(self, folder, belongs_to, request).to_the_end()
        write_examples(trained.model, self.test or trainer.valid, folder.examples, self.about.get("columns", []))
        _record(trainer).with_result(trained.result).write_result(folder.path)
        return trained

    def _identity(self) -> Table:
        """What must be the same for a run to go on as if it had never stopped."""
        model = self.trainer.best_model
        identity: Table = {name: self.about[name] for name in ("task", "protocol") if name in self.about}
        identity["seed"] = self.trainer.seed
        identity["train"] = table_of(self.trainer.config)
        identity["data"] = self.digests
        if self.trainer.loader.augmentation is not None:
            identity["augmentation"] = table_of(self.trainer.loader.augmentation)
        identity["model"] = files.to_json(model.config) if isinstance(model, S7Model) else type(model).__name__
        return identity

    def _config(self) -> Table:
        """What config.toml holds of a run on arrays: there is no task to name."""
        model = self.trainer.best_model
        settings = table_of(model.config) if isinstance(model, S7Model) else {}
        name = "s7" if isinstance(model, S7Model) else type(model).__name__
        tables = {"model": settings | {"kind": self.about.get("model", name)}}
        tables["train"] = {name: value for name, value in table_of(self.trainer.config).items() if name != "kind"}
        return {"seed": self.trainer.seed} | tables

    def begin(self, trainer):
        self.watch.begin(trainer)

    def progress(self, progress):
        self.watch.progress(progress)

    def should_stop(self):
        return self.watch.should_stop()

    def to_the_end(self) -> Trained:
        """Trains, then tests the best epoch."""
        self.trainer.run(self)
        model = self.trainer.best_model
        history = self.trainer.position.history
        return Trained(model, history, Result.from_json(self.result(model)).to_json())

    def result(self, model: Any) -> dict[str, Any]:
        """What result.json holds."""
        trainer, at = self.trainer, self.trainer.position
        best, state = at.history[at.best_epoch - 1], state_of(model)
        result = self.about | {
            "seed": trainer.seed,
            "parameters": int(trainer.state.trained.size),
            "epochs": at.epoch,
            "steps": at.step,
            "steps_per_epoch": trainer.per_epoch,
            "best_epoch": at.best_epoch,
            "seconds": round(at.seconds, 2),
            "steps_per_second": round(at.step / at.seconds, 3),
            "waits_for_data": round(at.waited / at.seconds, 4),
            "peak_memory_mb": round(machine.peak_memory_mb()),
            "objective": type(trainer.objective).__name__,
            "metric": trainer.objective.metric,
            "better": trainer.objective.better,
            "valid": best["valid"],
            "test": {},
            "data_sha256": self.digests,
            "versions": machine.versions(),
            "machine": machine.description(),
        }
        if self.test is not None:
            result["test"] = measure(trainer.steps, state, self.test, trainer.batching, trainer.objective)
        if isinstance(trainer.objective, CrossEntropy):
            classes = trainer.objective.classes
            result["classes"] = list(trainer.objective.names) or [str(n) for n in range(classes)]
            shown = self.test or trainer.valid
            result["confusion"] = confusion(trainer.steps, state, shown, trainer.batching, trainer.objective).tolist()
        return result


class _KeptRun(Run):
    """A run in a folder."""

    def __init__(self, run: Run, folder: RunFolder, belongs_to: Table, request: StopRequest):
        super().__init__(run.trainer, run.test, run.digests, run.about, run.watch)
        self.folder, self.belongs_to, self.request = folder, belongs_to, request

    def better(self, trainer):
        files.save(trainer.best_model, self.folder.best)

    def save(self, trainer):
        # The best model is safe before the checkpoint that speaks of it: between the two, the epoch is done again.
        Checkpoint(trainer.state, trainer.position, self.belongs_to).write(self.folder.last)
        _record(trainer).write_history(self.folder.path)

    def should_stop(self):
        return self.request.asked or super().should_stop()


def _record(trainer: Trainer) -> RunRecord:
    return RunRecord({}, tuple(Epoch.from_json(line) for line in trainer.position.history))


def write_examples(model: Any, samples: Samples, path: Path, columns: list[str]) -> None:
    """The first few samples with the model's outputs, for reports; `columns` name the numbers of a target."""
    few = samples.take(np.arange(min(EXAMPLES, len(samples))))
    arrays: dict[str, np.ndarray] = {}
    for n, output in enumerate(outputs_of(model, few)):
        one = few.take([n])
        # Of two documents as much as both have: a look needs no more.
        starts, lengths = one.spans(np.array([0]))
        places = starts[0][..., None] + np.arange(lengths.min())
        arrays |= {f"{n}.inputs": one.inputs[places], f"{n}.outputs": output}
        arrays[f"{n}.targets"] = one.targets if few.per_step else one.targets[0]
        if one.dt is not None:
            arrays[f"{n}.dt"] = one.dt[places]
    about = json.dumps({"split": samples.name, "columns": columns})
    storage.write_atomically(path, storage.tensors(arrays, {"s7": about}))


def _check_packing(model: Any, config: TrainConfig) -> None:
    if isinstance(model, S7Model) and config.pack is not None and model.config.norm == "batch":
        raise ValueError(
            "train.pack: batch norm needs its statistics sequence by sequence; use another norm, or no pack"
        )
