"""src/s7/presets/expected.json: what the recorded runs of a preset reached after some epochs."""

import json
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from benchmarks.entries import ENTRIES
from benchmarks.stored import ROOT, records
from s7.presets.expected import FILE
from s7.records import RunRecord

PATH = ROOT / "src" / "s7" / "presets" / FILE


def expected() -> dict[str, Any]:
    """The metric and the points (epochs, value) of each task with recorded runs of its preset as it is."""
    found = {}
    for entry in ENTRIES:
        if entry.settings or entry.folds or entry.protocol != "strict" or entry.task != entry.name:
            continue
        stored = [records().get(f"{entry.name}-{run.label}") for run in entry.runs]
        runs = [record for record in stored if record is not None and record.result]
        if runs:
            found[entry.task] = {"metric": entry.metric, "points": points(runs, entry.metric)}
    return found


def points(runs: Sequence[RunRecord], metric: str) -> list[tuple[float, float]]:
    """The mean over runs of the value that is kept, at each epoch that all of them have, and at their end.

    Points between equal values are omitted.
    """
    curves = [_kept(record, metric) for record in runs]
    shared = sorted(set.intersection(*(set(curve) for curve in curves)))
    found = [(epoch, round(sum(curve[epoch] for curve in curves) / len(curves), 6)) for epoch in shared]
    inner = [
        point
        for left, point, right in zip(found, found[1:], found[2:], strict=False)
        if len({left[1], point[1], right[1]}) > 1
    ]
    return [*found[:1], *inner, *found[1:][-1:]]


def _kept(record: RunRecord, metric: str) -> dict[int, float]:
    """The value of the model that a run would have returned after each epoch: the best or the last one so far."""
    assert record.result is not None
    assert record.result.epochs is not None
    values: Iterable[float] = [epoch.valid[metric] for epoch in record.history]
    if record.section("train").get("keep") != "last":
        values = accumulate(values, min if record.result.better == "min" else max)
    curve = dict(zip((epoch.epoch for epoch in record.history), values, strict=True))
    return curve | {record.result.epochs: record.result.valid[metric]}


def write() -> None:
    """Write the file."""
    lines = [f"  {json.dumps(task)}: {json.dumps(known)}" for task, known in sorted(expected().items())]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
