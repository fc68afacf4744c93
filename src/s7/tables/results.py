"""Results of runs: read from folders and archives, and grouped where they differ only in their seed."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from s7.records import Result
from s7.settings import from_assignments
from s7.tables import archive
from s7.tables.printed import AS_SET, NO_REPARAMETERIZATION, UNNAMED

TRANSITION, STEPS = "model.transition", "train.steps"


@dataclass(frozen=True)
class TestedRun:
    """A run that was evaluated on test data. `source` is the file, and in an archive the name, of its result."""

    __test__ = False  # pytest: not a test

    source: str
    result: Result

    @cached_property
    def variant(self) -> str:
        """The name of the variant, also where the settings were changed by hand."""
        return self.result.variant or variant_of(self.result.set)

    @cached_property
    def settings(self) -> tuple[str, ...]:
        """The settings that differ from the preset, without those of the variant.

        `train.steps` is listed without its value, because the steps of a run with a time limit depend on the machine.
        """
        changes = sorted(self.result.set)
        if self.variant not in (UNNAMED, AS_SET):
            changes = [change for change in changes if not change.startswith(TRANSITION)]
        return tuple(STEPS if change.startswith(f"{STEPS}=") else change for change in changes)

    @cached_property
    def steps(self) -> int:
        """The number of steps, if it was set; else 0."""
        return from_assignments(self.result.set).get("train", {}).get("steps", 0)

    @property
    def preset(self) -> str:
        """The preset's name."""
        return self.result.preset or "ours"

    @property
    def version(self) -> tuple[int, ...]:
        """The version of s7 that made the run."""
        return tuple(map(int, re.findall(r"\d+", self.result.versions.get("s7", ""))))

    @property
    def kind(self) -> tuple:
        """The key that is equal for runs that differ only in their seed and number of steps."""
        result = self.result
        # Includes the data and the size of the model, because a file or a preset may change between two runs.
        size, data = result.parameters or 0, result.data_sha256.get("test", "")
        trained = bool(result.init)
        return result.task, result.model, self.preset, result.protocol, self.variant, self.settings, trained, size, data


def variant_of(changes: Sequence[str]) -> str:
    """The ablation of the paper that these changes of settings correspond to; "" if there is none."""
    transition = from_assignments(changes).get("model", {}).get("transition", {})
    if isinstance(transition, str):
        transition = {"kind": transition}
    if transition.get("kind") == "Plain":
        return NO_REPARAMETERIZATION
    a, b = transition.get("a", 1), transition.get("b", 0.5)
    return UNNAMED if (a, b) == (1, 0.5) else f"a={a:g} b={b:g}"


def read(folders: Iterable[Path]) -> list[TestedRun]:
    """Read all tested runs in these folders and below: JSON files of any name, and archives."""
    found = []
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder}: no such folder; expected a folder with runs")
        found += [TestedRun(source, result) for source, result in _results(folder) if _is_tested(result)]
    return found


def _results(folder: Path) -> Iterator[tuple[str, Result]]:
    for path in sorted(folder.rglob(f"*{archive.SUFFIX}")):
        for name, record in archive.read(path).items():
            if record.result is not None:
                # Results of older versions do not say what the run started from; its settings do.
                yield f"{path}:{name}", replace(record.result, init=record.result.init or record.config.get("init", ""))
    for path in sorted(folder.rglob("*.json")):
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            if _looks_like_a_result(table):
                yield str(path), Result.from_json(table)
        except ValueError as error:
            if path.name == "result.json":
                raise ValueError(f"{path}: not a result ({error}); move it away, or repeat the run") from None


def _looks_like_a_result(table: Any) -> bool:
    return isinstance(table, dict) and all(isinstance(table.get(name), str) for name in ("task", "model", "protocol"))


def _is_tested(result: Result) -> bool:
    """Whether a run was evaluated on data that it was not trained on."""
    digests = result.data_sha256
    return bool(result.test) and not (digests.get("train") and digests["train"] == digests.get("test"))


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed."""

    runs: tuple[TestedRun, ...]

    @property
    def first(self) -> TestedRun:
        """The first run, which represents the group."""
        return self.runs[0]

    def values(self, metric: str) -> list[float]:
        """A test metric of each run."""
        return [run.result.test[metric] for run in self.runs]

    @property
    def rank(self) -> tuple:
        """The sort key: groups that started from new parameters, with the task's own data, the preset's model and more
        runs come first."""
        sections = [change.partition(".")[0] for change in self.first.settings]
        changed = bool(self.first.result.init), "data" in sections, "model" in sections
        newest = max(run.version for run in self.runs)
        return (*changed, -len(self.runs), len(sections), self.first.preset != "ours", tuple(-n for n in newest))


def groups(runs: Iterable[TestedRun]) -> list[Group]:
    """Group runs that differ only in their seed. Of several runs with one seed, or copies, the newest counts."""
    found = []
    for _, same in groupby(sorted(runs, key=lambda run: run.kind), key=lambda run: run.kind):
        alike: list[TestedRun] = []
        for run in sorted(same, key=lambda run: run.steps):
            # The number of steps in a given time varies with the load; more than twice as many is another time limit.
            if alike and run.steps > 2 * alike[-1].steps:
                found.append(_one_per_seed(alike))
                alike = []
            alike.append(run)
        found.append(_one_per_seed(alike))
    return found


def choose(runs: Iterable[TestedRun], fits: Callable[[TestedRun], bool], variants: Sequence[str]) -> Group | None:
    """The group that best represents a row of a table, of the first variant that has one."""
    fitting = [run for run in runs if fits(run)]
    for variant in variants:
        found = groups(run for run in fitting if run.variant == variant)
        if found:
            return min(found, key=lambda group: group.rank)
    return None


def _one_per_seed(runs: list[TestedRun]) -> Group:
    newest = {run.result.seed: run for run in sorted(runs, key=lambda run: run.version)}
    return Group(tuple(newest[seed] for seed in sorted(newest)))
