"""Files of measurements: JSON lines, first the machine, then one line per row."""

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
    """Return the text of a file."""
    return "".join(json.dumps(line) + "\n" for line in (machine, *rows))


def read(path: Path) -> Record:
    """Read a file that `s7 bench … --out` wrote."""
    try:
        machine, *rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        name = rows[0]["benchmark"]
        known = "command" in machine and name in BENCHMARKS and all("implementation" in row for row in rows)
    except (ValueError, LookupError, TypeError):
        known = False
    if not known:
        raise ValueError(f"{path}: not written by this version of s7 bench; write it with s7 bench layer --out {path}")
    return Record(name, machine, rows)
