"""Samples from a pandas frame with one row per event. Only methods of the frame are used: pandas is not imported."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from s7.data.gaps import gaps
from s7.data.samples import Samples
from s7.settings import unknown


def samples_from_frame(
    frame: Any,
    group: str,
    target: list[str],
    time: str | None,
    features: Sequence[str] | None,
    unit: str,
    per_step: bool | None,
    name: str,
) -> Samples:
    """Builds samples; `Samples.from_frame` describes the arguments."""
    columns = list(frame.columns)
    named = [group, *target, *([] if time is None else [time])]
    if features is None:
        features = [column for column in columns if column not in named]
    for column in [*named, *features]:
        if column not in columns:
            raise ValueError(f"{name}: the frame has {unknown('column', str(column), list(map(str, columns)))}")
    if not len(features):
        raise ValueError(f"{name}: the frame has no columns left for features; name them with features=[...]")
    if not len(frame):
        raise ValueError(f"{name}: the frame is empty")
    rows, sizes = _grouped(frame[group].to_numpy(), group, name)
    times = None if time is None else frame[time].to_numpy()
    if times is not None:
        rows = _sorted(rows, sizes, times, time, name)
    ends = np.cumsum(sizes)[:-1]
    inputs = np.split(_numbers(frame, features, name)[rows], ends)
    answers = frame[target[0]].to_numpy() if len(target) == 1 else frame[target].to_numpy()
    answers = np.split(answers[rows], ends)
    constant = [bool((answer == answer[:1]).all()) for answer in answers]
    if per_step is None:
        per_step = not all(constant)
    elif not per_step and not all(constant):
        n = constant.index(False)
        raise ValueError(f"{name}: {', '.join(target)} varies within sequence {n}; use per_step=True")
    dt = None if times is None else gaps(np.split(times[rows], ends), unit)
    labels = answers if per_step else [answer[0] for answer in answers]
    return Samples.of(inputs, labels, dt, per_step=per_step, name=name)


def _grouped(
    groups: Shaped[np.ndarray, " E"], column: str, name: str
) -> tuple[Int[np.ndarray, " E"], Int[np.ndarray, " N"]]:
    """The rows of each sequence one after another, and how many there are; sequences in order of appearance."""
    numbers: dict[Any, int] = {}
    sequence = np.empty(len(groups), int)
    for row, key in enumerate(groups.tolist()):
        if key is None or key != key:
            raise ValueError(f"{name}: row {row} has no value in column {column}")
        sequence[row] = numbers.setdefault(key, len(numbers))
    return np.argsort(sequence, kind="stable"), np.bincount(sequence)


def _sorted(
    rows: Int[np.ndarray, " E"], sizes: Int[np.ndarray, " N"], times: Shaped[np.ndarray, " E"], column: Any, name: str
) -> Int[np.ndarray, " E"]:
    """The rows of each sequence in the order of time; rows of one time keep their order."""
    missing = [row for row, time in enumerate(times) if time is None or time != time]
    if missing:
        raise ValueError(f"{name}: row {missing[0]} has no value in column {column}")
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    return np.concatenate([part[np.argsort(times[part], kind="stable")] for part in parts])


def _numbers(frame: Any, features: Sequence[str], name: str) -> Shaped[np.ndarray, "E I"]:
    for column in features:
        kind = getattr(frame[column].dtype, "kind", "O")
        if kind not in "iufb":
            raise TypeError(
                f"{name}: column {column} holds {frame[column].dtype}, expected numbers; name the columns to read with "
                "features=[...]"
            )
    return frame[list(features)].to_numpy()
