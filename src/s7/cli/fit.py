"""Fit a model to a table of series, without any settings.

The table has one row per step. A target that is the same in all rows of a series is predicted for the series, one that
varies is predicted for each row. Text and few different whole numbers are classes, other numbers are predicted as they
are. With --horizon, the next values are predicted instead. An empty cell is a missing value.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from s7.cli.options import count, duration, names, seed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("table", type=Path, metavar="FILE", help="table: .csv, .parquet or .npz (arrays x and y)")
    parser.add_argument("--target", metavar="COLUMN", help="column to predict (in .npz: array, default y)")
    parser.add_argument("--group", metavar="COLUMN", help="column that identifies the series")
    parser.add_argument("--time", metavar="COLUMN", help="column with the times (in .npz: array)")
    parser.add_argument(
        "--features", type=names, metavar="COLUMNS", help="columns to read, separated by commas (default: all others)"
    )
    parser.add_argument("--horizon", type=count, metavar="N", help="forecast the next N rows of each series")
    parser.add_argument(
        "--kind", choices=("classes", "numbers"), help="what the target is (default: decide by its values)"
    )
    parser.add_argument("--minutes", type=duration, metavar="M", help="fit for about M minutes")
    parser.add_argument(
        "--members",
        type=count,
        metavar="N",
        help="number of trained models (default: 1; with 500 series, --minutes or a target per row 5)",
    )
    parser.add_argument("--seed", type=seed, default=0, help="random seed (default: 0)")
    parser.add_argument("--out", type=Path, metavar="RUN", help="run folder (default: runs/NAME of the table)")


def run(options: argparse.Namespace) -> int:
    """Fit and write the run folder."""
    from s7.run_folder import RunFolder

    if options.horizon is None and options.target is None and options.table.suffix != ".npz":
        raise ValueError("what is to be predicted? give --target COLUMN, or --horizon N to forecast")
    if options.horizon is not None and options.target is not None:
        raise ValueError("--horizon and --target: omit one of them; a forecast predicts all columns that it reads")
    folder = RunFolder(options.out or Path("runs") / options.table.stem)
    if folder.is_begun:
        raise ValueError(f"{folder.path}: holds a run; choose another folder (--out)")

    from s7.estimation.columns import in_parts, interpret, read_archive, series_of, target_of
    from s7.series.table import read_table

    say = (lambda text: None) if options.json else _print
    target: Any = None
    if options.table.suffix == ".npz":
        series, columns, target = _from_archive(options, read_archive)
    else:
        table = read_table(options.table)
        roles = {"target": options.target, "group": options.group, "time": options.time}
        columns = interpret(table, **roles, features=options.features, kind=options.kind)
        for line in _interpretation(columns, len(table), options.horizon):
            say(line)
        series, parts = series_of(table, columns)
        target = None if columns.kind == "forecast" else target_of(table, columns, parts)
    for line in _summary(series, target):
        say(line)
    if target is not None:
        series, target = in_parts(series, target)
    return _fit(options, folder, columns, series, target, say)


def _fit(options: argparse.Namespace, folder: Any, columns: Any, series: Any, target: Any, say: Any) -> int:
    import sys
    import time

    from s7.estimation.defaults import members_for
    from s7.estimation.fitting import Request, fit_ensemble
    from s7.estimation.forecasting import fit_forecaster
    from s7.estimation.table_model import NAME, TableModel
    from s7.files import save
    from s7.machine import keep_compiled_code, keep_freed_memory
    from s7.training import Interrupted

    keep_freed_memory()
    keep_compiled_code()
    about = {"title": f"{options.table.name}: {columns.target or 'forecast'}", "columns": _columns(columns, options)}
    members = options.members
    if members is None:
        # At least one, whose training the run folder reports.
        members = members_for(len(series), per_step=columns.per_step, minutes=options.minutes)
        members = 1 if target is None else max(1, members)
    request = Request(
        members=members,
        minutes=options.minutes,
        seed=options.seed,
        out=folder.path,
        about=about,
        say=say,
        progress=not options.json,
    )
    began = time.perf_counter()
    try:
        fitted: Any = (
            fit_forecaster(series, options.horizon, request)
            if target is None
            else fit_ensemble(series, target, request)
        )
    except Interrupted:
        print(f"s7 fit: stopped; nothing was fitted. Remove {folder.path} to start again", file=sys.stderr)
        return 130
    save(TableModel(fitted, columns), folder.path / NAME)
    valid = folder.result().valid
    if options.json:
        print(json.dumps({"run": str(folder.path), "valid": valid, "seconds": round(time.perf_counter() - began, 1)}))
    else:
        say(f"done in {time.perf_counter() - began:.0f} s; to predict: s7 predict {folder.path} FILE --out answers.csv")
        say(f"report: s7 report {folder.path}")
    return 0


def _print(text: str) -> None:
    print(text, flush=True)


def _columns(columns: Any, options: argparse.Namespace) -> list[str]:
    """Names of the numbers of a target, for reports."""
    if columns.kind == "forecast":
        return [f"{name} +{step + 1}" for step in range(options.horizon) for name in columns.features]
    return [columns.target] if columns.kind == "numbers" else []


def _from_archive(options: argparse.Namespace, read_archive: Any) -> Any:
    import numpy as np

    from s7.estimation.columns import Columns
    from s7.estimation.fitting import Target

    name = options.target or "y"
    series, values, where = read_archive(options.table, name, options.time)
    print(f"{options.table}: series in {where}, {len(series)}; targets in {name}") if not options.json else None
    if options.horizon is not None:
        return series, Columns(series.channels, None, None, None, "forecast", True), None
    if values is None:
        raise ValueError(f"{options.table}: no array {name!r} of targets; name it with --target")
    if len(values) != len(series):
        raise ValueError(f"{options.table}: {len(series)} series but {len(values)} targets")
    are_classes = values.dtype.kind in "iubU" if options.kind is None else options.kind == "classes"
    columns = Columns(series.channels, None, options.time, name, "classes" if are_classes else "numbers")
    if not are_classes:
        return series, columns, Target(values.astype(float))
    classes, codes = np.unique(values, return_inverse=True)
    labels = tuple(map(str, classes.tolist()))
    return series, columns, Target.of_classes(codes, labels, lambda n: f"{options.table}: series {n}")


def _interpretation(columns: Any, rows: int, horizon: int | None) -> list[str]:
    lines = [f"{rows:,} rows"]
    lines.append(f"  series     {columns.group or 'all rows are one series'}")
    lines.append(f"  time       {columns.time or 'regular steps, in the order of the rows'}")
    lines.append(f"  read       {', '.join(columns.features)}")
    if columns.ignored:
        lines.append(f"  ignored    {', '.join(columns.ignored)} (text)")
    if columns.kind == "forecast":
        lines.append(f"  predict    the next {horizon} rows")
    else:
        kind = "a class" if columns.kind == "classes" else "a number"
        lines.append(f"  predict    {columns.target}, {kind} for each {'row' if columns.per_step else 'series'}")
    return lines


def _summary(series: Any, target: Any) -> list[str]:
    import numpy as np

    lengths = series.lengths
    steps = f"{lengths.min():,}" if lengths.min() == lengths.max() else f"{lengths.min():,} to {lengths.max():,}"
    missing = float(np.mean([np.isnan(part).mean() for part in series.values]))
    line = f"{len(series):,} series of {steps} steps, {len(series.channels)} channels"
    lines = [line + (f", {missing:.1%} of the values missing" if missing else "")]
    if target is not None and target.classes:
        flat = np.concatenate(target.values) if target.per_step else target.values
        counts = np.bincount(flat, minlength=len(target.classes))
        shown = [f"{label} ({n:,})" for label, n in zip(target.classes, counts, strict=True)]
        lines.append("classes: " + ", ".join(shown[:12]) + (", …" if len(shown) > 12 else ""))
    return lines
