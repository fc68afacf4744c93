"""What was measured, on disk: JSON lines, the first about the machine, then a row each."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from s7.bench.measures import BENCHMARKS, Row


class Record(NamedTuple):
    """One run of one benchmark."""

    name: str
    machine: Row
    rows: list[Row]


def to_lines(machine: Row, rows: Sequence[Row]) -> str:
    """The file's text."""
    return "".join(json.dumps(line) + "\n" for line in (machine, *rows))


def read(path: Path) -> Record:
    """A file that `s7 bench … --out` has written."""
    try:
        machine, *rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        name = rows[0]["benchmark"]
        known = "command" in machine and name in BENCHMARKS
    except (ValueError, LookupError, TypeError):
        known = False
    if not known:
        raise ValueError(f"{path}: not written by s7 bench; s7 bench layer --out {path} would make it")
    return Record(name, machine, rows)
