"""A run's folder: what it was asked to do, where it stands, how it went, what came out.

    config.toml  metrics.jsonl  result.json  {initial,last,best,examples}.safetensors

Every file is written whole or not at all. One process at a time works in a folder; the lock goes with the process,
however it ends.
"""

import fcntl
import json
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from s7.settings import Table, to_toml
from s7.storage import is_temporary, write_atomically

FORMAT = 1


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
        """A few sequences with the model's answers."""
        return self.path / "examples.safetensors"

    @property
    def is_begun(self) -> bool:
        """Whether a run was started here."""
        return (self.path / "config.toml").exists()

    @property
    def is_finished(self) -> bool:
        """Whether a run came to its end here."""
        return (self.path / "result.json").exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The folder, made if need be, for this process alone."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / ".lock", os.O_CREAT | os.O_RDWR)
        except OSError as error:
            raise OSError(f"{self.path}: cannot be written to ({error.strerror}); choose another folder") from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OSError(f"{self.path}: another run is at work in this folder; choose another") from None
            # Nobody else is here: what was being written when a process was killed is of no use to anybody.
            for path in self.path.iterdir():
                if is_temporary(path):
                    path.unlink()
            yield
        finally:
            os.close(handle)

    def write_config(self, config: Table) -> None:
        """What the run is to do."""
        write_atomically(self.path / "config.toml", to_toml({"format": FORMAT} | config).encode())

    def read_config(self) -> Table:
        """What the run was to do."""
        path = self.path / "config.toml"
        if not path.exists():
            raise FileNotFoundError(f"{self.path}: not a run's folder (there is no config.toml in it)")
        try:
            config = tomllib.loads(path.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: not TOML ({error})") from None
        if config.pop("format", None) != FORMAT:
            raise ValueError(f"{path}: a run of another version of s7; this one reads format {FORMAT}")
        return config

    def write_history(self, history: list[dict[str, Any]]) -> None:
        """One line for each epoch."""
        write_atomically(self.path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in history).encode())

    def write_result(self, result: dict[str, Any]) -> None:
        """What came out."""
        write_atomically(self.path / "result.json", (json.dumps(result, indent=2) + "\n").encode())

    def read_result(self) -> dict[str, Any]:
        """What came out."""
        path = self.path / "result.json"
        if not path.exists():
            raise FileNotFoundError(f"{self.path}: no result.json; the run is not finished (--resume goes on with it)")
        try:
            return json.loads(path.read_text())
        except ValueError as error:
            raise ValueError(f"{path}: not JSON ({error})") from None
