"""How the columns of a table are understood: series, their times, and what is to be predicted."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Int

from s7.data.gaps import gaps
from s7.estimation.fitting import Target
from s7.series.collection import Collection, as_collection
from s7.series.table import Table, is_number

Kind = Literal["classes", "numbers", "forecast"]
# Whole numbers are classes if there are at most this many different ones.
MOST_CLASSES = 20
# One long series with a target per step is cut into parts of this many steps.
PART = 256


@dataclass(frozen=True)
class Columns:
    """The roles of the columns.

    Attributes:
        features: The columns that the model reads.
        group: The column that identifies the series; None if all rows are one series.
        time: The column with the times; None if the steps are regular.
        target: The column to predict; None for a forecast.
        kind: "classes", "numbers" or "forecast".
        per_step: Whether there is one target per row.
        ignored: Columns that hold text, which the model does not read.
    """

    features: tuple[str, ...]
    group: str | None = None
    time: str | None = None
    target: str | None = None
    kind: Kind = "classes"
    per_step: bool = False
    ignored: tuple[str, ...] = ()


class Grouped(NamedTuple):
    """Series from a table: their names, and the rows of each in the order of the file."""

    names: list[Any]
    rows: list[Int[np.ndarray, " L"]]


def interpret(
    table: Table,
    *,
    target: str | None,
    group: str | None = None,
    time: str | None = None,
    features: Sequence[str] | None = None,
    kind: Kind | None = None,
) -> Columns:
    """Decide what each column is.

    Args:
        table: The table.
        target: The column to predict; None for a forecast.
        group, time: Their columns.
        features: The columns to read; by default all others that hold numbers.
        kind: What the target is; by default text and few different whole numbers are classes.

    Raises:
        ValueError: A column is missing (the message lists the available ones), a column is named twice, or there is
            none to read.
    """
    named = [name for name in (group, time, target) if name is not None]
    for name in [*named, *(features or ())]:
        table.column(name)
    for name in named:
        if [*named, *(features or ())].count(name) > 1:
            raise ValueError(f"{table.path}: column {name!r} has two roles")
    others = [name for name in table.columns if name not in named]
    ignored = () if features is not None else tuple(name for name in others if table.is_text(name))
    chosen = tuple(features) if features is not None else tuple(name for name in others if name not in ignored)
    if not chosen:
        raise ValueError(
            f"{table.path}: no columns of numbers are left to read; the columns are {', '.join(table.columns)}"
        )
    if target is None:
        return Columns(chosen, group, time, None, "forecast", True, ignored)
    found = kind or _kind_of(table, target)
    varies = any(len(set(map(str, table.columns[target][rows].tolist()))) > 1 for rows in grouped(table, group).rows)
    return Columns(chosen, group, time, target, found, varies or group is None, ignored)


def _kind_of(table: Table, target: str) -> Kind:
    table.require(target)
    column = table.columns[target]
    if column.dtype.kind == "b":
        return "classes"
    if column.dtype.kind not in "iuf":
        are_numbers = np.array([is_number(value) for value in column.tolist()])
        if are_numbers.any() and not are_numbers.all():
            least = are_numbers if 2 * are_numbers.sum() < len(are_numbers) else ~are_numbers
            row = int(np.argmax(least))
            other = int(np.argmin(least))
            raise ValueError(
                f"{table.at(row)}: {target} is {column[row]!r}, but {column[other]!r} in line {table.lines[other]}; "
                "targets are all numbers or all text"
            )
        if not are_numbers.any():
            return "classes"
    numbers = table.numbers(target)
    different = np.unique(numbers)
    is_few = len(different) <= min(MOST_CLASSES, max(2, len(numbers) // 4))
    return "classes" if is_few and (different == np.round(different)).all() else "numbers"


def grouped(table: Table, group: str | None) -> Grouped:
    """The rows of each series, in order of appearance; all rows if there is no group."""
    if group is None:
        return Grouped([""], [np.arange(len(table))])
    table.require(group)
    rows: dict[Any, list[int]] = {}
    for row, name in enumerate(table.column(group).tolist()):
        rows.setdefault(name, []).append(row)
    return Grouped(list(rows), [np.array(part) for part in rows.values()])


def series_of(table: Table, columns: Columns) -> tuple[Collection, Grouped]:
    """The series of a table.

    Raises:
        ValueError: A value is not a number, or a time is earlier than the one before it. The message names the line.
    """
    for name in columns.features:
        table.column(name)
    values = np.stack([table.numbers(name) for name in columns.features], 1)
    parts = grouped(table, columns.group)
    between = None
    if columns.time is not None:
        times = table.times(columns.time)
        between = [_gaps(table, columns.time, times, rows) for rows in parts.rows]
    _check_known(table, columns, values)
    series = as_collection([values[rows] for rows in parts.rows], dt=between, name=str(table.path))
    return Collection(series.values, series.gaps, columns.features), parts


def _check_known(table: Table, columns: Columns, values: Any) -> None:
    for name, column in zip(columns.features, values.T, strict=True):
        if np.isnan(column).all():
            raise ValueError(f"{table.path}: column {name!r} has no values; leave it out")


def _gaps(table: Table, name: str, times: Any, rows: Int[np.ndarray, " L"]) -> Any:
    when = times[rows]
    late = when[1:] < when[:-1]
    if late.any():
        n = int(np.argmax(late))
        raise ValueError(
            f"{table.at(int(rows[n + 1]))}: {name} is {when[n + 1]}, earlier than {when[n]} in line "
            f"{table.lines[rows[n]]} of the same series; sort the rows by time"
        )
    return gaps(when)


def target_of(table: Table, columns: Columns, parts: Grouped) -> Target:
    """The targets of the series.

    Raises:
        ValueError: A target is missing, or a class has only one series. The message names the line or the class.
    """
    assert columns.target is not None
    table.require(columns.target)
    raw = table.columns[columns.target]
    if columns.kind == "numbers":
        numbers = table.numbers(columns.target)
        if columns.per_step:
            return Target([numbers[rows] for rows in parts.rows], per_step=True)
        return Target(np.array([numbers[rows[0]] for rows in parts.rows]))
    labels = np.array([str(value).strip() for value in raw.tolist()])
    found, codes = np.unique(labels, return_inverse=True)
    classes = found.tolist()
    if len(classes) < 2:
        raise ValueError(f"{table.path}: {columns.target} is {classes[0]!r} throughout; expected at least two classes")
    if columns.per_step:
        return Target([codes[rows] for rows in parts.rows], tuple(classes), per_step=True)
    firsts = np.array([rows[0] for rows in parts.rows])
    return Target.of_classes(codes[firsts], tuple(classes), lambda n: table.at(int(firsts[n])))


def in_parts(series: Collection, target: Target) -> tuple[Collection, Target]:
    """One long series with a target per step, cut into parts; several series are left as they are."""
    if len(series) > 1 or not target.per_step:
        return series, target
    cuts = np.arange(PART, len(series.values[0]), PART)
    values = np.split(series.values[0], cuts)
    between = None if series.gaps is None else np.split(series.gaps[0], cuts)
    return Collection(values, between, series.channels), Target(np.split(target.values[0], cuts), target.classes, True)


def read_archive(path: Path, target: str, time: str | None) -> tuple[Collection, Any, str]:
    """Series and targets from a NumPy archive (.npz).

    Args:
        path: The archive. The series are the array `x`, or the only other one of two or three dimensions:
            (samples, steps) or (samples, steps, channels).
        target: The array of targets.
        time: The array of times, (samples, steps), if there is one.

    Returns:
        The series, the targets (None if there is no such array), and the name of the array of series.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = dict(archive)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: not a NumPy archive of numbers and text ({error})") from None
    names = ", ".join(arrays)
    if time is not None and time not in arrays:
        raise ValueError(f"{path}: no array {time!r}; the arrays are {names}")
    others = [name for name, q in arrays.items() if name not in (target, time) and q.ndim in (2, 3)]
    name = "x" if "x" in others else others[0] if len(others) == 1 else None
    if name is None:
        raise ValueError(f"{path}: which array holds the series? call it x; the arrays are {names}")
    series = as_collection(arrays[name], times=None if time is None else arrays[time], name=f"{path}: {name}")
    return series, arrays.get(target), name
