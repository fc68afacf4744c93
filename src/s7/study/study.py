"""Who takes part, on what, for how long; and where each run is kept."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from s7.job import Job
from s7.run_folder import RunFolder
from s7.settings import Table, from_assignments, merge, to_assignments
from s7.storage import write_atomically

PLAN = "plan.json"


@dataclass(frozen=True)
class Variant:
    """One that takes part: a model, or one with other settings, which has a name of its own."""

    model: str = "s7"
    variant: str = ""
    settings: Table = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As it stands in tables."""
        return self.variant or self.model


class Trial(NamedTuple):
    """One run: who, with which seed, in which folder."""

    variant: Variant
    seed: int
    folder: RunFolder


@dataclass(frozen=True)
class StudyConfig:
    """What is the same for all. `minutes` of training each, or as long as the settings say."""

    task: str
    preset: str = "ours"
    protocol: str = "strict"
    minutes: float | None = None
    set: tuple[str, ...] = ()
    test: bool = True


@dataclass(frozen=True)
class Study:
    """Runs of all variants with seeds 0, 1, …, kept in folders below `out`."""

    rules: StudyConfig
    variants: tuple[Variant, ...]
    seeds: int
    out: Path

    def __post_init__(self):
        if self.seeds < 1:
            raise ValueError(f"seeds={self.seeds}: must be at least 1")
        if self.rules.minutes is not None and not self.rules.minutes > 0:
            raise ValueError(f"minutes={self.rules.minutes:g}: must be positive")
        names = [variant.name for variant in self.variants]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name} is listed twice; list each model once")

    def job(self, variant: Variant, seed: int) -> Job:
        """What a run is to do."""
        rules = self.rules
        settings = merge(from_assignments(rules.set), variant.settings)
        who = (rules.task, variant.model, rules.preset, rules.protocol, seed)
        return Job(*who, settings=settings, test=rules.test, variant=variant.variant)

    def check(self) -> None:
        """Raises an error for anything that cannot be, before the first run starts."""
        for variant in self.variants:
            self.job(variant, 0).check()

    def trials(self) -> Iterator[Trial]:
        """All runs, seed after seed, so that whatever is done can be compared."""
        for seed in range(self.seeds):
            for variant in self.variants:
                folder = "".join(c if c.isalnum() or c in "-.=" else "-" for c in variant.name)
                yield Trial(variant, seed, RunFolder(self.out / f"{folder}-{seed}"))

    def open(self) -> None:
        """Makes the folder, or goes on in it if its runs were made under the same rules; variants may be others."""
        plan = self.out / PLAN
        mine = json.loads(json.dumps(asdict(self.rules)))
        if plan.exists():
            theirs = _read(plan)
            for name, value in mine.items():
                if theirs.get(name) != value:
                    was = f"{name} {_shown(theirs.get(name))}, not {_shown(value)}"
                    raise ValueError(f"{self.out}: its runs were made with {was}; choose another folder")
        else:
            write_atomically(plan, json.dumps(mine, indent=1).encode())

    def command(self, trial: Trial, data: Path | None) -> list[str]:
        """The arguments of `s7` that make a run, or go on with it."""
        rules = self.rules
        words = ["train", rules.task, "--model", trial.variant.model, "--preset", rules.preset]
        words += ["--protocol", rules.protocol, "--seed", str(trial.seed), "--out", str(trial.folder.path)]
        words += ["--json", "--resume"]
        if trial.variant.variant:
            words += ["--variant", trial.variant.variant]
        if rules.minutes is not None:
            words += ["--minutes", f"{rules.minutes:g}"]
        if not rules.test:
            words.append("--no-test")
        if data is not None:
            words += ["--data", str(data)]
        settings = to_assignments(self.job(trial.variant, trial.seed).settings)
        return words + (["--set", *settings] if settings else [])


def _read(plan: Path) -> dict[str, Any]:
    try:
        rules = json.loads(plan.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError):
        rules = None
    if not isinstance(rules, dict):
        raise ValueError(f"{plan}: not a plan of s7 compare; choose another folder")
    return rules


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) or "nothing set" if isinstance(value, list) else str(value)
