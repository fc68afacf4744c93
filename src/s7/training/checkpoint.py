"""Where a run stands, on disk: enough to go on as if it had never stopped, to the last bit.

Random numbers are functions of (seed, step) and batches of (seed, epoch), so a position says all about both.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from s7.files import fill, named_arrays
from s7.storage import read_arrays, write_arrays
from s7.training.steps import TrainState


@dataclass
class Position:
    """What is done: `epoch` whole epochs, `batch` batches of the next, `step` in all.

    Of the `seconds` that it took, steps `waited` some for their batches.
    `sums` and `count` are those of the epoch under way, `history` has a line for each epoch done.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)
    count: float = 0.0
    best: float | None = None
    best_epoch: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Checkpoint:
    """A state and its position, with what they belong to: settings and data that must be the same to go on."""

    state: TrainState
    position: Position
    belongs_to: dict[str, Any]

    def write(self, path: Path) -> None:
        """Whole or not at all; the one before stays until this one is safe."""
        config = {"position": asdict(self.position), "belongs_to": self.belongs_to}
        write_arrays(path, "run", named_arrays(self.state), config)

    @classmethod
    def read(cls, path: Path, skeleton: TrainState, belongs_to: dict[str, Any]) -> "Checkpoint":
        """The checkpoint in a file, which must be of the same settings and data."""
        arrays, config = read_arrays(path, "run")
        for name, mine in belongs_to.items():
            theirs = config["belongs_to"].get(name)
            if theirs != mine:
                raise ValueError(f"{path}: cannot go on, {_difference(name, theirs, mine)}")
        try:
            position = Position(**config["position"])
        except (KeyError, TypeError):
            raise ValueError(f"{path}: of another version of s7; start anew in another folder") from None
        return cls(fill(skeleton, arrays, path), position, belongs_to)


def _difference(name: str, theirs: Any, mine: Any) -> str:
    """The first place at which what a run was begun with differs from what it is to go on with."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        for key in [*mine, *theirs]:
            if theirs.get(key) != mine.get(key):
                return _difference(f"{name}.{key}", theirs.get(key), mine.get(key))
    return f"it was begun with {name}={theirs!r}, not {mine!r}"
