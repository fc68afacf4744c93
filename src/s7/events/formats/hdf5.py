"""HDF5 files of events, in the layouts of several data sets and recorders.

    Prophesee    CD/events, a structured array, compressed by ECF; the attribute geometry has the size of the sensor
    DSEC         events/x, y, p, t and t_offset, which is added to all times
    SHD, SSC     spikes/times and spikes/units, many recordings of an artificial cochlea (see `s7.events.spike_hdf5`)
    others       a structured array, or arrays in one group, with fields or names such as x, y, t, p or xs, ys, ts, ps

Arrays may be compressed by a filter that h5py does not have. The package hdf5plugin has many of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from s7.events.container import Size
from s7.events.formats import ecf
from s7.events.formats.base import EventFormat
from s7.events.formats.tables import Source, Table, find_table, spikes
from s7.events.spike_hdf5 import DENSEST, TIMES, UNITS, open_hdf5, readable, require_rows

MAGIC = b"\x89HDF\r\n\x1a\n"
OFFSET = "t_offset"
LONGEST_TEXT = 100
FILTERS = {32001: "Blosc", 32026: "Blosc2", 32015: "Zstandard", 32004: "LZ4", 32008: "Bitshuffle"}


class Hdf5(EventFormat, name="hdf5"):
    """HDF5 files of Prophesee, DSEC, SHD, SSC and others."""

    extensions = (".h5", ".hdf5")
    extra = "events"

    def sniff(self, start):
        return start.startswith(MAGIC)

    def recordings(self, path):
        with _arrays(path) as arrays:
            return len(arrays[TIMES]) if TIMES in arrays and UNITS in arrays else 1

    def recording(self, path, number):
        with _arrays(path) as arrays:
            if TIMES not in arrays:
                yield from self.blocks(path)
                return
            with readable(path):
                for name in (TIMES, UNITS):
                    require_rows(path, arrays[name])
                times, units = arrays[TIMES][number], arrays[UNITS][number]
            yield spikes(np.asarray(times), np.asarray(units), f"{path}: recording {number}")

    def blocks(self, path):
        with _arrays(path) as arrays:
            if TIMES in arrays:
                yield from self.recording(path, 0)
                return
            with readable(path):
                table = _table(path, arrays)
                blocks = table.blocks()
            while True:
                with readable(path):
                    block = next(blocks, None)
                if block is None:
                    return
                yield block


@contextmanager
def _arrays(path: Path) -> Iterator[dict[str, Any]]:
    """The arrays of a file by their path in it, in the order of the file."""
    with open_hdf5(path) as file:
        found: dict[str, Any] = {}
        with readable(path):
            file.visititems(lambda name, item: found.update({name: item}) if hasattr(item, "dtype") else None)
        yield found


def _table(path: Path, arrays: dict[str, Any]) -> Table:
    """The events among the arrays of a file: those of the first group that has them."""
    groups: dict[str, dict[str, Source]] = {}
    for name, array in arrays.items():
        group, _, last = name.rpartition("/")
        if array.size <= DENSEST * path.stat().st_size:
            groups.setdefault(group, {})[last] = _source(path, last, array)
    for group, sources in groups.items():
        table = find_table(sources, str(path), _sensor(arrays, group))
        if table is None:
            continue
        for name, source in sources.items():
            if source.shape == table.columns["t"].shape:
                _require_filters(path, f"{group}/{name}".lstrip("/"), arrays)
        return _shifted(table, arrays, group)
    names = ", ".join(arrays)[:200] or "none"
    raise ValueError(f"{path}: has no arrays of events that are known; it has {names}")


def _source(path: Path, name: str, array: Any) -> Source:
    if _filters(array) == [ecf.FILTER] and array.dtype == ecf.DTYPE and len(array.shape) == 1:
        return Source(name, array.dtype, array.shape, partial(_read_ecf, path, array))
    return Source(name, array.dtype, array.shape, lambda start, end: array[start:end])


def _read_ecf(path: Path, array: Any, start: int, end: int) -> np.ndarray:
    """Read events that are compressed by ECF, whose filter is not part of HDF5."""
    (size,) = array.chunks
    parts = []
    for at in range(start // size * size, end, size):
        try:
            events = ecf.decode(array.id.read_direct_chunk((at,))[1])
        except ecf.DamagedChunk as error:
            where = array.id.get_chunk_info_by_coord((at,)).byte_offset
            raise ValueError(f"{path}: byte {where}: damaged ({error}); get it again") from None
        if len(events) < min(end, at + size) - at:
            raise ValueError(f"{path}: the chunk at event {at} has {len(events)} events; get the file again")
        parts.append(events[max(start - at, 0) : end - at])
    return np.concatenate(parts)


def _filters(array: Any) -> list[int]:
    """The filters that compress an array."""
    creation = array.id.get_create_plist()
    return [creation.get_filter(n)[0] for n in range(creation.get_nfilters())]


def _shifted(table: Table, arrays: dict[str, Any], group: str) -> Table:
    """The table with the offset of its times added, if there is one in the group or at the top."""
    for name in (f"{group}/{OFFSET}".lstrip("/"), OFFSET):
        if name in arrays and arrays[name].shape == () and arrays[name].dtype.kind in "iu":
            offset = int(arrays[name][()])
            t = table.columns["t"]

            def read(start: int, end: int, t: Source = t, offset: int = offset) -> np.ndarray:
                return t.read(start, end).astype(np.int64) + offset

            return replace(table, columns={**table.columns, "t": Source(t.name, np.dtype(np.int64), t.shape, read)})
    return table


def _sensor(arrays: dict[str, Any], group: str) -> Size | None:
    """The size of the sensor in the attributes of the file or of the group: geometry = "1280x720"."""
    for array in arrays.values():
        for holder in (array.file, array.parent):
            words = _short_text(holder, "geometry").split("x")
            if len(words) == 2 and all(word.isdecimal() and 0 < int(word[:6]) < 2**16 for word in words):
                return int(words[0]), int(words[1])
    return None


def _short_text(holder: Any, name: str) -> str:
    """A short text in an attribute; empty if there is none. A damaged attribute may claim a size that never ends."""
    if name not in holder.attrs:
        return ""
    attribute = holder.attrs.get_id(name)
    if attribute.get_space().get_simple_extent_npoints() != 1 or attribute.get_storage_size() > LONGEST_TEXT:
        return ""
    text = holder.attrs[name]
    return str(text.decode() if isinstance(text, bytes) else text)


def _require_filters(path: Path, name: str, arrays: dict[str, Any]) -> None:
    """Raise a ValueError if an array is compressed by a filter that is not available."""
    with suppress(ModuleNotFoundError):
        import_module("hdf5plugin")  # registers its filters
    h5z = import_module("h5py").h5z
    for code in _filters(arrays[name]):
        if code != ecf.FILTER and not h5z.filter_avail(code):
            known = FILTERS.get(code, "unknown")
            raise ValueError(f"{path}: {name} is compressed by the filter {code} ({known}); pip install hdf5plugin")
