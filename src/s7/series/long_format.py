"""Long-format frames, one row per step, as one frame per series. Only methods of the frame are used."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from s7.series.table import is_number
from s7.settings import unknown


def from_frame(
    frame: Any,
    *,
    group: str,
    time: str | None = None,
    target: str | None = None,
    features: Sequence[str] | None = None,
) -> tuple[list[Any], Any]:
    """Divide a long-format pandas frame into series.

    Args:
        frame: One row per step. Rows of one series need not be adjacent.
        group: The column that identifies the series. Series keep the order in which they first appear.
        time: The column with the times: numbers or datetimes. Steps are sorted by it. None: the order of the rows.
        target: The column with the targets, if there is one.
        features: The columns to read; by default all others.

    Returns:
        A list of frames, indexed by time, which every estimator takes and which can be split into folds. And the
        targets: an array with one entry per series or, if the target varies within a series, a list of arrays with one
        entry per step. None without `target`.

    Raises:
        ValueError: A column is missing (the message lists those that there are), or a group or a time is, or a value is
            not a number.

    Examples:
        >>> import pandas as pd
        >>> from s7.series.long_format import from_frame
        >>> frame = pd.DataFrame({"id": [1, 1, 2], "t": [0.0, 1.0, 0.0], "v": [5.0, 6.0, 7.0], "y": ["a", "a", "b"]})
        >>> series, y = from_frame(frame, group="id", time="t", target="y")
        >>> len(series), y.tolist()
        (2, ['a', 'b'])
    """
    columns = list(frame.columns)
    named = [name for name in (group, time, target) if name is not None]
    if features is None:
        features = [column for column in columns if column not in named]
    for column in [*named, *features]:
        if column not in columns:
            raise ValueError(f"{unknown('column', str(column), list(map(str, columns)))}{_listing(columns, column)}")
    if not len(features):
        raise ValueError("there are no columns left to read; name them with features=[...]")
    for column in named:
        missing = frame[column].isna().to_numpy()
        if missing.any():
            raise ValueError(f"row {int(np.argmax(missing))} has no value in column {column}")
    if not len(frame):
        raise ValueError("the frame is empty")
    for column in features:
        _check_numbers(frame[column], column)
    parts, targets = [], []
    for _, part in frame.groupby(group, sort=False):
        if time is not None:
            part = part.sort_values(time, kind="stable")
        targets.append(None if target is None else part[target].to_numpy())
        read = part[list(features)]
        parts.append(read.set_axis(part[time].to_numpy()) if time is not None else read.reset_index(drop=True))
    return parts, None if target is None else _targets(targets)


def _check_numbers(values: Any, column: Any) -> None:
    if values.to_numpy().dtype.kind in "iufb":
        return
    for row, (value, missing) in enumerate(zip(values.tolist(), values.isna().tolist(), strict=True)):
        if not missing and not is_number(value):
            raise ValueError(f"row {row} has {value!r} in column {column}, expected a number; leave the column out")


def _targets(targets: list[Any]) -> Any:
    if all((part == part[0]).all() for part in targets):
        return np.array([part[0] for part in targets])
    return targets


def _listing(columns: Sequence[Any], column: Any) -> str:
    """All columns, unless the message for an unknown name lists them already."""
    names = ", ".join(map(str, columns))
    return "" if names in unknown("column", str(column), list(map(str, columns))) else f" (columns: {names})"
