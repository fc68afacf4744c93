"""The search path of data files, and the cache of simulated data.

Data are searched in `--data`, then in $S7_DATA, then in the cache: $XDG_CACHE_HOME/s7 or ~/.cache/s7.
"""

import hashlib
import json
import os
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from s7.machine import cache_folder
from s7.storage import write_atomically

Arrays = dict[str, np.ndarray]

# The errors of NumPy and its dependencies for damaged files or files of another format.
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError, SyntaxError, NotImplementedError),
    *(ValueError, TypeError, EOFError, OSError, KeyError, AttributeError),
)


@dataclass(frozen=True)
class DataFolder:
    """The folders to search; `given` is that of the user."""

    given: Path | None = None

    @property
    def places(self) -> list[Path]:
        """The folders in search order."""
        if self.given is not None:
            return [self.given, cache_folder()]
        named = os.environ.get("S7_DATA")
        return [*([Path(named)] if named else []), cache_folder()]

    def find(self, *names: str) -> Path | None:
        """The first of these files in the first folder that has one; None if there is none."""
        for place in self.places:
            for name in names:
                if (place / name).exists():
                    return place / name
        return None

    def require(self, *names: str, how: str) -> Path:
        """As `find`, but a missing file is an error that lists the folders and, from `how`, how to get the file."""
        found = self.find(*names)
        if found is None:
            raise FileNotFoundError(self.absence(*names, how=how))
        return found

    def absence(self, *names: str, how: str) -> str:
        """The error message for a missing file."""
        return f"{names[0]} is not in {' or '.join(str(place) for place in self.places)}; {how}"

    def simulated(self, name: str, settings: dict[str, Any], make: Callable[[], Arrays]) -> Arrays:
        """Arrays that `make` computes from these settings, cached by the settings."""
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
        path = cache_folder() / name / f"{digest}.npz"
        if path.exists():
            try:
                return read_arrays(path)
            except ValueError:
                path.unlink()  # a damaged cache is made again
        arrays = make()
        save_arrays(path, arrays)
        return arrays


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write an .npz file atomically."""
    buffer = BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getvalue())


def read_arrays(path: Path, names: tuple[str, ...] = ()) -> Arrays:
    """Read all arrays of an .npz file, which must include these names."""
    try:
        # Opened here, because np.load does not close a file that is not an archive.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except _UNREADABLE as error:
        raise ValueError(f"{path}: damaged, or not a .npz file of plain arrays ({error}); get it again") from None
    absent = [name for name in names if name not in arrays]
    if absent:
        raise ValueError(f"{path}: has no array {', '.join(absent)}; it has {', '.join(arrays)}")
    return arrays
