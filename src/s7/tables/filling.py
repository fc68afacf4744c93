"""The paper's tables with a column of results of this library for each protocol."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from s7.publishing.text import count, mean_std, number
from s7.settings import unknown
from s7.tables import hyperparameters
from s7.tables.printed import TABLES, Line, Table, value
from s7.tables.results import STEPS, Group, TestedRun, choose
from s7.tables.sheet import Sheet

PROTOCOLS = ("paper", "strict")
NOT_RUN, NO_DATA = "not run", "not run: no data"
AVERAGE = "average"
TRAINED = "started from a model that was trained before"
BY_STEPS = f"trained for a given time or number of steps ({STEPS}) instead of the preset's epochs"

HasData = Callable[[str], bool]


def names() -> list[str]:
    """The names of all tables."""
    return [*(table.name for table in TABLES), hyperparameters.NAME]


def sheets(wanted: Sequence[str], runs: Sequence[TestedRun], has_data: HasData) -> list[Sheet]:
    """Fill in the tables of these names or with these tasks; all of them if none is given.

    Args:
        wanted: names of tables or tasks.
        runs: the runs to take results from.
        has_data: says whether the data of a task are installed.
    """
    chosen = set(names()) if not wanted else {name for word in wanted for name in _meant(word)}
    filled = [_filled(table, runs, has_data) for table in TABLES if table.name in chosen]
    return filled + ([hyperparameters.sheet()] if hyperparameters.NAME in chosen else [])


def _meant(word: str) -> list[str]:
    if word in names():
        return [word]
    found = [table.name for table in TABLES if word in table.tasks]
    if not found:
        tasks = dict.fromkeys(task for table in TABLES for task in table.tasks)
        raise ValueError(unknown("table", word, dict.fromkeys([*names(), *tasks])))
    return found + ([hyperparameters.NAME] if word in hyperparameters.PRINTED else [])


def _filled(table: Table, runs: Sequence[TestedRun], has_data: HasData) -> Sheet:
    filling = _Filling(table, [run for run in runs if table.metric in run.result.test], has_data)
    several = len(table.tasks) > 1
    rows, records = [], []
    for task, line, printed in _printed(table):
        here = [filling.cell(line, task, protocol) for protocol in PROTOCOLS]
        labels = [task, line.name] if several else [line.name]
        counted = f" (= {line.counted} as measured here)" if line.counted else ""
        rows.append([*labels, printed + counted, *(text for text, _ in here)])
        about: dict[str, Any] = {"table": table.name, "task": task, "name": line.name, "model": line.model}
        about |= {"metric": table.metric, "scale": table.unit.scale, "printed": printed, "value": value(printed)}
        about |= {"counted": float(line.counted)} if line.counted else {}
        records.append(about | {protocol: record for protocol, (_, record) in zip(PROTOCOLS, here, strict=True)})
    unit = f", {table.unit.name}" if table.unit.name else ""
    heads = [
        *(["task"] if several else []),
        table.varied,
        "published",
        *(f"measured ({name} protocol)" for name in PROTOCOLS),
    ]
    footnotes = tuple(f"[{number}] {text}." for text, number in filling.footnotes.items())
    return Sheet(table.name, table.title + unit, heads, rows, (*footnotes, *table.notes), records)


def _printed(table: Table) -> Iterable[tuple[str, Line, str]]:
    """(task, row, published value), task by task, and the averages last."""
    for place, task in enumerate(table.tasks):
        yield from ((task, line, line.printed[place]) for line in table.lines if line.printed[place])
    yield from ((AVERAGE, line, line.average) for line in table.lines if line.average)


@dataclass
class _Filling:
    """Find the runs of each cell, and number the footnotes."""

    table: Table
    runs: list[TestedRun]
    has_data: HasData
    footnotes: dict[str, int] = field(default_factory=dict)

    def cell(self, line: Line, task: str, protocol: str) -> tuple[str, dict[str, Any]]:
        """A cell as text and as JSON."""
        if task == AVERAGE:
            return self._average(line, protocol)
        group = self._group(line, task, protocol)
        if group is None:
            why = NOT_RUN if self.has_data(task) else NO_DATA
            return why, {"missing": why}
        values = self._values(group)
        first, parameters = group.first, group.first.result.parameters
        about = count(len(values), "run")
        about += f", {_short(parameters)}" if parameters else ""
        record: dict[str, Any] = {"mean": statistics.mean(values), "std": _deviation(values)}
        record |= {"seeds": [run.result.seed for run in group.runs], "parameters": parameters, "preset": first.preset}
        record |= {"variant": first.variant, "set": list(first.settings), "init": first.result.init}
        record |= {"files": [run.source for run in group.runs]}
        return f"{mean_std(values)} ({about}){self._footnote(first)}", record

    def _group(self, line: Line, task: str, protocol: str) -> Group | None:
        wanted = (task, line.model, protocol)

        def fits(run: TestedRun) -> bool:
            return (run.result.task, run.result.model, run.result.protocol) == wanted

        return choose(self.runs, fits, line.variants)

    def _values(self, group: Group) -> list[float]:
        return [self.table.unit.scale * q for q in group.values(self.table.metric)]

    def _average(self, line: Line, protocol: str) -> tuple[str, dict[str, Any]]:
        found = [self._group(line, task, protocol) for task in self.table.tasks]
        whole = [statistics.mean(self._values(group)) for group in found if group is not None]
        if len(whole) < len(found):
            return NOT_RUN, {"missing": NOT_RUN}
        return number(statistics.mean(whole)), {"mean": statistics.mean(whole)}

    def _footnote(self, first: TestedRun) -> str:
        """The footnote mark of a run that differs from the preset `ours` or did not start from new parameters."""
        start = [TRAINED] if first.result.init else []
        preset = [] if first.preset == "ours" else [f"preset {first.preset}"]
        text = ", ".join([*start, *preset, *(BY_STEPS if setting == STEPS else setting for setting in first.settings)])
        if not text:
            return ""
        return f" [{self.footnotes.setdefault(text, len(self.footnotes) + 1)}]"


def _deviation(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def _short(parameters: int) -> str:
    """A number of parameters as the paper writes it: 2.3k, 176k, 4.1M."""
    if parameters < 1000:
        return str(parameters)
    if parameters < 999_500:
        return f"{parameters / 1000:.{1 if parameters < 9950 else 0}f}k"
    return f"{parameters / 1e6:.1f}M"
