"""Many run records in one compressed file, such as docs/results/runs.jsonl.xz: a JSON object per line and run."""

import json
import lzma
from collections.abc import Mapping
from pathlib import Path

from s7.records import Epoch, Result, RunRecord
from s7.storage import write_atomically

SUFFIX = ".jsonl.xz"


def read(path: Path) -> dict[str, RunRecord]:
    """Read an archive: the records by their names. An archive that does not exist is empty."""
    if not path.is_file():
        return {}
    records = {}
    try:
        for line in lzma.decompress(path.read_bytes()).decode().splitlines():
            entry = json.loads(line)
            history = tuple(Epoch.from_json(epoch) for epoch in entry["history"])
            records[str(entry["name"])] = RunRecord(entry["config"], history, Result.from_json(entry["result"]))
    except (lzma.LZMAError, ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{path}: not an archive of run records ({error})") from None
    return records


def write(path: Path, records: Mapping[str, RunRecord]) -> None:
    """Write an archive of finished runs, whole or not at all. The same records make the same bytes."""
    lines = []
    for name, record in sorted(records.items()):
        if record.result is None:
            raise ValueError(f"{name}: the run is not finished")
        history = [epoch.to_json() for epoch in record.history]
        entry = {"name": name, "config": record.config, "history": history, "result": record.result.to_json()}
        lines.append(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n")
    write_atomically(path, lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))


def add(path: Path, records: Mapping[str, RunRecord]) -> None:
    """Add records to an archive, or replace those of the same name."""
    write(path, read(path) | dict(records))
