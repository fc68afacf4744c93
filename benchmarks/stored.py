"""The stored results of docs/results: one archive with the records of all runs, and a summary of each study."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from s7.records import Epoch, RunRecord
from s7.tables import archive

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
FIGURES = ROOT / "docs" / "figures"
ARCHIVE = RESULTS / "runs.jsonl.xz"
History = tuple[Epoch, ...]
# Enough for a figure; small models train for thousands of epochs.
CURVE_POINTS = 40


@cache
def records() -> dict[str, RunRecord]:
    """The records of all runs by name."""
    return archive.read(ARCHIVE)


def store(runs: dict[str, Path], epochs: Callable[[History], History] = tuple) -> None:
    """Add the records of finished runs to the archive, by name. `epochs` chooses those to keep; by default all."""
    found = {name: RunRecord.read(folder) for name, folder in runs.items()}
    kept = {name: RunRecord(run.config, epochs(run.history), run.result) for name, run in found.items()}
    archive.add(ARCHIVE, kept)
    records.cache_clear()


def spread(history: History) -> History:
    """Up to `CURVE_POINTS` epochs, and the last: of each part of the training the last one that was the best so far."""
    size = max(1, -(-len(history) // CURVE_POINTS))
    parts = [history[start : start + size] for start in range(0, len(history), size)]
    chosen = [next((epoch for epoch in reversed(part) if epoch.best), part[-1]) for part in parts]
    chosen += [] if chosen[-1:] == list(history[-1:]) else [history[-1]]
    return tuple(_rounded(epoch) for epoch in chosen)


def _rounded(epoch: Epoch) -> Epoch:
    """An epoch with five digits of each number; more would double the size of the archive."""
    values = {name: _digits(value) for name, value in epoch.to_json().items()}
    return Epoch.from_json(values)


def _digits(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _digits(one) for name, one in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value
