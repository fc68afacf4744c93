"""Walker2d: predict the next state of a simulated walking robot, with one of ten states missing.

A state has 17 numbers. The model reads the remaining states, with the gap before each, and predicts the change of the
state until the next step, whether that is missing or not. The error of the change is the error of the next state. The
data and the procedure are those of the ODE-LSTM paper.
"""

import zipfile
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

import s7
from s7.data.download import Download
from s7.data.folder import read_arrays
from s7.data.samples import Samples
from s7.standardization import units_of
from s7.tasks.task import Problem, Task

MADE = "walker2d/rollouts.npz"
FILES = ("walker2d/walker.zip", "walker2d/walker2d_rollouts_f32.npz", MADE)
HOW = "s7 data fetch walker2d, or make others: s7 data make walker2d"
_JOINTS = tuple(f"{side} {joint}" for side in ("right", "left") for joint in ("hip", "knee", "ankle"))
# Height and pitch of the torso and six joint angles, then the forward speed and the velocities of the others.
COLUMNS = (
    *("height", "pitch", *_JOINTS),
    *("speed", "rise", "pitching", *(f"{joint} turning" for joint in _JOINTS)),
)
KEPT = 0.9
# With fewer, a split could be empty.
FEWEST = 10


@dataclass(frozen=True)
class Walker2d(Task):
    """Predict the next state.

    Args:
        copies: The number of copies of each training rollout, each with other missing steps; the first is as published.
        elapsed: Whether the gap is also an input. The model always receives it as dt.
        window: The number of remaining steps of a sequence. Sequences overlap by three quarters. Published results use
            64 steps.
    """

    name: ClassVar[str] = "walker2d"
    title: ClassVar[str] = "Walker2d, next state with a tenth of the steps missing"
    source: ClassVar[str] = "the 400 rollouts of ODE-LSTM (MIT), or rollouts simulated with MuJoCo"
    downloads: ClassVar[tuple[Download, ...]] = (
        Download(  # no checksum is published; the author has moved the file more than once
            "https://people.csail.mit.edu/mlechner/datasets/walker.zip",
            "walker2d/walker.zip",
            page="https://github.com/mlech26l/ode-lstms",
            mirrors=("https://www.mit.edu/~mlechner/walker.zip",),
        ),
    )
    protocols: ClassVar[dict[str, str]] = {
        "strict": "causal; rollouts split 300 / 40 / 60, epoch selected on the validation rollouts",
        "paper": (
            "bidirectional, epoch selected on the test set. In nine of ten steps the target is the next input, which "
            "the backward scan has already read. This is not prediction and serves only for comparison with the paper"
        ),
    }
    copies: int = 1
    elapsed: bool = True
    window: int = 64

    def __post_init__(self):
        if self.copies < 1:
            raise ValueError(f"copies={self.copies} must be at least 1")
        if self.window < 4:
            raise ValueError(f"window={self.window} must be at least 4")

    def missing(self, folder):
        return None if folder.find(*FILES) else folder.absence(*FILES, how=HOW)

    def load(self, folder, protocol, say):
        path = folder.require(*FILES, how=HOW)
        rollouts = read_rollouts(path)
        long = sum(len(rollout) >= 2 * self.window for rollout in rollouts)
        if long < FEWEST:
            needed = f"a window of {self.window} steps needs {FEWEST} rollouts of at least {2 * self.window} steps"
            raise ValueError(f"{path}: {needed}, {long} found; use a shorter window or more rollouts")
        train, valid, test = split(rollouts)
        # One generator for all three splits, in this order, as in the published code.
        rng = np.random.RandomState(891374)
        more = np.random.RandomState(1)
        parts = {
            "train": windows(train, rng, self.window),
            "valid": windows(valid, rng, self.window),
            "test": windows(test, rng, self.window),
        }
        copies = [parts["train"], *(windows(train, more, self.window) for _ in range(self.copies - 1))]
        parts["train"] = [np.concatenate(q) for q in zip(*copies, strict=True)]
        if protocol == "paper":
            parts["valid"] = parts["test"]
        splits = {name: self._samples(part, name) for name, part in parts.items()}
        mean, scale = units_of(splits["train"].targets)
        change = np.mean(splits["test"].targets.astype(np.float64) ** 2)
        return Problem(
            splits["train"],
            splits["valid"],
            splits["test"],
            encoder=s7.LinearEncoder.of(splits["train"]),
            head=s7.PerStep(17, mean, scale),
            objective=s7.MeanSquared(17, unit=float(np.mean(np.square(scale)))),
            columns=tuple(f"change of {name}" for name in COLUMNS),
            baselines={"persistence": {"mse": float(change), "rmse": float(np.sqrt(change))}},
            model={"bidirectional": protocol == "paper"},
        )

    def _samples(self, part: list[np.ndarray], name: str) -> Samples:
        states, gaps, targets = part
        inputs = np.concatenate([states, gaps[..., None]], -1) if self.elapsed else states
        return Samples.of(inputs, targets - states, gaps, name=name)


def read_rollouts(path: Path) -> list[Float[np.ndarray, "_ 17"]]:
    """Read rollouts, sorted by name, from concatenated arrays or from the published archive."""
    if path.suffix == ".zip":
        return _rollouts_in_archive(path)
    arrays = read_arrays(path, ("obs", "offsets", "names"))
    obs, offsets, names = arrays["obs"], arrays["offsets"], arrays["names"]
    if obs.ndim != 2 or obs.shape[1] != 17 or len(offsets) != len(names) + 1 or offsets[-1] != len(obs):
        raise ValueError(f"{path}: expected obs (steps, 17) with one more offset than names, the last {len(obs)}")
    if not np.isfinite(obs).all():
        row, column = np.argwhere(~np.isfinite(obs))[0]
        raise ValueError(f"{path}: obs[{row}, {column}] is not finite ({obs[row, column]})")
    return [obs[offsets[n] : offsets[n + 1]].astype(np.float32) for n in np.argsort(names, kind="stable")]


def _rollouts_in_archive(path: Path) -> list[Float[np.ndarray, "_ 17"]]:
    """Read an archive with one .npy file per rollout."""
    rollouts = []
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(name for name in archive.namelist() if name.endswith(".npy")):
                rollouts.append(np.load(BytesIO(archive.read(name)), allow_pickle=False))
                if rollouts[-1].ndim != 2 or rollouts[-1].shape[1] != 17 or not np.isfinite(rollouts[-1]).all():
                    raise ValueError(f"{name} is not (steps, 17) finite numbers")
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise ValueError(f"{path}: damaged, or not a .zip file of .npy rollouts ({error}); get it again") from None
    return [rollout.astype(np.float32) for rollout in rollouts]


def split(rollouts: list) -> tuple[list, list, list]:
    """Split into 75, 10 and 15 percent, shuffled as in the published code."""
    order = np.arange(len(rollouts))
    np.random.RandomState(125487).shuffle(order)
    tested, validated = int(0.15 * len(order)), int(0.25 * len(order))
    parts = order[validated:], order[tested:validated], order[:tested]
    train, valid, test = ([rollouts[n] for n in part] for part in parts)
    return train, valid, test


def windows(rollouts: list[Float[np.ndarray, "_ 17"]], rng: np.random.RandomState, length: int) -> list[np.ndarray]:
    """States, gaps and next states in windows of `length` remaining steps, a quarter of a window apart."""
    cut: list[tuple[np.ndarray, ...]] = []
    for rollout in rollouts:
        kept = np.flatnonzero(rng.random_sample(len(rollout) - 1) <= KEPT)
        gaps = np.diff(kept, prepend=-1).astype(np.float32)
        starts = np.arange(0, len(kept) - length, length // 4)
        places: Int[np.ndarray, "W L"] = starts[:, None] + np.arange(length)
        cut.append((rollout[kept][places], gaps[places], rollout[kept + 1][places]))
    return [np.concatenate(q) for q in zip(*cut, strict=True)]
