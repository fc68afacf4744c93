"""The HDF5 files of the Spiking Heidelberg Digits and the Spiking Speech Commands, or their .gz as published.

    spikes/times   for each recording the seconds of its spikes, in half precision
    spikes/units   for each recording the channel of each spike
    labels         a whole number for each recording
    extra/speaker  who speaks in each recording        extra/keys  the names of the classes

Half precision ends at 65,504, and would round milliseconds: times are widened before anything is done with them.
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Bool, Integer, Shaped

from s7.events.recordings import Events, Recordings

TIMES, UNITS, LABELS, SPEAKERS, NAMES = "spikes/times", "spikes/units", "labels", "extra/speaker", "extra/keys"
MILLISECONDS = 1000  # in a second
# Recordings that are read before their events become tokens: some 16 million spikes.
AT_A_TIME = 2048


@dataclass(frozen=True, eq=False)
class SpikeFile:
    """An open file, looked at before all of it is read."""

    path: Path
    file: Any

    @property
    def labels(self) -> Integer[np.ndarray, " N"]:
        """The class of each recording."""
        return self._whole_numbers(LABELS)

    @property
    def speakers(self) -> Integer[np.ndarray, " N"]:
        """Who speaks in each recording."""
        return self._whole_numbers(SPEAKERS)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the classes, where the file has them."""
        if NAMES not in self.file:
            return ()
        return tuple(q.decode() if isinstance(q, bytes) else str(q) for q in self._read(NAMES))

    def parts(self, chosen: Bool[np.ndarray, " N"] | None = None) -> Iterator[Recordings]:
        """The recordings, or those that a mask has chosen, some at a time."""
        labels = self.labels
        for key in (TIMES, UNITS):
            if len(self._array(key)) != len(labels):
                raise ValueError(f"{self.path}: {len(labels)} labels but {len(self._array(key))} recordings in {key}")
        for start in range(0, len(labels), AT_A_TIME):
            here = slice(start, start + AT_A_TIME)
            numbers = np.arange(len(labels))[here]
            if chosen is not None:
                numbers = numbers[chosen[here]]
            if len(numbers):
                times, units = (list(self._read(key, here)[numbers - start]) for key in (TIMES, UNITS))
                yield self._recordings(times, units, labels[numbers], numbers.tolist())

    def _recordings(self, times: list, units: list, labels: Integer[np.ndarray, " n"], numbers: list[int]):
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
        return Recordings(Events(x, none, none, t), offsets, labels, sources)

    def _whole_numbers(self, key: str) -> Integer[np.ndarray, " N"]:
        values = self._read(key)
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise ValueError(f"{self.path}: {key} must be a row of whole numbers")
        return values

    def _array(self, key: str) -> Any:
        found = self.file.get(key)
        if not hasattr(found, "dtype"):
            raise ValueError(f"{self.path}: has no array {key}; it has {', '.join(self._names()) or 'none'}")
        return found

    def _names(self) -> list[str]:
        names: list[str] = []
        self.file.visititems(lambda name, item: names.append(name) if hasattr(item, "dtype") else None)
        return names

    def _read(self, key: str, part: slice = slice(None)) -> Shaped[np.ndarray, " ..."]:
        array = self._array(key)
        try:
            return array[part]
        except (OSError, RuntimeError) as error:
            raise ValueError(f"{self.path}: {key} cannot be read ({error}); get it again") from None


@contextmanager
def open_spikes(path: Path) -> Iterator[SpikeFile]:
    """A file, open as long as the context lasts. One that is still compressed is unpacked into memory."""
    h5py = _h5py()
    try:
        file = h5py.File(_unpacked(path) if path.suffix == ".gz" else path, "r")
    except OSError as error:
        raise ValueError(f"{path}: not a whole HDF5 file ({error}); get it again") from None
    with file:
        yield SpikeFile(path, file)


def _unpacked(path: Path) -> BytesIO:
    try:
        with gzip.open(path) as file:
            return BytesIO(file.read())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: not a whole .gz file ({error}); get it again") from None


def _h5py() -> ModuleType:
    try:
        return import_module("h5py")
    except ModuleNotFoundError as error:
        message = "reading HDF5 files needs h5py, which is missing; pip install 's7-ssm[events]'"
        raise ModuleNotFoundError(message, name=error.name) from None
