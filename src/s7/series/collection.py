"""A collection of series, read from arrays, ragged lists, data frames and the containers of aeon and sktime."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from s7.data.gaps import gaps
from s7.data.samples import Samples

Layout = Literal["steps_first", "channels_first"]
LAYOUTS = ("steps_first", "channels_first")


@dataclass(frozen=True, eq=False)
class Collection:
    """Series of any lengths with the same channels. NaN means missing.

    Attributes:
        values: One array (steps, channels) per series, of float64.
        gaps: The time before each step of each series, or None if the steps are regular.
        channels: The names of the channels.
    """

    values: list[Float[np.ndarray, "L C"]]
    gaps: list[Float[np.ndarray, " L"]] | None
    channels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def lengths(self) -> Int[np.ndarray, " N"]:
        """The number of steps of each series."""
        return np.array([len(series) for series in self.values])

    def take(self, chosen: Any) -> "Collection":
        """The series with these indices, in this order."""
        chosen = np.asarray(chosen, int).tolist()
        kept = None if self.gaps is None else [self.gaps[n] for n in chosen]
        return Collection([self.values[n] for n in chosen], kept, self.channels)


def as_collection(
    x: Any, *, times: Any = None, dt: Any = None, layout: Layout = "steps_first", name: str = "x"
) -> Collection:
    """Read series from any of the containers that people keep them in.

    Args:
        x: An array (samples, steps, channels), or (samples, steps) for one channel; a list of arrays (steps, channels)
            or (steps,) of different lengths; a list of pandas frames or Series, whose index holds the times unless it
            counts the rows; a frame with a two-level index (sample, time) or with a series in each cell, as sktime and
            aeon use them; or `s7.Samples`.
        times: The times of the steps of each series: (samples, steps) or a list of arrays; numbers or datetimes.
        dt: The gaps before the steps, in place of times.
        layout: "channels_first" if arrays are (samples, channels, steps) and arrays in a list are (channels, steps),
            as in aeon and sktime.
        name: What the series are called in error messages.

    Raises:
        ValueError: Shapes do not agree, or there are no series. The message names the series.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout={layout!r} is not one of {', '.join(map(repr, LAYOUTS))}")
    if times is not None and dt is not None:
        raise ValueError(f"{name}: times and dt are both given; omit one of them")
    if isinstance(x, Collection):
        return x
    if isinstance(x, Samples):
        return _of_samples(x, name)
    channels, indexes = None, None
    if _is_frame(x):
        x = _split_frame(x, name)
    if is_list_of_frames(x):
        channels, indexes = _names(x), [_times_of(part) for part in x]
        arrays = [_as_rows(part.to_numpy(), name, n) for n, part in enumerate(x)]
    elif isinstance(x, np.ndarray) and x.dtype != object:
        arrays = list(_as_steps_first(x, layout, name))
    elif isinstance(x, list | tuple | np.ndarray):
        arrays = [_as_rows(part, name, n) for n, part in enumerate(x)]
        arrays = [part.T for part in arrays] if layout == "channels_first" else arrays
    else:
        raise TypeError(f"{name} is a {type(x).__name__}, expected an array, a list of arrays or a data frame")
    values = [_floats(array, name, n) for n, array in enumerate(arrays)]
    _check_shapes(values, name)
    if times is None and dt is None and indexes is not None and any(index is not None for index in indexes):
        # Next to times, an index that counts the rows holds the times 0, 1, 2, ...
        times = [np.arange(len(x[n])) if index is None else index for n, index in enumerate(indexes)]
    between = _gaps_of(times, dt, values, name)
    return Collection(values, between, channels or tuple(f"channel {n}" for n in range(values[0].shape[1])))


def _is_frame(x: Any) -> bool:
    return hasattr(x, "columns") and hasattr(x, "iloc")


def is_list_of_frames(x: Any) -> bool:
    """Whether this is a list of pandas frames or Series, one per series."""
    return isinstance(x, list | tuple) and len(x) > 0 and all(hasattr(part, "iloc") for part in x)


def _split_frame(frame: Any, name: str) -> Any:
    """One frame as a list of frames (two-level index), a list of arrays (series in cells) or an array."""
    if getattr(frame.index, "nlevels", 1) == 2:
        parts = [part.droplevel(0) for _, part in frame.groupby(level=0, sort=False)]
        return parts
    if getattr(frame.index, "nlevels", 1) > 2:
        raise ValueError(f"{name}: the frame's index has {frame.index.nlevels} levels, expected 2: sample and time")
    cells = frame.iloc[0].tolist() if len(frame) else []
    if cells and all(np.ndim(cell) == 1 for cell in cells):
        rows = [[np.asarray(cell, float) for cell in row] for row in frame.to_numpy()]
        for n, row in enumerate(rows):
            if len({len(cell) for cell in row}) > 1:
                raise ValueError(
                    f"{name}: the channels of series {n} have lengths {', '.join(str(len(c)) for c in row)}"
                )
        return [np.stack(row, 1) for row in rows]
    return frame.to_numpy()


def _names(frames: Sequence[Any]) -> tuple[str, ...]:
    first = frames[0]
    if not _is_frame(first):
        return (str(first.name),) if first.name is not None else ("channel 0",)
    return tuple(map(str, first.columns))


def _times_of(part: Any) -> Any:
    """The index as times, or None if it only counts the rows."""
    index = part.index
    if type(index).__name__ == "RangeIndex":
        return None
    if getattr(index, "dtype", None) is not None and index.dtype.kind == "i":
        numbers = index.to_numpy()
        if len(numbers) and (numbers == np.arange(len(numbers))).all():
            return None
    return index.to_timestamp().to_numpy() if hasattr(index, "to_timestamp") else index.to_numpy()


def _as_steps_first(x: np.ndarray, layout: Layout, name: str) -> np.ndarray:
    if x.ndim == 2:
        return x[..., None]
    if x.ndim != 3:
        raise ValueError(f"{name} has shape {x.shape}, expected (samples, steps, channels) or (samples, steps)")
    if layout == "channels_first":
        return x.transpose(0, 2, 1)
    if x.shape[1] == 1 < x.shape[2]:
        raise ValueError(
            f"{name} has shape {x.shape}: 1 step of {x.shape[2]} channels; if it is (samples, channels, steps), as in "
            "aeon and sktime, use layout='channels_first'"
        )
    return x


def _as_rows(part: Any, name: str, n: int) -> np.ndarray:
    array = np.asarray(part)
    if array.ndim == 1:
        return array[:, None]
    if array.ndim != 2:
        raise ValueError(f"{name}: series {n} has shape {array.shape}, expected (steps, channels) or (steps,)")
    return array


def _floats(array: np.ndarray, name: str, n: int) -> np.ndarray:
    if array.dtype.kind == "c":
        raise ValueError(f"{name}: Complex data not supported (series {n})")
    try:
        values = array.astype(np.float64)
    except (TypeError, ValueError):
        place = next((tuple(at) for at, value in np.ndenumerate(array) if not _is_number(value)), (0,) * array.ndim)
        raise ValueError(
            f"{name}: step {place[0]} of series {n}, channel {place[-1]} is {array[place]!r}, expected a number"
        ) from None
    if np.isinf(values).any():
        step, channel = np.argwhere(np.isinf(values))[0].tolist()
        raise ValueError(f"{name}: step {step} of series {n}, channel {channel} is inf; use NaN for missing values")
    return values


def _is_number(value: Any) -> bool:
    if value is None:
        return True
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _check_shapes(values: list[np.ndarray], name: str) -> None:
    if not values:
        raise ValueError(f"{name}: there are no series")
    channels = values[0].shape[1]
    for n, series in enumerate(values):
        if not len(series):
            raise ValueError(f"{name}: series {n} has no steps; leave it out")
        if series.shape[1] != channels:
            raise ValueError(f"{name}: series {n} has {series.shape[1]} channels, series 0 has {channels}")
    if not channels:
        raise ValueError(f"{name}: series have no channels")


def _gaps_of(times: Any, dt: Any, values: list[np.ndarray], name: str) -> list[np.ndarray] | None:
    given = gaps(_listed(times)) if times is not None else dt
    if given is None:
        return None
    what = "times" if times is not None else "dt"
    between = [np.asarray(part, float) for part in given]
    if len(between) != len(values):
        raise ValueError(f"{name}: {len(values)} series but {what} of {len(between)}")
    for n, (part, series) in enumerate(zip(between, values, strict=True)):
        if part.shape != (len(series),):
            raise ValueError(f"{name}: {what} of series {n} have shape {part.shape}, expected ({len(series)},)")
        if not np.isfinite(part).all() or (part < 0).any():
            step = int(np.argmax(~np.isfinite(part) | (part < 0)))
            raise ValueError(
                f"{name}: {what} of series {n}, step {step} is {part[step]}; gaps are finite and not negative"
            )
    return between


def _listed(times: Any) -> Any:
    """Times of several series, as `s7.gaps` reads them."""
    if isinstance(times, np.ndarray) and times.dtype != object:
        return times
    return list(times)


def _of_samples(samples: Samples, name: str) -> Collection:
    if samples.inputs.ndim > 2:
        raise ValueError(f"{name}: an event has shape {samples.event_shape}, expected numbers")
    ends = samples.offsets[1:-1]
    values = [_as_rows(part, name, n).astype(np.float64) for n, part in enumerate(np.split(samples.inputs, ends))]
    between = None if samples.dt is None else [part.astype(float) for part in np.split(samples.dt, ends)]
    return Collection(values, between, tuple(f"channel {n}" for n in range(values[0].shape[1])))
