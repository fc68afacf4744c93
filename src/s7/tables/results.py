"""Results of runs: read from files, and put together where they differ in nothing but their seed."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from s7.settings import from_assignments
from s7.tables.printed import ALONE, BESIDE, WITHOUT

TRANSITION, STEPS = "model.transition", "train.steps"


@dataclass(frozen=True)
class Result:
    """What a finished run says of itself.

    `settings` are those that were changed against the preset, but for the variant's, and with `train.steps` by name
    only: a training of so many minutes has as many `steps` as that machine could make then. `data` is the digest of
    what was tested.
    """

    path: Path
    task: str
    model: str
    preset: str
    protocol: str
    variant: str
    settings: tuple[str, ...]
    parameters: int | None
    data: str
    seed: int
    steps: int
    version: tuple[int, ...]
    test: dict[str, float]

    @classmethod
    def of(cls, path: Path, table: Any) -> "Result | None":
        """None if the table is not the result of a run that was tested, on data that it did not learn."""
        if not isinstance(table, dict) or not isinstance(table.get("test"), dict):
            return None
        if not all(isinstance(table.get(name), str) for name in ("task", "model", "protocol")):
            return None
        digests = table.get("data_sha256") or {}
        if digests.get("train") and digests["train"] == digests.get("test"):
            return None
        assignments = sorted(table.get("set") or [])
        variant = table.get("variant") or variant_of(assignments)
        if variant not in (ALONE, BESIDE):
            assignments = [one for one in assignments if not one.startswith(TRANSITION)]
        steps = from_assignments(assignments).get("train", {}).get("steps", 0)
        settings = tuple(STEPS if one.startswith(f"{STEPS}=") else one for one in assignments)
        return cls(
            *(path, table["task"], table["model"], table.get("preset", "ours"), table["protocol"]),
            *(variant, settings, table.get("parameters"), digests.get("test", ""), table.get("seed", 0)),
            steps=steps,
            version=tuple(map(int, re.findall(r"\d+", (table.get("versions") or {}).get("s7", "")))),
            test=table["test"],
        )


def variant_of(assignments: Sequence[str]) -> str:
    """The variant of S7 that settings amount to, where it is one of the paper's ablations."""
    transition = from_assignments(assignments).get("model", {}).get("transition", {})
    if isinstance(transition, str):
        transition = {"kind": transition}
    if transition.get("kind") == "Plain":
        return WITHOUT
    a, b = transition.get("a", 1), transition.get("b", 0.5)
    return ALONE if (a, b) == (1, 0.5) else f"a={a:g} b={b:g}"


def read(folders: Iterable[Path]) -> list[Result]:
    """All results in these folders and below, whatever their files are called."""
    found = []
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder}: no such folder; results are looked for in folders of runs")
        for path in sorted(folder.rglob("*.json")):
            try:
                table = json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                if path.name == "result.json":
                    raise ValueError(f"{path}: not JSON ({error}); move it away, or run it again") from None
                continue
            result = Result.of(path, table)
            if result:
                found.append(result)
    return found


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seed."""

    runs: tuple[Result, ...]

    @property
    def first(self) -> Result:
        """Which speaks for all of them where they do not differ."""
        return self.runs[0]

    def values(self, metric: str) -> list[float]:
        """A metric of the test, of each run."""
        return [run.test[metric] for run in self.runs]

    @property
    def rank(self) -> tuple:
        """The lower, the better it stands for its model: on the task's own data, as the preset has it, often run."""
        sections = [assignment.partition(".")[0] for assignment in self.first.settings]
        changed = "data" in sections, "model" in sections
        newest = max(run.version for run in self.runs)
        return (*changed, -len(self.runs), len(sections), self.first.preset != "ours", tuple(-n for n in newest))


def groups(results: Iterable[Result]) -> list[Group]:
    """The results in groups. A seed that was run more than once, or kept as a copy, counts once: the newest."""
    found = []
    for _, same in groupby(sorted(results, key=_kind), key=_kind):
        alike: list[Result] = []
        for result in sorted(same, key=lambda result: result.steps):
            # Steps of one time differ with the machine's mood; twice as many are those of another time.
            if alike and result.steps > 2 * alike[-1].steps:
                found.append(_one_of_each_seed(alike))
                alike = []
            alike.append(result)
        found.append(_one_of_each_seed(alike))
    return found


def choose(results: Iterable[Result], fits: Callable[[Result], bool], variants: Sequence[str]) -> Group | None:
    """The group that stands best for a line of a table: of the first variant that there is."""
    fitting = [result for result in results if fits(result)]
    for variant in variants:
        found = groups(result for result in fitting if result.variant == variant)
        if found:
            return min(found, key=lambda group: group.rank)
    return None


def _kind(result: Result) -> tuple:
    # With the data and the size of the model, for a file or a preset may have changed between two runs.
    who = (result.task, result.model, result.preset, result.protocol, result.variant)
    return (*who, result.settings, result.parameters or 0, result.data)


def _one_of_each_seed(results: list[Result]) -> Group:
    newest = {result.seed: result for result in sorted(results, key=lambda result: result.version)}
    return Group(tuple(newest[seed] for seed in sorted(newest)))
