"""Predict the target of a table of series with a model that `s7 fit` made."""

import argparse
import csv
import io
import json
import sys
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="run folder that `s7 fit` wrote")
    parser.add_argument("table", type=Path, metavar="FILE", help="table with the columns that the model reads")
    parser.add_argument("--out", type=Path, metavar="CSV", help="file for the answers (default: print them)")


def run(options: argparse.Namespace) -> None:
    """Write the answers."""
    from s7.estimation.table_model import NAME

    path = options.run_folder / NAME
    if not path.is_file():
        raise FileNotFoundError(f"{options.run_folder}: no fitted table (it has no {NAME}); make one with `s7 fit`")

    from s7.files import load
    from s7.machine import keep_compiled_code, keep_freed_memory
    from s7.storage import write_atomically

    keep_freed_memory()
    keep_compiled_code()
    header, rows = _answers(load(path), options.table)
    if options.json:
        for row in rows:
            print(json.dumps(dict(zip(header, map(_plain, row), strict=True))))
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    count = 0
    for row in rows:
        writer.writerow(row)
        count += 1
    if options.out is None:
        sys.stdout.write(text.getvalue())
        return
    write_atomically(options.out, text.getvalue().encode())
    print(f"{count:,} answers in {options.out}")


def _answers(model: Any, table: Path) -> Any:
    from s7.estimation.columns import Grouped, read_archive
    from s7.series.table import read_table

    if table.suffix != ".npz":
        return model.answers(read_table(table))
    series, _, _ = read_archive(table, model.columns.target or "", model.columns.time)
    header, rows = model.answers_for(series, Grouped([""] * len(series), []))
    return ["series", *header], ([n, *row] for n, row in enumerate(rows))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
