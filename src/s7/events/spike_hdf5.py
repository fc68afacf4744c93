"""Reader for the HDF5 files of the Spiking Heidelberg Digits and Spiking Speech Commands, also compressed (.gz).

    spikes/times   the times of the spikes of each recording in seconds, in half precision
    spikes/units   the channels of the spikes of each recording
    labels         the class of each recording, an integer
    extra/speaker  the speaker of each recording        extra/keys  the names of the classes

Half precision would round milliseconds and ends at 65,504, so times are converted to double precision first.
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Bool, Integer

from s7.events.hdf5_heaps import CHECKED, damaged_heap, damaged_row
from s7.events.recordings import Recording, Recordings

TIMES, UNITS, LABELS, SPEAKERS, NAMES = "spikes/times", "spikes/units", "labels", "extra/speaker", "extra/keys"
MILLISECONDS = 1000  # in a second
# The number of recordings that are read before their events are converted to tokens: about 16 million spikes.
AT_A_TIME = 2048
# The largest plausible number of entries per byte: deflate compresses by a factor of at most 1032. A damaged file may
# claim more, which would take hours to read.
DENSEST = 1032


@dataclass(frozen=True, eq=False)
class SpikeFile:
    """An open file. Its arrays are read on demand."""

    path: Path
    file: Any
    bytes: int

    @property
    def labels(self) -> Integer[np.ndarray, " N"]:
        """The class of each recording."""
        return self._whole_numbers(LABELS)

    @property
    def speakers(self) -> Integer[np.ndarray, " N"]:
        """The speaker of each recording."""
        return self._whole_numbers(SPEAKERS)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes; empty if the file has none."""
        with readable(self.path):
            if NAMES not in self.file:
                return ()
            return tuple(q.decode() if isinstance(q, bytes) else str(q) for q in self._array(NAMES)[:])

    def parts(self, chosen: Bool[np.ndarray, " N"] | None = None) -> Iterator[Recordings]:
        """Yield the recordings, or those where a mask is True, in parts."""
        labels = self.labels
        for key in (TIMES, UNITS):
            with readable(self.path):
                recordings = len(self._array(key))
            if recordings != len(labels):
                raise ValueError(f"{self.path}: {len(labels)} labels but {recordings} recordings in {key}")
        for start in range(0, len(labels), AT_A_TIME):
            here = slice(start, start + AT_A_TIME)
            numbers = np.arange(len(labels))[here]
            if chosen is not None:
                numbers = numbers[chosen[here]]
            if len(numbers):
                with readable(self.path):
                    times, units = (list(self._array(key)[here][numbers - start]) for key in (TIMES, UNITS))
                    part = self._recordings(times, units, labels[numbers], numbers.tolist())
                yield part

    def _recordings(
        self, times: list, units: list, labels: Integer[np.ndarray, " n"], numbers: list[int]
    ) -> Recordings:
        sources = [f"{self.path}: recording {n}" for n in numbers]
        sizes = [len(q) for q in units]
        for source, size, expected in zip(sources, sizes, (len(q) for q in times), strict=True):
            if size != expected:
                raise ValueError(f"{source} has {expected} times but {size} units")
        seconds, x = np.concatenate(times), np.concatenate(units)
        if seconds.dtype.kind != "f" or x.dtype.kind not in "iu":
            kinds = f"{seconds.dtype} and {x.dtype}"
            raise ValueError(f"{self.path}: {TIMES} and {UNITS} hold {kinds}, expected seconds and whole numbers")
        none = np.zeros(len(x), np.uint8)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        t = seconds.astype(np.float64) * MILLISECONDS
        return Recordings(Recording(x, none, none, t), offsets, labels, sources)

    def _whole_numbers(self, key: str) -> Integer[np.ndarray, " N"]:
        with readable(self.path):
            values = self._array(key)[:]
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise ValueError(f"{self.path}: {key} must be a row of whole numbers")
        return values

    def _array(self, key: str) -> Any:
        found = self.file.get(key)
        if not hasattr(found, "dtype"):
            names: list[str] = []
            self.file.visititems(lambda name, item: names.append(name) if hasattr(item, "dtype") else None)
            raise ValueError(f"{self.path}: has no array {key}; it has {', '.join(map(str, names)) or 'none'}")
        if found.size > DENSEST * self.bytes:
            raise ValueError(f"{self.path}: damaged ({key} claims {found.size:,} entries); get it again")
        if key in (TIMES, UNITS):
            require_rows(self.path, found)
        return found


@contextmanager
def open_spikes(path: Path) -> Iterator[SpikeFile]:
    """Open a file of spikes in a context. A .gz file is decompressed into memory."""
    _h5py()
    content = _decompressed(path) if path.suffix == ".gz" else path
    size = len(content.getbuffer()) if isinstance(content, BytesIO) else path.stat().st_size
    with open_hdf5(path, content) as file:
        yield SpikeFile(path, file, size)


@contextmanager
def open_hdf5(path: Path, content: Path | BytesIO | None = None) -> Iterator[Any]:
    """Open an HDF5 file in a context.

    Args:
        path: The file.
        content: What to open instead, if the file was decompressed.
    """
    h5py = _h5py()
    if isinstance(content, BytesIO):
        start = bytes(content.getbuffer()[:CHECKED])
    else:
        with path.open("rb") as opened:
            start = opened.read(CHECKED)
    damage = damaged_heap(start)
    if damage is not None:
        raise ValueError(f"{path}: byte {damage}: damaged (the size of an object in a heap); get it again")
    try:
        file = h5py.File(content or path, "r")
    except Exception as error:
        raise ValueError(f"{path}: damaged, or not an HDF5 file ({_reason(error)}); get it again") from None
    try:
        yield file
    finally:
        with suppress(Exception):  # nothing was written, so nothing is lost if a damaged file cannot be closed
            file.close()


def require_rows(path: Path, array: Any) -> None:
    """Raise a ValueError if a row of an array is longer than the file. A .gz file has a checksum instead."""
    damage = None if path.suffix == ".gz" else damaged_row(path, array)
    if damage is not None:
        raise ValueError(f"{path}: byte {damage}: damaged (a row that is longer than the file); get it again")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Convert any error of h5py for a damaged file into one line that names the file."""
    try:
        yield
    except Exception as error:
        # h5py raises OSError, RuntimeError, KeyError, ValueError, TypeError and more, depending on what is damaged.
        if isinstance(error, ValueError) and str(error).startswith(str(path)):
            raise
        raise ValueError(f"{path}: damaged ({_reason(error)}); get it again") from None


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0].strip("'\"")[:200] or type(error).__name__


def _decompressed(path: Path) -> BytesIO:
    try:
        with gzip.open(path) as file:
            return BytesIO(file.read())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: damaged, or not a .gz file ({error}); get it again") from None


def _h5py() -> ModuleType:
    try:
        return import_module("h5py")
    except ModuleNotFoundError as error:
        message = "reading HDF5 files needs h5py, which is missing; pip install 's7-ssm[events]'"
        raise ModuleNotFoundError(message, name=error.name) from None
