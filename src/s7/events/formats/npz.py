"""NumPy's .npz archives: arrays x, y, t and p, a structured array, or the spikes of an artificial cochlea.

This project's archives of several recordings have the arrays x, y, t, p, offsets and label. An array `sensor` holds the
width and the height.
"""

import math
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np

from s7.events.container import Events, Size
from s7.events.formats.base import EventFormat
from s7.events.formats.npy import read_header
from s7.events.formats.tables import Source, Table, find_table, spikes

MAGIC = b"PK\x03\x04"
# An array that is read at once must not be larger than this.
LARGEST = 2**28
# What the packages zipfile and zlib raise for damaged archives.
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, KeyError)


class Npz(EventFormat, name="npz"):
    """NumPy archives (.npz)."""

    extensions = (".npz",)
    written_as = (".npz",)

    def sniff(self, start):
        return start.startswith(MAGIC)

    def recordings(self, path):
        with _opened(path) as archive:
            sources = archive.sources
            return max(sources["offsets"].shape[0] - 1, 0) if "offsets" in sources else 1

    def recording(self, path, number):
        with _opened(path) as archive:
            sources = archive.sources
            if "offsets" not in sources:
                yield from self.blocks(path)
                return
            start, end = archive.whole("offsets").astype(np.int64)[number : number + 2].tolist()
            table = archive.table()
            if not 0 <= start <= end <= table.columns["t"].shape[0]:
                raise ValueError(f"{path}: recording {number} is from event {start} to {end}, which are not there")
            parts = {name: _part(source, start, end) for name, source in table.columns.items()}
            yield from Table(parts, table.unit, table.sensor, table.where).blocks()

    def blocks(self, path):
        with _opened(path) as archive:
            sources = archive.sources
            pair = sources.get("arr_0")
            if pair is not None and len(pair.shape) == 2 and pair.shape[0] == 2:
                times, units = archive.whole("arr_0")
                yield spikes(times, units, str(path))
            else:
                yield from archive.table().blocks()

    def write(self, file, blocks, sensor):
        # The arrays of an archive follow each other, so the columns are collected in files of their own.
        with ExitStack() as stack:
            columns = {name: stack.enter_context(TemporaryFile()) for name in "xytp"}
            count, last = 0, Events.empty()
            for last in blocks:
                count += len(last)
                for name, column in columns.items():
                    column.write(getattr(last, name).tobytes())
            archive = stack.enter_context(zipfile.ZipFile(file, "w"))
            for name, column in columns.items():
                column.seek(0)
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    member.write(_header(getattr(last, name).dtype, count))
                    shutil.copyfileobj(column, member, 2**20)
            if sensor is not None:
                with archive.open(zipfile.ZipInfo("sensor.npy"), "w") as member:
                    member.write(_header(np.dtype("<i8"), 2))
                    member.write(np.array(sensor, "<i8").tobytes())


def _header(dtype: np.dtype, count: int) -> bytes:
    file = BytesIO()
    about = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(file, about)
    return file.getvalue()


class _Archive:
    """An open archive. Each array is read from its start to its end, in parts."""

    def __init__(self, path: Path, archive: zipfile.ZipFile):
        self._path = path
        self._members = [_Member(path, archive, name) for name in archive.namelist() if name.endswith(".npy")]
        self.sources = {one.source.name: one.source for one in self._members}

    def close(self) -> None:
        for member in self._members:
            member.close()

    def table(self) -> Table:
        table = find_table(self.sources, str(self._path), self._sensor())
        if table is None:
            names = ", ".join(self.sources)[:200] or "none"
            raise ValueError(f"{self._path}: has no arrays x, y, t and p; it has {names}")
        return table

    def whole(self, name: str) -> np.ndarray:
        source = self.sources[name]
        if math.prod(source.shape) * source.dtype.itemsize > LARGEST:
            raise ValueError(f"{self._path}: {name} is too large")
        return source.read(0, source.shape[0] if source.shape else 1)

    def _sensor(self) -> Size | None:
        source = self.sources.get("sensor")
        if source is None or source.shape != (2,) or source.dtype.kind not in "iu":
            return None
        width, height = self.whole("sensor").tolist()
        return (width, height) if 0 < width < 2**16 and 0 < height < 2**16 else None


class _Member:
    """An array in an archive."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, name: str):
        self._path, self._archive, self._name = path, archive, name
        self._stream: IO[bytes] | None = None
        with archive.open(name) as file:
            dtype, shape, self._fortran = read_header(file.read, f"{path}/{name}")
        self.source = Source(name.removesuffix(".npy"), dtype, shape, self.read)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def read(self, start: int, end: int) -> np.ndarray:
        """Read the next rows. Reading from 0 on starts again."""
        dtype, shape = self.source.dtype, self.source.shape
        row = dtype.itemsize * math.prod(shape[1:])
        try:
            if self._stream is None or start == 0:
                self.close()
                self._stream = self._archive.open(self._name)
                read_header(self._stream.read, self._name)
            data = self._stream.read((end - start) * row)
        except _DAMAGED as error:
            raise ValueError(f"{self._path}/{self._name}: byte {start * row}: {_in_one_line(error)}") from None
        if len(data) < (end - start) * row:
            raise ValueError(f"{self._path}/{self._name}: byte {start * row + len(data)}: cut off; get it again")
        flat = np.frombuffer(data, dtype)
        rows = (end - start, *shape[1:])
        return flat.reshape(rows, order="F") if self._fortran and len(shape) > 1 else flat.reshape(rows)


def _part(source: Source, first: int, last: int) -> Source:
    """The rows of an array from `first` to `last`. Rows before them are read and dropped, a part at a time."""
    step = 2**20

    def read(start: int, end: int) -> np.ndarray:
        if start == 0:
            for at in range(0, first, step):
                source.read(at, min(at + step, first))
        return source.read(first + start, first + end)

    return Source(source.name, source.dtype, (last - first, *source.shape[1:]), read)


@contextmanager
def _opened(path: Path) -> Iterator[_Archive]:
    with ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(path))
            opened = stack.enter_context(closing(_Archive(path, archive)))
        except (*_DAMAGED, OSError) as error:
            # An error of the operating system, such as a missing file, names it already.
            if isinstance(error, OSError) and error.filename:
                raise
            # The list of the arrays is at the end of the file.
            raise ValueError(f"{path}: byte {path.stat().st_size}: {_in_one_line(error)}") from None
        yield opened


def _in_one_line(error: Exception) -> str:
    return f"the archive is cut off or damaged ({' '.join(str(error).split())[:200]}); get it again"
