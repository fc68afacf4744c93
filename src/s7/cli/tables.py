"""Print the paper's tables next to the results of local runs.

Results are read from the result.json files of run folders, and from copies of such files under any name.
"""

import argparse
from functools import cache
from pathlib import Path

from s7.cli.options import add_data

RESULT_FOLDERS = (Path("docs/results"), Path("runs"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "tables", nargs="*", metavar="TABLE", help="tables to print, by name (such as lra) or by task (default: all)"
    )
    parser.add_argument(
        "--runs",
        action="extend",
        nargs="+",
        type=Path,
        metavar="DIR",
        help="folders to search for results, recursively (default: docs/results and runs, if they exist)",
    )
    add_data(parser)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown page")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write to this file instead of the terminal")


def run(options: argparse.Namespace) -> None:
    """Print or write the tables."""
    from s7.data.folder import DataFolder
    from s7.storage import write_atomically
    from s7.tables import as_json, as_markdown, as_text, read, sheets
    from s7.tasks import TASKS

    if options.markdown and options.json:
        raise ValueError("--markdown and --json cannot be combined")
    if options.out is not None and options.out.is_dir():
        raise ValueError(f"--out {options.out}: is a folder; give a file, such as {options.out / 'tables.md'}")
    folder = DataFolder(options.data)

    @cache
    def has_data(task: str) -> bool:
        return TASKS[task]().missing(folder) is None

    results = read(options.runs or [path for path in RESULT_FOLDERS if path.is_dir()])
    filled = sheets(options.tables, results, has_data)
    if options.json:
        text = as_json(filled)
    else:
        text = as_markdown(filled, options.line) if options.markdown else as_text(filled)
    if options.out is None:
        print(text, end="")
    else:
        write_atomically(options.out, text.encode())
