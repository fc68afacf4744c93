"""s7 tables: the tables of the paper, beside what came out here.

Reads the results of runs: the result.json of each run's folder, and copies of them under any other name.
"""

import argparse
from functools import cache
from pathlib import Path

PLACES = (Path("docs/results"), Path("runs"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="only these, such as lra, or those with a task")
    parser.add_argument(
        "--runs",
        action="extend",
        nargs="+",
        type=Path,
        metavar="DIR",
        help="where results are looked for, also below (default: docs/results and runs, if they are there)",
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="where data are (else $S7_DATA, else ~/.cache/s7)")
    parser.add_argument("--markdown", action="store_true", help="write a page for documents")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write to a file")


def run(options: argparse.Namespace) -> None:
    """Prints or writes the tables."""
    from s7.data.folder import DataFolder
    from s7.storage import write_atomically
    from s7.tables import as_json, as_markdown, as_text, read, sheets
    from s7.tasks import TASKS

    if options.markdown and options.json:
        raise ValueError("--markdown, --json: give one of them")
    folder = DataFolder(options.data)

    @cache
    def has_data(task: str) -> bool:
        return TASKS[task]().missing(folder) is None

    results = read(options.runs or [place for place in PLACES if place.is_dir()])
    filled = sheets(options.tables, results, has_data)
    if options.json:
        written = as_json(filled)
    else:
        written = as_markdown(filled, options.line) if options.markdown else as_text(filled)
    if options.out is None:
        print(written, end="")
    elif options.out.is_dir():
        raise ValueError(f"{options.out}: a folder; give the name of a file, such as {options.out / 'tables.md'}")
    else:
        write_atomically(options.out, written.encode())
