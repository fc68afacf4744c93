"""Events in columns: positions, times in microseconds, polarities and the size of the sensor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped, UInt8, UInt16

# Width and height in pixels.
Size = tuple[int, int]

_TYPES = {name: np.dtype(kind) for name, kind in {"x": "u2", "y": "u2", "t": "i8", "p": "u1"}.items()}


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Events:
    """Events in the order of their file.

    Args:
        x: Columns, from 0 on the left. Integers of any type are converted, in all four arrays.
        y: Rows, from 0 at the top.
        t: Times in microseconds.
        p: Polarities: 1 where it became brighter, 0 where it became darker.
        sensor: Width and height of the sensor, or None if they are not known.

    Raises:
        ValueError: If the arrays are not rows of whole numbers of the same length, or x and y exceed 16 bits.
    """

    x: UInt16[np.ndarray, " E"]
    y: UInt16[np.ndarray, " E"]
    t: Int[np.ndarray, " E"]
    p: UInt8[np.ndarray, " E"]
    sensor: Size | None = None

    def __init__(self, x: Any, y: Any, t: Any, p: Any, sensor: Size | None = None):
        columns = {"x": np.asarray(x), "y": np.asarray(y), "t": np.asarray(t), "p": np.asarray(p)}
        for name, values in columns.items():
            if values.ndim != 1 or values.dtype.kind not in "iub":
                raise ValueError(f"{name} must be a row of whole numbers, not {values.dtype}{list(values.shape)}")
            object.__setattr__(self, name, _as_type(name, values))
        sizes = {name: len(values) for name, values in columns.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"the columns differ in length: {', '.join(f'{n} {name}' for name, n in sizes.items())}")
        object.__setattr__(self, "sensor", sensor)

    @classmethod
    def empty(cls, sensor: Size | None = None) -> "Events":
        """No events."""
        x, y, t, p = (np.empty(0, kind) for kind in _TYPES.values())
        return cls(x, y, t, p, sensor)

    @classmethod
    def concatenate(cls, parts: Sequence["Events"]) -> "Events":
        """Join parts in order. The sensor is that of the last part."""
        if not parts:
            return cls.empty()
        if len(parts) == 1:
            return parts[0]
        x, y, t, p = (np.concatenate([getattr(part, name) for part in parts]) for name in _TYPES)
        return cls(x, y, t, p, parts[-1].sensor)

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, chosen: slice | Shaped[np.ndarray, " ..."]) -> "Events":
        """The events of a slice, a mask or an array of indices."""
        x, y, t, p = (getattr(self, name)[chosen] for name in _TYPES)
        return Events(x, y, t, p, self.sensor)

    def __repr__(self) -> str:
        size = "sensor unknown" if self.sensor is None else f"{self.sensor[0]}×{self.sensor[1]} pixels"
        if not len(self):
            return f"Events(0 events, {size})"
        ends = f"t = {int(self.t[0])} to {int(self.t[-1])} µs"
        return f"Events({len(self):,} event{'s'[: len(self) > 1]}, {size}, {ends})"

    def jumps_back(self) -> Int[np.ndarray, " J"]:
        """The indices of events that are earlier than the event before them."""
        return np.flatnonzero(self.t[1:] < self.t[:-1]) + 1

    def sorted(self) -> "Events":
        """The events in the order of time. Events with equal times keep their order."""
        return self if not len(self.jumps_back()) else self[np.argsort(self.t, kind="stable")]


def _as_type(name: str, values: Shaped[np.ndarray, " E"]) -> Shaped[np.ndarray, " E"]:
    kind = _TYPES[name]
    if values.dtype == kind:
        return values
    if name == "p":
        return (values > 0).astype(np.uint8)
    limits = np.iinfo(kind.str)
    if len(values) and (values.min() < limits.min or values.max() > limits.max):
        n = int(np.argmax((values < limits.min) | (values > limits.max)))
        raise ValueError(f"event {n} has {name}={values[n]}, outside of {limits.min} to {limits.max}")
    return values.astype(kind)
