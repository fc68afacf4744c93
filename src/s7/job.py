"""A task, a preset, a protocol, a seed: what the commands train, and what a run's folder remembers."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax

from s7.baselines import ARCHITECTURES
from s7.config import ModelConfig
from s7.data.folder import DataFolder
from s7.encoders import Encoder, LinearEncoder
from s7.heads import Head, Mean
from s7.model import S7Model
from s7.presets import otherwise, preset
from s7.records import RunRecord
from s7.run_folder import RunFolder
from s7.settings import Table, build, convert, merge, table_of, to_assignments, unknown
from s7.standardization import mean_gap
from s7.tasks import TASKS, Problem, Task, find_task
from s7.training import TrainConfig, Watcher
from s7.training.api import Run, Trained
from s7.training.pace import steps_within

SECTIONS = ("data", "model", "train")
_FROM_DATA = ("encoder", "head")


@dataclass(frozen=True)
class Job:
    """What is to be done; `settings` are the tables data, model and train over those of the preset.

    With `test` off the test data are left alone: for trying settings. `variant` names what is special about the
    settings, for reports.
    """

    task: str
    model: str = "s7"
    preset: str = "ours"
    protocol: str = "strict"
    seed: int = 0
    settings: Table = field(default_factory=dict)
    test: bool = True
    variant: str = ""

    def __post_init__(self):
        kind = find_task(self.task)
        if self.model not in ARCHITECTURES:
            raise ValueError(unknown("model", self.model, ARCHITECTURES))
        if self.protocol not in kind.protocols:
            raise ValueError(unknown("protocol", self.protocol, kind.protocols))
        for name in self.settings:
            if name not in SECTIONS:
                raise ValueError(f"--set {name}: {unknown('section', name, SECTIONS)}")
        self._preset()

    @property
    def tables(self) -> Table:
        """The preset's tables, what the model's architecture stands for over them, and the settings over all."""
        architecture = ARCHITECTURES[self.model]
        below = merge(self._preset(), {"model": architecture.model})
        for name in (architecture.family, self.model):
            below = _over(below, otherwise(self.task, name))
        return {name: {} for name in SECTIONS} | _over(below, self.settings)

    def _preset(self) -> Table:
        """One's own task brings its own settings."""
        return preset(self.task, self.preset) if self.task in TASKS else find_task(self.task).settings

    def data(self) -> Task:
        """The task with its data settings."""
        return build(find_task(self.task), self.tables["data"], "data")

    def training(self) -> TrainConfig:
        """How it is trained."""
        return build(TrainConfig, self.tables["train"], "train")

    def model_config(self, problem: Problem) -> ModelConfig:
        """What is trained. `model.encoder` and `model.head` change what the task gives; `depth` is one stage."""
        table = dict(self.tables["model"])
        given = {name: _changed(getattr(problem, name), table.pop(name, {}), name) for name in _FROM_DATA}
        config = _model_config(table | problem.model, given)
        gaps = problem.train.dt
        if config.time_unit is None and gaps is not None:
            config = replace(config, time_unit=mean_gap(gaps, problem.train.offsets))
        return config

    def check(self) -> None:
        """Raises an error for a setting that cannot be, before any data are read."""
        self.data()
        self.training()
        # Any encoder and head will do, until the data say which.
        table = {name: value for name, value in self.tables["model"].items() if name not in _FROM_DATA}
        _model_config(table, {"encoder": LinearEncoder(1), "head": Mean(1)})

    def problem(self, folder: DataFolder, say: Callable[[str], None]) -> Problem:
        """The task's data."""
        return self.data().load(folder, self.protocol, say)

    def new_model(self, problem: Problem) -> S7Model:
        """The model before training."""
        return S7Model(self.model_config(problem), key=jax.random.key(self.seed))

    def config(self, problem: Problem) -> Table:
        """What config.toml holds: every setting, asked for or not. What the data say of encoder and head is not set."""
        model = _without_kind(table_of(self.model_config(problem)))
        asked = self.tables["model"]
        model = {"kind": self.model} | {
            name: asked.get(name) if name in _FROM_DATA else value
            for name, value in model.items()
            if name not in _FROM_DATA or name in asked
        }
        head = {"task": self.task, "preset": self.preset, "protocol": self.protocol, "seed": self.seed}
        head |= {"test": self.test, "variant": self.variant}
        sections = {"data": table_of(self.data()), "train": table_of(self.training())}
        return head | {"model": model} | {name: _without_kind(table) for name, table in sections.items()}

    def changes(self, problem: Problem) -> list[str]:
        """What is otherwise than preset and architecture have it, as `--set` would say it."""
        mine, theirs = self.config(problem), replace(self, settings={}).config(problem)
        differs = {
            section: {name: value for name, value in mine[section].items() if value != theirs[section].get(name)}
            for section in SECTIONS
        }
        return to_assignments(differs)

    @classmethod
    def of(cls, config: Table) -> "Job":
        """The job that a config.toml describes."""
        if "task" not in config:
            raise ValueError("this run was made by s7.train on arrays, not on a task; s7.load reads its model")
        settings = {name: dict(config.get(name, {})) for name in SECTIONS}
        model = settings["model"].pop("kind", "s7")
        names = ("task", "preset", "protocol", "seed", "test", "variant")
        return cls(model=model, settings=settings, **{name: config[name] for name in names if name in config})

    def run(
        self,
        out: Path,
        data: DataFolder,
        *,
        resume: bool = False,
        minutes: float | None = None,
        watch: Watcher | None = None,
        say: Callable[[str], None] = print,
    ) -> Trained:
        """Trains in a folder, from the start or from where it stands; for as long as the settings say, or `minutes`."""
        missing = self.data().missing(data)
        if missing:
            raise FileNotFoundError(f"{self.task}: {missing}")
        folder = RunFolder(out)
        with folder.locked():
            problem = self.problem(data, say)
            if self._gaps(problem) == "not used":
                say(f"{self.model} has no notion of time: the gaps between the events of {self.task} are not used")
            job, run = self, self._prepared(problem, watch or Watcher())
            if minutes is not None and not folder.is_begun:
                steps = steps_within(60 * minutes, run.trainer)
                say(f"{minutes:g} minutes are about {steps:,} batches, {steps / run.trainer.per_epoch:.2g} epochs")
                compiled = run.trainer.steps
                job = replace(self, settings=merge(self.settings, {"train": {"steps": steps}}))
                run = job._prepared(problem, watch or Watcher())
                run.trainer.steps = compiled
            if not folder.is_begun:
                config = job.config(problem) | {"set": job.changes(problem)}
                RunRecord(config).write_config(out)
            return run.kept_in(folder, resume=resume)

    def _prepared(self, problem: Problem, watch: Watcher) -> Run:
        kind = find_task(self.task)
        about = {
            "task": self.task,
            "title": kind.title,
            "model": self.model,
            "variant": self.variant,
            "preset": self.preset,
            "protocol": self.protocol,
            "protocol_note": kind.protocols[self.protocol],
            "set": self.changes(problem),
            "gaps": self._gaps(problem),
            "baselines": dict(problem.baselines) if self.test else {},
            "columns": list(problem.columns),
        }
        splits = {"train": problem.train, "valid": problem.valid}
        if self.test:
            splits["test"] = problem.test
        model = self.new_model(problem)
        train, varied = self.training(), problem.augmentation
        return Run.of(model, splits, problem.objective, train, self.seed, watch, about, varied)

    def _gaps(self, problem: Problem) -> str:
        """What becomes of the time between events."""
        if problem.train.dt is None:
            return "none"
        return "used" if self.model_config(problem).reads_gaps else "not used"


def _model_config(table: Table, given: dict[str, Any]) -> ModelConfig:
    if "depth" in table:
        if "stages" in table:
            raise ValueError("model: give depth or stages, not both")
        others = {name: value for name, value in table.items() if name != "depth"}
        table = others | {"stages": [{"depth": table["depth"]}]}
    return build(ModelConfig, table, "model", given)


def _over(below: Table, above: Table) -> Table:
    """The tables, those above over those below. Depth and stages are two ways to say one thing."""
    if {"depth", "stages"} & set(above.get("model", {})):
        kept = {name: value for name, value in below.get("model", {}).items() if name not in ("depth", "stages")}
        below = below | {"model": kept}
    return merge(below, above)


def _changed(settings: Any, table: Any, where: str) -> Any:
    """Settings with some of them changed, or of another kind."""
    kind = {"encoder": Encoder, "head": Head}[where]
    return convert(merge({where: table_of(settings)}, {where: table})[where], kind, f"model.{where}")


def _without_kind(table: Table) -> Table:
    return {name: value for name, value in table.items() if name != "kind"}
