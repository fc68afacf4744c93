"""Standardization of inputs and targets by a mean and a scale, one for all features or one for each.

They are settings, not parameters. A saved model thus reads raw measurements and predicts raw values.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Integer, Shaped

_AT_A_TIME = 65_536


def check_units(settings: Any, size: int) -> None:
    """Raise an error unless `mean` and `scale` are one or `size` finite numbers, and `scale` is positive."""
    for name in ("mean", "scale"):
        value = getattr(settings, name)
        if isinstance(value, tuple) and len(value) != size:
            raise ValueError(f"{type(settings).__name__}: {name} has {len(value)} entries, expected one or {size}")
        if not np.isfinite(value).all():
            raise ValueError(f"{type(settings).__name__}: {name}={value} must be finite")
    check_scale(settings)


def check_scale(settings: Any) -> None:
    """Raise an error unless `scale` is positive."""
    if not (np.isfinite(settings.scale).all() and np.all(np.asarray(settings.scale) > 0)):
        raise ValueError(f"{type(settings).__name__}: scale={settings.scale} must be positive")


def mean_gap(dt: Float[np.ndarray, " E"], offsets: Integer[np.ndarray, " M"]) -> float:
    """The mean time between events, the natural unit of time of a data set.

    Args:
        dt: The gaps before all events of concatenated sequences.
        offsets: The start of each sequence, followed by the end of the last. The gap before the first event of a
            sequence is not used.

    Returns:
        The mean, or 1 if there are no gaps or all of them are 0.
    """
    starts = offsets[:-1]
    count = len(dt) - len(starts)
    total = dt.sum(dtype=np.float64) - dt[starts].sum(dtype=np.float64)
    return float(total / count) if count > 0 and total > 0 else 1.0


def events_of(inputs: Any) -> Shaped[np.ndarray, "E I"]:
    """All events of some sequences, one row each.

    Args:
        inputs: An array (N, L, features), a list of N arrays (L_n, features), a pandas frame with one numeric column
            per feature and one row per event, a list of frames, or `s7.Samples`.
    """
    if hasattr(inputs, "offsets"):  # Samples, which are concatenated already
        return inputs.inputs
    if hasattr(inputs, "select_dtypes"):
        return _of_frame(inputs)
    if isinstance(inputs, list | tuple):
        parts = [_of_frame(part) if hasattr(part, "select_dtypes") else np.asarray(part) for part in inputs]
        for n, part in enumerate(parts):
            if part.ndim != 2 or part.shape[1] != parts[0].shape[1]:
                expected = parts[0].shape[1] if parts[0].ndim == 2 else "features"
                hint = "; for one number per event use x[:, None]" if part.ndim == 1 else ""
                raise ValueError(f"sequence {n} has shape {part.shape}, expected (length, {expected}){hint}")
        if not parts:
            raise ValueError("there are no sequences")
        return np.concatenate(parts)
    array = np.asarray(inputs)
    if array.ndim != 3:
        hint = "; for one number per event use x[..., None], for a single sequence x[None]" if array.ndim == 2 else ""
        raise ValueError(f"inputs have shape {array.shape}, expected (sequences, length, features){hint}")
    return array.reshape(-1, array.shape[2])


def _of_frame(frame: Any) -> np.ndarray:
    numeric = frame.select_dtypes(["number", "bool"])
    for column in frame.columns:
        if column not in numeric.columns:
            raise ValueError(f"column {column!r} holds {frame[column].dtype}, expected numbers; leave it out")
    return numeric.to_numpy(np.float64)


def units_of(values: Shaped[np.ndarray, "*N I"]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and the standard deviation of each feature; 1 instead of the standard deviation if it is constant."""
    rows = values.reshape(-1, values.shape[-1])
    if not len(rows):
        raise ValueError("there are no events to take a mean of")
    if rows.dtype.kind not in "iufb":
        raise TypeError(f"inputs hold {rows.dtype}, expected numbers")
    mean = rows.mean(0, dtype=np.float64)
    if not np.isfinite(mean).all():
        event, feature = np.argwhere(~np.isfinite(rows))[0].tolist()
        raise ValueError(
            f"feature {feature} of event {event}, counted over all sequences, is {rows[event, feature]}; missing "
            "values are not supported: impute them or drop the event"
        )
    # Subtracting the mean first avoids cancellation; working in parts avoids a copy of all values.
    parts = (rows[start : start + _AT_A_TIME] - mean for start in range(0, len(rows), _AT_A_TIME))
    spread = np.sqrt(sum((part**2).sum(0) for part in parts) / len(rows))
    return tuple(mean.tolist()), tuple(np.where(spread > 0, spread, 1).tolist())
