"""A run folder on disk: the paths in it, and a lock so that one process at a time works there.

The operating system releases the lock when the process ends, however it ends.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from s7.records import CONFIG, RESULT, Result, RunRecord, read_result
from s7.storage import is_temporary


@dataclass(frozen=True)
class RunFolder:
    """The folder at `path`."""

    path: Path

    @property
    def last(self) -> Path:
        """The latest checkpoint."""
        return self.path / "last.safetensors"

    @property
    def best(self) -> Path:
        """The model of the best epoch."""
        return self.path / "best.safetensors"

    @property
    def initial(self) -> Path:
        """The model before training."""
        return self.path / "initial.safetensors"

    @property
    def examples(self) -> Path:
        """A few sequences with the model's outputs."""
        return self.path / "examples.safetensors"

    @property
    def is_begun(self) -> bool:
        """Whether a run was started here."""
        return (self.path / CONFIG).exists()

    @property
    def is_finished(self) -> bool:
        """Whether a run was finished here."""
        return (self.path / RESULT).exists()

    def record(self) -> RunRecord:
        """Read the run's record; raises FileNotFoundError if no run was started here."""
        if not self.is_begun:
            raise FileNotFoundError(f"{self.path}: not a run's folder (it has no {CONFIG})")
        return RunRecord.read(self.path)

    def result(self) -> Result:
        """Read the result of a finished run; raises FileNotFoundError if the run is not finished."""
        if not self.is_finished:
            raise FileNotFoundError(f"{self.path}: the run is not finished (it has no {RESULT})")
        return read_result(self.path / RESULT)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for this process, creating it if needed."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / ".lock", os.O_CREAT | os.O_RDWR)
        except OSError as error:
            raise OSError(f"{self.path}: cannot be written to ({error.strerror}); choose another folder") from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OSError(f"{self.path}: another run is active in this folder; choose another folder") from None
            # Files left half-written by a process that was killed.
            for path in self.path.iterdir():
                if is_temporary(path):
                    path.unlink()
            yield
        finally:
            os.close(handle)
