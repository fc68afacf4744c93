"""Checkpoints: a run that stopped anywhere resumes to the same bits.

Random numbers are functions of (seed, step) and batches of (seed, epoch), so the position determines both.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from s7.files import fill, load, named_arrays, save
from s7.records import Epoch, RunRecord
from s7.run_folder import RunFolder
from s7.settings import Table
from s7.storage import read_arrays, write_arrays
from s7.training.callbacks import Callback
from s7.training.group import Group
from s7.training.steps import TrainState

if TYPE_CHECKING:
    from s7.training.trainer import Trainer

# Names of differences whose values, such as checksums, are not readable.
_OTHER = {
    "weights": "other initial weights",
    "optimizer": "another optimizer",
    "schedule": "another learning-rate schedule",
    **{f"data.{split}": f"other {split} data" for split in ("train", "valid", "test")},
}


@dataclass
class Position:
    """How far a run has come.

    Attributes:
        epoch: finished epochs; `batch` batches of the next are done, `step` batches in all.
        seconds: training time, of which steps waited `waited` seconds for their batches.
        cpu_seconds: processor time of all threads.
        sums, count: of the current epoch.
        best, best_loss: validation metric and loss of epoch `best_epoch`.
        stopped: why training stopped before its last step; empty if it did not.
        history: one entry for each finished epoch.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    cpu_seconds: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)
    count: float = 0.0
    best: float | None = None
    best_loss: float | None = None
    best_epoch: int = 0
    stopped: str = ""
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Checkpoint:
    """A state, its position and the identity of the run, which must be equal for the run to resume."""

    state: TrainState
    position: Position
    identity: Table

    def write(self, path: Path) -> None:
        """Write the file atomically; the previous checkpoint stays until this one is complete."""
        config = {"position": asdict(self.position), "belongs_to": self.identity}
        write_arrays(path, "run", named_arrays(self.state), config)

    @classmethod
    def read(cls, path: Path, skeleton: TrainState, identity: Table) -> "Checkpoint":
        """Read a checkpoint of a run with this identity; raises ValueError that names the first difference."""
        arrays, config = read_arrays(path, "run")
        try:
            position = Position(**config["position"])
            theirs = config["belongs_to"]
        except (KeyError, TypeError):
            raise ValueError(f"{path}: written by another version of s7; start a new run in another folder") from None
        for name in dict.fromkeys([*identity, *theirs]):
            if theirs.get(name) != identity.get(name):
                raise ValueError(f"{path}: cannot resume, {_difference(name, theirs.get(name), identity.get(name))}")
        return cls(fill(skeleton, arrays, path), position, identity)


class Checkpointing(Callback):
    """Keeps a run in its folder: the latest checkpoint, the best model and the history. The first process writes.

    Args:
        folder: the run's folder.
        identity: the properties that must be equal for the run to resume.
    """

    def __init__(self, folder: RunFolder, identity: Table):
        self.folder, self.identity = folder, identity

    def restore(self, trainer: "Trainer") -> None:
        """Put the trainer where the run in the folder stopped. The first process of a group reads it for all."""
        group, state, position = trainer.group, trainer.whole_state(), trainer.position
        if group.is_first:
            checkpoint = Checkpoint.read(self.folder.last, state, self.identity)
            state, position = checkpoint.state, checkpoint.position
        trainer.set_state(group.arrays_from_first(state))
        trainer.position = Position(**group.from_first(asdict(position)))
        if trainer.position.best_epoch:
            best = load(self.folder.best) if group.is_first else trainer.best_model
            arrays, static = eqx.partition(best, eqx.is_array)
            trainer.best_model = eqx.combine(jax.tree.map(jnp.asarray, group.arrays_from_first(arrays)), static)
        if group.is_first:
            self._write_history(trainer)

    def on_improvement(self, trainer):
        if trainer.group.is_first:
            save(trainer.best_model, self.folder.best)

    def on_checkpoint(self, trainer):
        # The best model is complete before the checkpoint that refers to it. If the process is killed between the two,
        # the epoch is repeated.
        state = trainer.whole_state()
        if trainer.group.is_first:
            Checkpoint(state, trainer.position, self.identity).write(self.folder.last)
            self._write_history(trainer)

    def _write_history(self, trainer: "Trainer") -> None:
        history = tuple(Epoch.from_json(line) for line in trainer.position.history)
        RunRecord({}, history).write_history(self.folder.path)


def require_same(group: Group, identity: Table) -> None:
    """Raise ValueError in every process if the identities of the processes differ."""
    first = group.from_first(identity)
    mine = json.loads(json.dumps(identity))
    differs = next((name for name in dict.fromkeys([*first, *mine]) if first.get(name) != mine.get(name)), None)
    differing = np.flatnonzero(group.gather(np.array(differs is not None)))
    if differs is not None:
        what = _difference(differs, mine.get(differs), first.get(differs)).removeprefix("it ")
        raise ValueError(f"process {group.index} of {group.count} {what} as process 0")
    if len(differing):
        raise ValueError(f"process {differing[0]} of {group.count} was started with other settings or data")


def _difference(name: str, theirs: Any, mine: Any) -> str:
    """The first difference between the identity of a run and that of the request to resume it."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        for key in dict.fromkeys([*mine, *theirs]):
            if theirs.get(key) != mine.get(key):
                return _difference(f"{name}.{key}", theirs.get(key), mine.get(key))
    if name in _OTHER:
        return f"it was started with {_OTHER[name]}"
    return f"it was started with {name}={theirs!r}, not {mine!r}"
