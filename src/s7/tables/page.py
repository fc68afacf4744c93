"""Sheets for the terminal, as a Markdown page, and as JSON."""

import json
from collections.abc import Sequence
from textwrap import fill

from s7.publishing import text
from s7.publishing.markdown import WIDTH, Document
from s7.tables.sheet import Sheet

ABOUT = (
    "The published numbers, and results of this library under two protocols. `paper` repeats how the published numbers "
    "were obtained, as far as that is known; `strict` takes nothing from the test data, not even the best epoch.",
    "Measured numbers are mean ± standard deviation over runs (n − 1), followed by the number of runs and of "
    "parameters. They use the preset `ours` unless a footnote says otherwise. The code released with the paper differs "
    "from the printed layer: its Λ is static and complex, and Δ, B and C depend on the input.",
)


def as_text(sheets: Sequence[Sheet]) -> str:
    """Aligned columns."""
    parts = [fill(paragraph, WIDTH) for paragraph in ABOUT]
    for sheet in sheets:
        head, *rows = text.table(sheet.heads, sheet.rows, align="<").splitlines()
        notes = [fill(f"- {note}", WIDTH, subsequent_indent="  ") for note in sheet.notes]
        rule = "-" * max(map(len, (head, *rows)))
        parts.append("\n".join([f"{sheet.title}  ({sheet.name})", "", head, rule, *rows, "", *notes]))
    return "\n\n".join(parts) + "\n"


def as_markdown(sheets: Sequence[Sheet], command: str) -> str:
    """A page that names the command that generates it."""
    document = Document("The paper's tables")
    document.made_by(command)
    for paragraph in ABOUT:
        document.paragraph(paragraph)
    for sheet in sheets:
        document.heading(sheet.title)
        document.table(sheet.heads, sheet.rows)
        if sheet.notes:
            document.list(sheet.notes)
    return document.text()


def as_json(sheets: Sequence[Sheet]) -> str:
    """A line for each row."""
    return "".join(json.dumps(record) + "\n" for sheet in sheets for record in sheet.records)
