"""The stored results of docs/results: one archive with the records of all runs, and a summary of each study."""

from functools import cache
from pathlib import Path

from s7.records import RunRecord
from s7.tables import archive

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
FIGURES = ROOT / "docs" / "figures"
ARCHIVE = RESULTS / "runs.jsonl.xz"


@cache
def records() -> dict[str, RunRecord]:
    """The records of all runs by name."""
    return archive.read(ARCHIVE)


def store(runs: dict[str, Path], *, curves: bool = False) -> None:
    """Add the records of finished runs to the archive, by name; the epochs only if `curves` is set."""
    added = {name: RunRecord.read(folder) for name, folder in runs.items()}
    if not curves:
        added = {name: RunRecord(record.config, (), record.result) for name, record in added.items()}
    archive.add(ARCHIVE, added)
    records.cache_clear()
