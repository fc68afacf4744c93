"""Rows as lines of a table on a terminal."""

from collections.abc import Sequence

from s7.bench.measures import BENCHMARKS, Row
from s7.publishing.text import number

# Column widths. Wider values shift the rest of their line to the right.
WIDTHS = {
    "task": 15,
    "block": 22,
    "preset": 6,
    "implementation": 20,
    "mode": 14,
    "L": 9,
    "numbers": 7,
    "format": 12,
    "events": 10,
}
NUMBER = 8


class Table:
    """The table of one benchmark, without the columns of the fields in `omit`."""

    def __init__(self, name: str, *, omit: Sequence[str] = ()):
        benchmark = BENCHMARKS[name]
        self._case = benchmark.case
        self._measures = [measure for measure in benchmark.measures if measure.field not in omit]

    def head(self) -> str:
        """Return the line of column titles."""
        cells = [_text(column.title, column.title) for column in self._case] + [
            _text("implementation", "implementation")
        ]
        for measure in self._measures:
            cells.append(f"{measure.head:>{NUMBER}}")
            if measure.ratio:
                cells.append(f"{'ratio':>{NUMBER}}")
        return "  ".join(cells).rstrip()

    def line(self, row: Row) -> str:
        """Return the line of a row."""
        cells = [_text(column.title, column.text(row)) for column in self._case] + [
            _text("implementation", row["implementation"])
        ]
        if row.get("skipped"):
            return "  ".join([*cells, row["skipped"]])
        note = [row["note"]] if row.get("note") else []
        for measure in self._measures:
            cells.append(f"{number(row.get(measure.field), 3):>{NUMBER}}")
            if measure.ratio:
                cells.append(f"{number(row[measure.ratio], 3):>{NUMBER}}")
        return "  ".join([*cells, *note]).rstrip()


def _text(title: str, text: str) -> str:
    return f"{text:<{WIDTHS.get(title, 8 if title == 'D' else 5)}}"
