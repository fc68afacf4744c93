"""Where data are looked for, and where simulated data are kept.

`--data`, then $S7_DATA, then the cache: $XDG_CACHE_HOME/s7 or ~/.cache/s7. What is simulated goes to the cache.
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

# What NumPy and the libraries under it raise for a file that is damaged, or is something else.
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError, SyntaxError, NotImplementedError),
    *(ValueError, TypeError, EOFError, OSError, KeyError, AttributeError),
)


@dataclass(frozen=True)
class DataFolder:
    """The places to look in; `given` is the user's own."""

    given: Path | None = None

    @property
    def places(self) -> list[Path]:
        """In the order in which they are looked through."""
        if self.given is not None:
            return [self.given, cache_folder()]
        named = os.environ.get("S7_DATA")
        return [*([Path(named)] if named else []), cache_folder()]

    def find(self, *names: str) -> Path | None:
        """The first of these files that is in any of the places."""
        for place in self.places:
            for name in names:
                if (place / name).exists():
                    return place / name
        return None

    def require(self, *names: str, how: str) -> Path:
        """As `find`; an error that says where it was looked for, and how to get it."""
        found = self.find(*names)
        if found is None:
            raise FileNotFoundError(self.absence(*names, how=how))
        return found

    def absence(self, *names: str, how: str) -> str:
        """What to say of files that are in none of the places."""
        return f"{names[0]} is not in {' or '.join(str(place) for place in self.places)}; {how}"

    def simulated(self, name: str, settings: dict[str, Any], make: Callable[[], Arrays]) -> Arrays:
        """Arrays that `make` makes from these settings, made once and then read from the cache."""
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
        path = cache_folder() / name / f"{digest}.npz"
        if path.exists():
            try:
                return read_arrays(path)
            except ValueError:
                path.unlink()  # half a disk or half a cache: it can be made again
        arrays = make()
        save_arrays(path, arrays)
        return arrays


def save_arrays(path: Path, arrays: Arrays) -> None:
    """An .npz file, whole or not at all."""
    buffer = BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getvalue())


def read_arrays(path: Path, names: tuple[str, ...] = ()) -> Arrays:
    """All arrays of an .npz file, which must have these names among them."""
    try:
        # Opened here: np.load leaves a file open that is no archive.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except _UNREADABLE as error:
        raise ValueError(f"{path}: not a whole .npz file of plain arrays ({error}); get it again") from None
    absent = [name for name in names if name not in arrays]
    if absent:
        raise ValueError(f"{path}: has no array {', '.join(absent)}; it has {', '.join(arrays)}")
    return arrays
