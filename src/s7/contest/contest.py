"""Who takes part, on what, for how long; and where each run is kept."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from s7.files import write_atomically
from s7.job import Job
from s7.settings import Table, from_assignments, merge, to_assignments
from s7.training.folder import RunFolder

PLAN = "plan.json"


@dataclass(frozen=True)
class Entrant:
    """One that takes part: a model, or one with other settings, which has a name of its own."""

    model: str = "s7"
    variant: str = ""
    settings: Table = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As it stands in tables."""
        return self.variant or self.model


class Heat(NamedTuple):
    """One run: who, with which seed, in which folder."""

    entrant: Entrant
    seed: int
    folder: RunFolder


@dataclass(frozen=True)
class Rules:
    """What is the same for all. `minutes` of training each, or as long as the settings say."""

    task: str
    preset: str = "ours"
    protocol: str = "strict"
    minutes: float | None = None
    set: tuple[str, ...] = ()
    test: bool = True


@dataclass(frozen=True)
class Contest:
    """Runs of all entrants with seeds 0, 1, …, kept in folders below `out`."""

    rules: Rules
    entrants: tuple[Entrant, ...]
    seeds: int
    out: Path

    def __post_init__(self):
        if self.seeds < 1:
            raise ValueError(f"--seeds {self.seeds}: there must be at least one")
        if self.rules.minutes is not None and not self.rules.minutes > 0:
            raise ValueError(f"--minutes {self.rules.minutes:g}: must be more than none")
        names = [entrant.name for entrant in self.entrants]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name} takes part twice; name each model once")

    def job(self, entrant: Entrant, seed: int) -> Job:
        """What a run is to do."""
        rules = self.rules
        settings = merge(from_assignments(rules.set), entrant.settings)
        who = (rules.task, entrant.model, rules.preset, rules.protocol, seed)
        return Job(*who, settings=settings, test=rules.test, variant=entrant.variant)

    def check(self) -> None:
        """Raises an error for anything that cannot be, before the first run starts."""
        for entrant in self.entrants:
            self.job(entrant, 0).check()

    def heats(self) -> Iterator[Heat]:
        """All runs, seed after seed, so that whatever is done can be compared."""
        for seed in range(self.seeds):
            for entrant in self.entrants:
                folder = "".join(c if c.isalnum() or c in "-.=" else "-" for c in entrant.name)
                yield Heat(entrant, seed, RunFolder(self.out / f"{folder}-{seed}"))

    def open(self) -> None:
        """Makes the folder, or goes on in it if its runs were made under the same rules; entrants may be others."""
        plan = self.out / PLAN
        mine = json.loads(json.dumps(asdict(self.rules)))
        if plan.exists():
            theirs = _read(plan)
            for name, value in mine.items():
                if theirs.get(name) != value:
                    was = f"{name} {_shown(theirs.get(name))}, not {_shown(value)}"
                    raise ValueError(f"{self.out}: its runs were made with {was}; choose another folder (--out)")
        else:
            write_atomically(plan, json.dumps(mine, indent=1).encode())

    def command(self, heat: Heat, data: Path | None) -> list[str]:
        """The arguments of `s7` that make a run, or go on with it."""
        rules = self.rules
        words = ["train", rules.task, "--model", heat.entrant.model, "--preset", rules.preset]
        words += ["--protocol", rules.protocol, "--seed", str(heat.seed), "--out", str(heat.folder.path)]
        words += ["--json", "--resume"]
        if heat.entrant.variant:
            words += ["--variant", heat.entrant.variant]
        if rules.minutes is not None:
            words += ["--minutes", f"{rules.minutes:g}"]
        if not rules.test:
            words.append("--no-test")
        if data is not None:
            words += ["--data", str(data)]
        settings = to_assignments(self.job(heat.entrant, heat.seed).settings)
        return words + (["--set", *settings] if settings else [])


def _read(plan: Path) -> dict[str, Any]:
    try:
        rules = json.loads(plan.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError):
        rules = None
    if not isinstance(rules, dict):
        raise ValueError(f"{plan}: not a plan of s7 compare; choose another folder (--out)")
    return rules


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) or "nothing set" if isinstance(value, list) else str(value)
