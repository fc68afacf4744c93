"""Sheets on a terminal, in a document, or for machines."""

import json
from collections.abc import Sequence
from textwrap import fill

from s7.tables.sheet import Sheet

WIDTH = 120
ABOUT = (
    "What the paper prints, and what came out here under two protocols: `paper`, which repeats how the printed numbers "
    "were made as far as that is known, and `strict`, which learns nothing from test data, not even the best epoch.",
    "Here a number is the mean ± standard deviation over runs (n - 1), in brackets their number and the model's "
    "parameters, with the preset `ours` unless a footnote says otherwise. The code released with the paper is not the "
    "layer that it prints: there Λ is static and complex, and Δ, B and C follow the input.",
)


def as_text(sheets: Sequence[Sheet]) -> str:
    """Columns that stand below each other."""
    parts = [fill(text, WIDTH) for text in ABOUT]
    for sheet in sheets:
        lines = [list(sheet.heads), *map(list, sheet.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        head, *rows = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
        notes = [fill(note, WIDTH, subsequent_indent="  ") for note in _marked(sheet.notes)]
        parts.append("\n".join([f"{sheet.title}  ({sheet.name})", "", head, "-" * (sum(widths) + 2 * len(widths) - 2)]))
        parts[-1] += "\n" + "\n".join([*rows, "", *notes])
    return "\n\n".join(parts) + "\n"


def as_markdown(sheets: Sequence[Sheet], command: str) -> str:
    """A page, which names the command that makes it."""
    parts = ["# The paper's tables", f"Made by `{command}`.", *(fill(text, WIDTH) for text in ABOUT)]
    for sheet in sheets:
        rows = [_cells(sheet.heads), "|" + "---|" * len(sheet.heads), *map(_cells, sheet.rows)]
        notes = [fill(note, WIDTH, subsequent_indent="  ") for note in _marked(sheet.notes)]
        parts += [f"## {sheet.title}", "\n".join(rows), "\n".join(notes)]
    return "\n\n".join(parts) + "\n"


def as_json(sheets: Sequence[Sheet]) -> str:
    """A line for each row."""
    return "".join(json.dumps(record) + "\n" for sheet in sheets for record in sheet.records)


def _cells(row: Sequence[str]) -> str:
    return f"| {' | '.join(row)} |"


def _marked(notes: Sequence[str]) -> list[str]:
    return [f"- {note}" for note in notes]
