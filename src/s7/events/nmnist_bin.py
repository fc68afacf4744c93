"""The .bin files of N-MNIST and N-Caltech101, in one folder per class or in the published archive."""

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from s7.events.formats.nmnist import NMnistDecoder
from s7.events.recordings import Recording, Recordings, recordings_of

# The number of files that are decoded before their events are converted to tokens: about 4 million events.
AT_A_TIME = 1000
# The class is the name of the folder. Hidden files, as macOS adds them to archives, do not match.
_NAME = re.compile(r"(?:^|/)(\d+)/([^/.][^/]*)\.bin$")


@dataclass(frozen=True, eq=False)
class Bins:
    """The files in a folder or a .zip archive, sorted by file name across all classes."""

    path: Path
    names: tuple[str, ...]
    labels: Int[np.ndarray, " N"]

    def parts(self, chosen: Int[np.ndarray, " M"]) -> Iterator[Recordings]:
        """Yield the chosen recordings in parts. An empty file is a recording without events."""
        with self._reader() as read:
            for start in range(0, len(chosen), AT_A_TIME):
                numbers = chosen[start : start + AT_A_TIME]
                names = [self.names[n] for n in numbers.tolist()]
                sources = [f"{self.path}/{name}" for name in names]
                events = [_decode(read(name), source) for name, source in zip(names, sources, strict=True)]
                yield recordings_of(events, self.labels[numbers], sources)

    @contextmanager
    def _reader(self) -> Iterator[Callable[[str], bytes]]:
        if self.path.is_dir():
            yield lambda name: (self.path / name).read_bytes()
            return
        with zipfile.ZipFile(self.path) as archive:

            def read(name: str) -> bytes:
                try:
                    return archive.read(name)
                except (zipfile.BadZipFile, zlib.error, EOFError) as error:
                    raise ValueError(f"{self.path}/{name}: damaged ({error}); get the archive again") from None

            yield read


def find_bins(path: Path) -> Bins:
    """Find the .bin files in a folder or a .zip archive."""
    if path.is_dir():
        names = [file.relative_to(path).as_posix() for file in path.glob("*/*.bin")]
    else:
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        except (zipfile.BadZipFile, OSError) as error:
            raise ValueError(f"{path}: damaged, or not a .zip archive ({error}); get it again") from None
    found = sorted((match[2], int(match[1]), name) for name in names if (match := _NAME.search(name)))
    if not found:
        raise ValueError(f"{path}: holds no .bin files in folders named by class, such as 5/00001.bin")
    return Bins(path, tuple(name for *_, name in found), np.array([label for _, label, _ in found]))


def _decode(data: bytes, where: str) -> Recording:
    decoder = NMnistDecoder(where)
    events = decoder.feed(data)
    decoder.finish()
    return Recording.of(events)
