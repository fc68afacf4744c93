"""The stored results of docs/results: one archive with the records of all runs, and a summary of each study."""

from functools import cache
from pathlib import Path

from s7.records import Epoch, RunRecord
from s7.tables import archive

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
FIGURES = ROOT / "docs" / "figures"
ARCHIVE = RESULTS / "runs.jsonl.xz"
# Enough for a figure; small models train for thousands of epochs.
CURVE_POINTS = 100


@cache
def records() -> dict[str, RunRecord]:
    """The records of all runs by name."""
    return archive.read(ARCHIVE)


def store(runs: dict[str, Path], *, curves: bool = False) -> None:
    """Add the records of finished runs to the archive, by name; their epochs, or some of them, if `curves` is set."""
    added = {name: RunRecord.read(folder) for name, folder in runs.items()}
    kept = {name: _spread(record.history) if curves else () for name, record in added.items()}
    archive.add(ARCHIVE, {name: RunRecord(record.config, kept[name], record.result) for name, record in added.items()})
    records.cache_clear()


def _spread(history: tuple[Epoch, ...]) -> tuple[Epoch, ...]:
    """At most `CURVE_POINTS` epochs, evenly spread, with the first and the last."""
    if len(history) <= CURVE_POINTS:
        return history
    return tuple(history[n * (len(history) - 1) // (CURVE_POINTS - 1)] for n in range(CURVE_POINTS))
