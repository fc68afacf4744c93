"""Jobs: the training of one model on one task, with a preset, a protocol and a seed."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any

import jax

from s7.baselines import find_architecture
from s7.capacity import check_capacity
from s7.config import ModelConfig, build_config, with_stages
from s7.data.folder import DataFolder
from s7.encoders import Encoder, LinearEncoder
from s7.files import load
from s7.heads import Head, Mean
from s7.model import S7Model
from s7.presets import otherwise, preset
from s7.presets.expected import expectation
from s7.run_folder import RunFolder
from s7.sequence_layer import LayerKind
from s7.settings import Table, build, convert, from_assignments, merge, table_of, to_assignments, unknown
from s7.standardization import mean_gap
from s7.tasks import TASKS, Problem, Task, find_task
from s7.training import Callback, TrainConfig
from s7.training.group import Group
from s7.training.run import Run, Trained
from s7.training.splits import prepare
from s7.transfer import transferred

SECTIONS = ("data", "model", "train")
_FROM_DATA = ("encoder", "head")


@dataclass(frozen=True)
class Job:
    """The training of one model on one task, as `s7 train` runs it.

    Args:
        task: The name of a task, or module:Class.
        model: The name of an architecture.
        preset: "ours" or "paper".
        protocol: One of the task's protocols.
        seed: The random seed of parameters, batches and dropout.
        settings: The tables "data", "model" and "train", which override the preset.
        test: Whether to evaluate the test data. Use False while choosing settings.
        variant: A name for these settings in reports.
        minutes: Train for about this long instead of for `train.epochs`.
        init: A run, a model file or the name of a shared model to start from; empty for new parameters.
    """

    task: str
    model: str = "s7"
    preset: str = "ours"
    protocol: str = "strict"
    seed: int = 0
    settings: Table = field(default_factory=dict)
    test: bool = True
    variant: str = ""
    minutes: float | None = None
    init: str = ""

    def __post_init__(self):
        kind = find_task(self.task)
        find_architecture(self.model)
        if self.protocol not in kind.protocols:
            raise ValueError(unknown("protocol", self.protocol, kind.protocols))
        for name in self.settings:
            if name not in SECTIONS:
                raise ValueError(f"{name}: {unknown('section', name, SECTIONS)}")
        self._preset()

    @cached_property
    def tables(self) -> Table:
        """All settings by section: those of the preset, overridden by the architecture's and then by `settings`."""
        architecture = find_architecture(self.model)
        layers = [
            self._preset(),
            {"model": architecture.settings},
            otherwise(self.task, architecture.family),
            otherwise(self.task, self.model),
            self.settings,
        ]
        return reduce(_over, layers, {name: {} for name in SECTIONS})

    def _preset(self) -> Table:
        """The settings of the preset; a user's task has its own settings instead."""
        return preset(self.task, self.preset) if self.task in TASKS else find_task(self.task).settings

    def data(self) -> Task:
        """The task, with its data settings."""
        return build(find_task(self.task), self.tables["data"], "data")

    def training(self) -> TrainConfig:
        """The training settings."""
        return build(TrainConfig, self.tables["train"], "train")

    def model_config(self, problem: Problem) -> ModelConfig:
        """The configuration of the model. `model.encoder` and `model.head` change those of the task."""
        table = dict(self.tables["model"])
        given = {name: _changed(getattr(problem, name), table.pop(name, {}), name) for name in _FROM_DATA}
        config = build_config(table | with_stages(problem.model, "model"), "model", given)
        gaps = problem.train.dt
        if config.time_unit is None and gaps is not None:
            config = replace(config, time_unit=mean_gap(gaps, problem.train.offsets))
        return config

    def base_config(self) -> ModelConfig:
        """The configuration of the model as far as it is known without the data, which determine encoder and head."""
        rest = {name: value for name, value in self.tables["model"].items() if name not in _FROM_DATA}
        return build_config(rest, "model", {"encoder": LinearEncoder(1), "head": Mean(1)})

    def complete(self) -> Table:
        """Every setting by section, as far as it is known without the data."""
        return self._sections()

    def check(self) -> None:
        """Check all settings, before any data are read.

        Raises:
            ValueError: If a setting is not valid.
        """
        self._sections()
        if self.minutes is not None and self.training().steps is not None:
            raise ValueError(f"minutes={self.minutes:g} and train.steps={self.training().steps}: omit one of them")

    def check_data(self, problem: Problem) -> None:
        """Check that the model can be trained on these data.

        Raises:
            ValueError: If it cannot read them, or needs more memory than there is.
        """
        config = self.model_config(problem)
        check_capacity(self.model, config, problem, self.training().batch_size, test=self.test)

    @property
    def depends_on_data(self) -> bool:
        """Whether `check_data` can fail: for attention, and for encoders that not all data suit."""
        table = self.tables["model"]
        layer = convert(table.get("layer"), LayerKind | None, "model.layer")
        if layer is not None and layer.attention_scores(2, 2) > 0:
            return True
        kind = table.get("encoder", {}).get("kind")
        return kind is not None and "completed" in vars(Encoder.registry.find(kind))

    def problem(self, folder: DataFolder, say: Callable[[str], None]) -> Problem:
        """Load the task's data."""
        return self.data().load(folder, self.protocol, say)

    def new_model(self, problem: Problem) -> S7Model:
        """The model with its initial parameters."""
        model = S7Model(self.model_config(problem), key=jax.random.key(self.seed))
        if not self.init:
            return model
        try:
            return transferred(model, load(self.init))
        except ValueError as error:
            raise ValueError(f"init={self.init}: {error}") from None

    def config(self, problem: Problem) -> Table:
        """The contents of config.toml: every setting, also those left at their defaults."""
        head = {"task": self.task, "preset": self.preset, "protocol": self.protocol, "seed": self.seed}
        head |= {"test": self.test, "variant": self.variant, "init": self.init}
        sections = self._sections(self.model_config(problem))
        return head | sections | {"model": {"kind": self.model} | sections["model"]}

    def changes(self, problem: Problem) -> list[str]:
        """The settings that differ from the preset and the architecture, as assignments such as "model.width=32"."""
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
            raise ValueError("this run was trained on arrays with s7.train, not on a task; use s7.load for its model")
        settings = {name: dict(config.get(name, {})) for name in SECTIONS}
        model = settings["model"].pop("kind", "s7")
        if "train" not in config:  # interrupted before its settings were resolved
            settings = merge(settings, from_assignments(config.get("set", [])))
        elif "minutes" in config:  # the steps were measured
            settings["train"].pop("steps", None)
        names = ("task", "preset", "protocol", "seed", "test", "variant", "minutes", "init")
        return cls(model=model, settings=settings, **{name: config[name] for name in names if name in config})

    def difference(self, settings: Table) -> str | None:
        """The first of these settings that the job does not have, as `key=value`; None if it has them all."""
        mine, theirs = self._sections(), replace(self, settings=_over(self.settings, settings))._sections()
        for section in SECTIONS:
            for name, value in theirs[section].items():
                if mine[section].get(name) != value:
                    return to_assignments({section: {name: mine[section].get(name)}})[0]
        return None

    def _sections(self, config: ModelConfig | None = None) -> Table:
        """Every setting of the three sections. Of encoder and head, which follow from the data, only what was set.

        Args:
            config: The model's configuration; None: as far as it is known without the data.
        """
        asked = {name: value for name, value in self.tables["model"].items() if name in _FROM_DATA}
        config = config or self.base_config()
        tables = {"data": _table(self.data()), "model": _table(config), "train": _table(self.training())}
        for name in _FROM_DATA:
            del tables["model"][name]
        tables["model"] |= asked
        return tables

    def run(
        self,
        out: Path,
        data: DataFolder,
        *,
        resume: bool = False,
        minutes: float | None = None,
        callbacks: Sequence[Callback] = (),
        say: Callable[[str], None] = print,
    ) -> Trained:
        """Train in a folder, from the start or from the last checkpoint.

        Args:
            out: The run folder.
            data: The folders to search for the task's data.
            resume: Whether to continue the run in the folder, if there is one.
            minutes: Train for about this long; by default the job's `minutes`.
            callbacks: Callbacks, such as a progress bar.
            say: Called with messages for the user.
        """
        job = self if minutes is None else replace(self, minutes=minutes)
        missing = job.data().missing(data)
        if missing:
            raise FileNotFoundError(f"{job.task}: {missing}")
        folder = RunFolder(out)
        with folder.locked() if Group.current().is_first else nullcontext():
            problem = job.problem(data, say)
            job.check_data(problem)
            if job._gaps(problem) == "not used":
                say(f"{job.model} ignores time: the gaps between the events of {job.task} are not used")
            return job._run(problem).fit_in(folder, resume=resume, callbacks=callbacks, say=say)

    def _run(self, problem: Problem) -> Run:
        kind, changes = find_task(self.task), self.changes(problem)
        about = {
            "task": self.task,
            "title": kind.title,
            "model": self.model,
            "variant": self.variant,
            "preset": self.preset,
            "protocol": self.protocol,
            "protocol_note": kind.protocols[self.protocol],
            "set": changes,
            "init": self.init,
            "gaps": self._gaps(problem),
            "baselines": dict(problem.baselines) if self.test else {},
            "columns": list(problem.columns),
        }
        test = problem.test if self.test else None
        model = self.new_model(problem)
        prepared = prepare(model, problem.train, problem.valid, test, objective=problem.objective, seed=self.seed)
        return Run(
            *prepared,
            self.training(),
            self.seed,
            problem.augmentation,
            minutes=self.minutes,
            expectation=partial(expectation, self.task) if self._is_recorded(changes) else lambda epochs: None,
            about=about,
            settings=self.config(problem) | {"set": changes},
        )

    def _is_recorded(self, changes: list[str]) -> bool:
        """Whether recorded runs have these settings."""
        return (self.model, self.preset, self.protocol, changes, self.init) == ("s7", "ours", "strict", [], "")

    def _gaps(self, problem: Problem) -> str:
        """Whether the model uses the gaps between events: "used", "not used", or "none" if the data have no gaps."""
        if problem.train.dt is None:
            return "none"
        return "used" if self.model_config(problem).reads_gaps else "not used"


def _over(below: Table, above: Table) -> Table:
    """Merge tables; those above take precedence."""
    return merge(below, above | {"model": with_stages(above.get("model", {}), "model")})


def _changed(settings: Any, table: Any, where: str) -> Any:
    """An encoder or a head with changed settings, or of another class."""
    kind: type = {"encoder": Encoder, "head": Head}[where]
    merged = merge({where: table_of(settings)}, {where: table})[where]
    if kind is Encoder and isinstance(merged, dict):
        encoder: Any = Encoder.registry.find(merged["kind"])
        merged = encoder.completed(merged, settings)
    return convert(merged, kind, f"model.{where}")


def _table(settings: Any) -> Table:
    return {name: value for name, value in table_of(settings).items() if name != "kind"}
