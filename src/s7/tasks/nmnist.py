"""N-MNIST: classify MNIST digits on a screen, recorded by an event camera that moves three times in 0.3 s.

Sensor and classes are small and the recordings are many: about 4,000 events each, 34×34 pixels. The paper does not use
this set; it is the smallest real one to try a model of events on.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Int

import s7
from s7.data.download import Download
from s7.data.folder import read_arrays
from s7.events.nmnist_bin import Bins, find_bins
from s7.events.recordings import Recordings, Sensor, recordings_in
from s7.tasks.event_task import EventTask
from s7.tasks.task import Say

TRAIN, TEST = (("nmnist/Train", "nmnist/Train.zip"), ("nmnist/Test", "nmnist/Test.zip"))
SMALL = "nmnist/nmnist_small.npz"
HOW = "s7 data fetch nmnist, or put Train.zip and Test.zip of N-MNIST there, or the folders in them"
ARRAYS = ("x", "y", "p", "t", "offsets", "label", "is_test")
SIDE = 34
# Seed of NumPy's legacy generator, whose stream never changes.
SEED = 0


_MENDELEY = "https://data.mendeley.com/public-files/datasets/468j46mzdv/files"
_PAGE = "https://www.garrickorchard.com/datasets/n-mnist"


def _saccades(name: str, number: str, digest: str) -> Download:
    return Download(f"{_MENDELEY}/{number}/file_downloaded", f"nmnist/{name}", digest=digest, page=_PAGE)


@dataclass(frozen=True)
class NMnist(EventTask):
    """N-MNIST.

    Attributes:
        recordings: Limits training and validation to the first recordings of the training set; 0 means all.
        validation: The part of them that is for validation instead of training.
    """

    name: ClassVar[str] = "nmnist"
    title: ClassVar[str] = "N-MNIST, digits seen by an event camera"
    source: ClassVar[str] = "N-MNIST (Orchard 2015, CC BY-SA 4.0), all of it or its first recordings"
    downloads: ClassVar[tuple[Download, ...]] = (
        _saccades("Train.zip", "39c25547-014b-4137-a934-9d29fa53c7a0", "md5:20959b8e626244a1b502305a9e6e2031"),
        _saccades("Test.zip", "05a4d654-7e03-4c15-bdfa-9bb2bcbea494", "md5:69ca8762b2fe404d9b9bad1103e97832"),
    )
    protocols: ClassVar[dict[str, str]] = {
        "strict": "a random tenth of the training recordings for validation; the official test recordings",
    }
    sensor: ClassVar[Sensor] = Sensor(SIDE, SIDE)
    classes: ClassVar[int] = 10
    recordings: int = 0
    validation: float = 0.1

    def __post_init__(self):
        if not 0 < self.validation < 1:
            raise ValueError(f"validation={self.validation:g} must be a fraction between 0 and 1, such as 0.1")
        if self.recordings < 0 or self.recordings == 1:
            raise ValueError(f"recordings={self.recordings} must be 0 (all) or at least 2")

    def missing(self, folder):
        if folder.find(*TRAIN):
            return None if folder.find(*TEST) else folder.absence(*TEST, how=HOW)
        return None if folder.find(SMALL) else folder.absence(*TRAIN, how=HOW)

    def load(self, folder, protocol, say):
        path = folder.require(*TRAIN, SMALL, how=HOW)
        if path.suffix == ".npz":
            parts = self._first_ones(path, say)
        else:
            parts = self._all(find_bins(path), find_bins(folder.require(*TEST, how=HOW)), say)
        splits = {name: self.samples(q, name, say) for name, q in parts.items()}
        digits = tuple(str(digit) for digit in range(10))
        return self.problem(splits, s7.EventEncoder((SIDE, SIDE)), s7.Mean(self.classes), digits)

    def _first_ones(self, path: Path, say: Say) -> dict[str, Iterable[Recordings]]:
        recordings, tested = read_small(path)
        learnt = np.flatnonzero(~tested)
        say(f"{path}: the first {len(learnt):,} training and {tested.sum():,} test recordings of N-MNIST only")
        train, valid = self.split(len(learnt), path)
        numbers = {"train": learnt[train], "valid": learnt[valid], "test": np.flatnonzero(tested)}
        return {name: [recordings.take(q)] for name, q in numbers.items()}

    def _all(self, learnt: Bins, tested: Bins, say: Say) -> dict[str, Iterable[Recordings]]:
        train, valid = self.split(len(learnt.labels), learnt.path)
        say(f"reading {len(train) + len(valid) + len(tested.labels):,} recordings of N-MNIST …")
        test = np.arange(len(tested.labels))
        return {"train": learnt.parts(train), "valid": learnt.parts(valid), "test": tested.parts(test)}

    def split(self, count: int, path: Path) -> tuple[Int[np.ndarray, " T"], Int[np.ndarray, " V"]]:
        """Split the requested recordings into indices for training and for validation."""
        used = self.recordings or count
        if not 2 <= used <= count:
            raise ValueError(f"{path}: has {count:,} training recordings, {max(used, 2):,} are needed")
        order = np.random.RandomState(SEED).permutation(used)
        kept = max(1, int(used * self.validation))
        return np.sort(order[kept:]), np.sort(order[:kept])


def read_small(path: Path) -> tuple[Recordings, Bool[np.ndarray, " N"]]:
    """Read recordings from arrays, and a mask of those in the test set."""
    arrays = read_arrays(path, ARRAYS)
    recordings, tested = recordings_in(arrays, str(path)), arrays["is_test"]
    if tested.shape != recordings.labels.shape or tested.dtype.kind != "b":
        raise ValueError(f"{path}: is_test must hold one bool for each recording")
    return recordings, tested
