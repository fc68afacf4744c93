"""Time gaps between events: computed from times, and distinguished from times."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

SECONDS = {
    **{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0},
    **{"min": 60.0, "h": 3600.0, "D": 86_400.0},
}
# Gaps in random order look like times with at most this probability.
CHANCE = 1e-4


def gaps(times: Any, unit: str = "s") -> Any:
    """Compute the time gap before each event. The first gap of a sequence is 0.

    Args:
        times: The times of the events of one sequence (L,), of sequences of one length (N, L), or a list of N
            sequences of any lengths. Times are numbers, datetimes or timedeltas: NumPy arrays, pandas Series and
            indexes, or lists.
        unit: The unit of the gaps between datetimes or timedeltas: ns, us, ms, s, min, h or D. Gaps between numbers
            are in the unit of the numbers.

    Returns:
        Gaps of type float64, in an array of the shape of `times`, or in a list of N arrays.

    Raises:
        ValueError: A time is missing, or earlier than the one before it. The message names its position.

    Examples:
        >>> import numpy as np, s7
        >>> s7.gaps(np.array(["2024-05-01T12:00:00", "2024-05-01T12:00:01.5"], "datetime64[ms]"))
        array([0. , 1.5])
    """
    if unit not in SECONDS:
        raise ValueError(f"unit={unit!r} is not one of {', '.join(SECONDS)}")
    if _is_ragged(times):
        named = ((sequence, f"sequence {n}, ") for n, sequence in enumerate(times))
        return [_gaps(_times(sequence, where), unit, where) for sequence, where in named]
    array = _times(times, "")
    if array.ndim == 2:
        return np.stack([_gaps(row, unit, f"sequence {n}, ") for n, row in enumerate(array)])
    if array.ndim != 1:
        raise ValueError(f"times have shape {array.shape}, expected (L,), (N, L) or a list of sequences")
    return _gaps(array, unit, "")


def require_gaps(gaps: Shaped[np.ndarray, " E"], offsets: Int[np.ndarray, " M"], name: str) -> None:
    """Raises an error if an array of gaps holds datetimes, timedeltas or absolute times.

    Args:
        gaps: The values of all sequences, one sequence after another.
        offsets: Where each sequence starts, and the number of events.
        name: The data set, for the error message.
    """
    if gaps.dtype.kind in "mM" or (gaps.dtype == object and _is_moment(gaps[0])):
        raise TypeError(f"{name}: dt holds datetimes or timedeltas, expected numbers; use dt=s7.gaps(times, unit='s')")
    if gaps.dtype.kind not in "iufb":
        raise TypeError(f"{name}: dt holds {gaps.dtype}, expected numbers")
    if _look_like_times(gaps, offsets):
        raise ValueError(
            f"{name}: dt increases throughout every sequence (sequence 0 starts with {_first(gaps, offsets)}), so it "
            "holds times, not the gaps between events; use dt=s7.gaps(times)"
        )


def _first(gaps: Shaped[np.ndarray, " E"], offsets: Int[np.ndarray, " M"]) -> str:
    return ", ".join(f"{value:.10g}" for value in gaps[: min(3, offsets[1])].tolist())


def _look_like_times(gaps: Shaped[np.ndarray, " E"], offsets: Int[np.ndarray, " M"]) -> bool:
    """Whether the values never decrease within a sequence, more often than by chance, and by small amounts.

    In random order, a sequence with r increases is sorted with a probability of at most 1 / (r + 1)!. The first value
    of each sequence is not counted: as a gap it is often 0. Gaps that grow in proportion to themselves, such as those
    of a logarithmic schedule, at least double from event to event; times do so only at the start.
    """
    values = gaps.astype(np.float64)
    inside = np.ones(len(values), bool)
    inside[offsets[:-1]] = False
    inside[offsets[:-1][np.diff(offsets) > 1] + 1] = False
    steps = np.diff(values, prepend=0)
    if not inside.any() or not (steps[inside] >= 0).all():
        return False
    rises = inside & (steps > 0)
    ends = np.concatenate([[0], np.cumsum(rises)])[offsets]
    evidence = sum(math.lgamma(count + 2) for count in np.diff(ends).tolist())
    return evidence > -math.log(CHANCE) and float(np.median(values[rises] / steps[rises])) > 2


def _is_ragged(times: Any) -> bool:
    """Whether this is a list of sequences, rather than one sequence or an array of sequences."""
    if isinstance(times, np.ndarray):
        return times.dtype == object and len(times) > 0 and np.ndim(times[0]) > 0
    if hasattr(times, "to_numpy"):
        return False
    if not isinstance(times, Iterable) or isinstance(times, str):
        raise TypeError(f"times must be an array or a list, not {type(times).__name__}")
    return len(times) > 0 and np.ndim(times[0]) > 0  # type: ignore[arg-type, index]


def _times(times: Any, where: str) -> Shaped[np.ndarray, "..."]:
    """The times as an array of numbers, datetimes or timedeltas."""
    array = np.asarray(times)
    if array.dtype == object and array.size and _is_moment(array.flat[0]):
        # Differences of objects of the standard library and of pandas do not depend on time zones.
        missing = [n for n, time in enumerate(array.flat) if not _is_moment(time) or time != time]
        if missing:
            raise ValueError(f"times: {where}event {missing[0]} is missing")
        return np.array([time - array.flat[0] for time in array.flat], "timedelta64[ns]").reshape(array.shape)
    if array.dtype.kind not in "iufmM":
        hint = "; convert strings with np.array(times, 'datetime64[ns]')" if array.dtype.kind in "UTO" else ""
        raise TypeError(f"times: {where}dtype {array.dtype}: expected numbers, datetimes or timedeltas{hint}")
    if array.dtype.kind == "M" and np.datetime_data(array.dtype)[0] in "YM":
        return array.astype("datetime64[D]")  # years and months differ in length
    return array


def _is_moment(value: Any) -> bool:
    """Whether this is a datetime or a timedelta of the standard library or of pandas."""
    return hasattr(value, "total_seconds") or hasattr(value, "timestamp")


def _gaps(times: Shaped[np.ndarray, " L"], unit: str, where: str) -> Float[np.ndarray, " L"]:
    if times.ndim != 1:
        raise ValueError(f"times: {where}have shape {times.shape}, expected (L,)")
    missing = np.isnat(times) if times.dtype.kind in "mM" else ~np.isfinite(times)
    if missing.any():
        raise ValueError(f"times: {where}event {int(np.argmax(missing))} is missing ({times[np.argmax(missing)]})")
    if times.dtype.kind in "mM":
        # Whole numbers of the array's own unit: nothing is rounded before the differences.
        tick = np.ones((), times.dtype.str.replace("M8", "m8")) / np.timedelta64(1, "ns")
        scale = float(tick) * SECONDS["ns"] / SECONDS[unit]
        differences = np.diff(times.astype(np.int64)) * scale
    elif times.dtype.kind in "iu":
        differences = np.diff(times.astype(np.int64)).astype(np.float64)
    else:
        differences = np.diff(times.astype(np.float64))
    if (differences < 0).any():
        n = int(np.argmax(differences < 0)) + 1
        raise ValueError(
            f"times: {where}event {n} ({times[n]}) is earlier than event {n - 1} ({times[n - 1]}); "
            "sort the events by time"
        )
    return np.concatenate([np.zeros(min(1, len(times))), differences])
