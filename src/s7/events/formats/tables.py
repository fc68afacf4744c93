"""Events in arrays of any container: columns x, y, t and p, a structured array, or a table of four columns.

A `Table` names where each column comes from. Containers provide `Source` objects, which read parts of an array.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from s7.events.container import Events, Size
from s7.events.formats.guess import by_name, by_value, unit_of
from s7.events.structured import whole_microseconds

# Events that are read at a time.
AT_A_TIME = 2**17
# The channels of the artificial cochlea of the Spiking Heidelberg data sets.
CHANNELS = 700


@dataclass(frozen=True)
class Source:
    """An array in a container.

    Args:
        name: Its name, for messages.
        dtype: Its type.
        shape: Its shape.
        read: Reads the rows from one index to another. The parts of a file are read in order.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    read: Callable[[int, int], np.ndarray]

    def fields(self, names: Mapping[str, str]) -> dict[str, "Source"]:
        """The fields of a structured array. All of them are read at once.

        Args:
            names: The names of the fields by the name that they are returned under.
        """
        last: list[tuple[tuple[int, int], np.ndarray]] = []

        def read(start: int, end: int, field: str) -> np.ndarray:
            if not last or last[0][0] != (start, end):
                last[:] = [((start, end), self.read(start, end))]
            return last[0][1][field]

        return {
            name: Source(field, self.dtype[field], self.shape, partial(read, field=field))
            for name, field in names.items()
        }


@dataclass(frozen=True)
class Table:
    """The columns of events. A column that is absent is 0. `unit` is that of t in microseconds; None: by its values."""

    columns: Mapping[str, Source]
    unit: float | None
    sensor: Size | None
    where: str

    def __post_init__(self) -> None:
        lengths = {source.name: source.shape for source in self.columns.values()}
        if len(set(lengths.values())) > 1 or any(len(shape) != 1 for shape in lengths.values()):
            shapes = ", ".join(f"{name} {list(shape)}" for name, shape in lengths.items())
            raise ValueError(f"{self.where}: the columns must be rows of the same length, not {shapes}")
        for column, source in self.columns.items():
            kinds = {"t": "iuf", "p": "iub"}.get(column, "iu")
            if source.dtype.kind not in kinds:
                raise ValueError(f"{self.where}: {source.name} holds {source.dtype}, expected numbers")

    def blocks(self) -> Iterator[Events]:
        """Read the events in blocks."""
        length = self.columns["t"].shape[0]
        unit = self.unit
        for start in range(0, length or 1, AT_A_TIME):
            end = min(start + AT_A_TIME, length)
            read = {name: source.read(start, end) for name, source in self.columns.items()}
            none = np.zeros(end - start, np.uint8)
            unit = _unit(read["t"]) if unit is None else unit
            try:
                t = whole_microseconds(read["t"], unit)
                yield Events(read["x"], read.get("y", none), t, read.get("p", none), self.sensor)
            except ValueError as error:
                raise ValueError(f"{self.where}: in events {start} to {end - 1}: {error}") from None


def _unit(t: np.ndarray) -> float:
    return unit_of(t.astype(np.float64)) if t.dtype.kind == "f" else 1.0


def find_table(sources: Mapping[str, Source], where: str, sensor: Size | None = None) -> Table | None:
    """The events among arrays: a structured array, or columns by their names; None if there are none."""
    for source in sources.values():
        if source.dtype.names:
            found, unit = by_name(list(source.dtype.names))
            if {"x", "t"} <= set(found):
                return Table(source.fields(found), unit, sensor, where)
    rows = {name: source for name, source in sources.items() if len(source.shape) == 1}
    found, unit = by_name(list(rows))
    if set(found) == set("xytp"):
        return Table({name: rows[given] for name, given in found.items()}, unit, sensor, where)
    return None


def four_columns(source: Source, where: str) -> Iterator[Events]:
    """The events of a table of numbers with four columns, whose order is found by their values."""
    length = source.shape[0]
    columns = None
    for start in range(0, length, AT_A_TIME):
        rows = source.read(start, min(start + AT_A_TIME, length)).astype(np.float64)
        if columns is None:
            columns = by_value(rows[: min(len(rows), 1000)])
            if columns is None:
                raise ValueError(f"{where}: the four columns of {source.name} are not those of events")
        x, y, t, p = (rows[:, place] for place in (columns.x, columns.y, columns.t, columns.p))
        whole = (np.floor(x) == x) & (np.floor(y) == y) & (np.abs(x) < 2**31) & (np.abs(y) < 2**31) & np.isfinite(p)
        if not whole.all():
            raise ValueError(f"{where}: row {start + int(np.argmin(whole))} of {source.name} is not an event")
        try:
            yield Events(x.astype(np.int64), y.astype(np.int64), whole_microseconds(t, columns.unit), p > 0)
        except ValueError as error:
            raise ValueError(f"{where}: in rows {start} to {start + len(rows) - 1}: {error}") from None


def spikes(times: np.ndarray, units: np.ndarray, where: str) -> Events:
    """The spikes of an artificial cochlea, with times in seconds."""
    if times.shape != units.shape or times.ndim != 1 or times.dtype.kind != "f" or not np.isfinite(units).all():
        raise ValueError(f"{where}: expected as many times in seconds as channels")
    try:
        channels = np.clip(units.astype(np.float64), -1, 2**31).astype(np.int64)
        none = np.zeros(len(times), np.uint8)
        return Events(channels, none, whole_microseconds(times, 1e6), none, (CHANNELS, 1))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
