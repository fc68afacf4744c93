"""A study: variants of a model, trained on one task with several seeds under one configuration."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from s7.data.folder import DataFolder
from s7.job import Job
from s7.run_folder import RunFolder
from s7.settings import Table, merge, to_assignments
from s7.storage import write_atomically
from s7.study.messages import TrialSpec
from s7.tasks import Problem

CONFIG = "study.json"


@dataclass(frozen=True)
class Variant:
    """A model that takes part in a study, or a modification of one.

    Attributes:
        model: The architecture, as `--model` names it.
        label: The name of the modification; empty for the model as it is.
        settings: The changed settings, in the sections data, model and train.
    """

    model: str = "s7"
    label: str = ""
    settings: Table = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.label or self.model


class Trial(NamedTuple):
    """One run of a study: a variant, a seed and a folder."""

    variant: Variant
    seed: int
    folder: RunFolder


@dataclass(frozen=True)
class StudyConfig:
    """The configuration that all trials of a study share.

    Attributes:
        settings: Settings over those of the preset, in the sections data, model and train.
        minutes: Training time of each trial; None for the epochs or steps of the settings.
        test: Whether to evaluate on the test data.
        search: The search that chose a setting of each variant, if there was one (see search.py).
    """

    task: str
    preset: str = "ours"
    protocol: str = "strict"
    minutes: float | None = None
    settings: Table = field(default_factory=dict)
    test: bool = True
    search: Table | None = None

    def __post_init__(self):
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"minutes={self.minutes:g}: must be positive")


@dataclass(frozen=True)
class Study:
    """Trials of all variants with the seeds 0, 1, …, `seeds` - 1, in folders below `out`."""

    config: StudyConfig
    variants: tuple[Variant, ...]
    seeds: int
    out: Path

    def __post_init__(self):
        if self.seeds < 1:
            raise ValueError(f"seeds={self.seeds}: must be at least 1")
        names = [variant.name for variant in self.variants]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name} is listed twice; list each model once")

    def job(self, variant: Variant, seed: int) -> Job:
        """The training job of a trial."""
        config = self.config
        return Job(
            config.task,
            variant.model,
            config.preset,
            config.protocol,
            seed,
            settings=merge(config.settings, variant.settings),
            test=config.test,
            variant=variant.label,
        )

    def spec(self, trial: Trial, data: Path | None) -> TrialSpec:
        """The specification for the process of a trial. `data` is the data folder, None for the default."""
        job = self.job(trial.variant, trial.seed)
        return TrialSpec(
            job.task,
            str(trial.folder.path),
            job.model,
            job.preset,
            job.protocol,
            job.seed,
            job.settings,
            self.config.minutes,
            job.test,
            job.variant,
            None if data is None else str(data),
        )

    def check(self) -> None:
        """Raise an error for invalid settings, before the first trial starts."""
        for variant in self.variants:
            self.job(variant, 0).check()

    def check_data(self, folder: DataFolder, say: Callable[[str], None]) -> None:
        """Raise an error if a model cannot be trained on the task's data, before the first trial starts."""
        problems: dict[str, Problem] = {}
        for variant in self.variants:
            job = self.job(variant, 0)
            if job.depends_on_data:
                settings = repr(job.tables["data"])
                if settings not in problems:
                    problems[settings] = job.problem(folder, say)
                job.check_data(problems[settings])

    def trials(self) -> Iterator[Trial]:
        """All trials, seed by seed, so that the variants of an interrupted study can be compared."""
        for seed in range(self.seeds):
            for variant in self.variants:
                name = "".join(c if c.isalnum() or c in "-.=" else "-" for c in variant.name)
                yield Trial(variant, seed, RunFolder(self.out / f"{name}-{seed}"))

    def open(self) -> None:
        """Create the folder, or check that its runs have the same configuration; variants and seeds may differ."""
        path = self.out / CONFIG
        mine = json.loads(json.dumps(asdict(self.config)))
        if not path.exists():
            write_atomically(path, json.dumps(mine, indent=1).encode())
            return
        theirs = _read(path)
        for name, value in mine.items():
            if theirs.get(name) != value:
                difference = f"{name} {_to_text(theirs.get(name))}, not {_to_text(value)}"
                raise ValueError(f"{self.out}: its runs have {difference}; choose another folder")


def _read(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError):
        config = None
    if not isinstance(config, dict):
        raise ValueError(f"{path}: not the configuration of a study; choose another folder")
    return config


def _to_text(value: Any) -> str:
    return " ".join(to_assignments(value)) or "of the preset" if isinstance(value, dict) else str(value)
