"""EigenWorms: classify worms as wild type or one of four mutants, from their motion over 17,984 steps.

Each step has six numbers, the amplitudes of six basic shapes in the worm's posture. The data are from the UEA archive;
the paper protocol follows the LEM paper.
"""

import hashlib
import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float32, Int

import s7
from s7.data.download import Download
from s7.data.folder import Arrays
from s7.data.samples import Samples
from s7.data.uea import READERS, Series
from s7.tasks.task import Problem, Say, Task, most_frequent

ARCHIVE = "eigenworms/EigenWorms.zip"
# The .arff files first: the published split refers to their order.
FILES = (ARCHIVE, *(f"eigenworms/EigenWorms_TRAIN{suffix}" for suffix in READERS))
HOW = "s7 data fetch eigenworms, or put EigenWorms_TRAIN.ts and EigenWorms_TEST.ts of the UEA archive there"
SEED = 1234
SPLITS = 5
# The fractions at which training and validation end.
ENDS = (0.7, 0.85)


class Parts(NamedTuple):
    """The indices of the recordings in each split."""

    train: Int[np.ndarray, " A"]
    valid: Int[np.ndarray, " B"]
    test: Int[np.ndarray, " C"]


@dataclass(frozen=True)
class EigenWorms(Task):
    """`split` selects one of the five random splits of the strict protocol."""

    name: ClassVar[str] = "eigenworms"
    title: ClassVar[str] = "EigenWorms, type of worm from its motion"
    source: ClassVar[str] = "UEA multivariate archive, EigenWorms"
    downloads: ClassVar[tuple[Download, ...]] = (
        Download(  # no checksum is published
            "https://www.timeseriesclassification.com/aeon-toolkit/EigenWorms.zip",
            "eigenworms/EigenWorms.zip",
            page="https://www.timeseriesclassification.com/description.php?Dataset=EigenWorms",
        ),
    )
    protocols: ClassVar[dict[str, str]] = {
        "strict": (
            "exact copies of a recording are removed, the others split 70 / 15 / 15 % within each class; "
            "split 0 to 4 are five such splits"
        ),
        "paper": "all 259 recordings, copies included, split 181 / 39 / 39 as in LEM; inputs not standardized",
    }
    split: int = 0

    def __post_init__(self):
        if not 0 <= self.split < SPLITS:
            raise ValueError(f"split={self.split} must be 0 to {SPLITS - 1}")

    def missing(self, folder):
        return None if folder.find(*FILES) else folder.absence(*FILES, how=HOW)

    def load(self, folder, protocol, say):
        path = folder.require(*FILES, how=HOW)
        about = {"sha256": [digest(file) for file in files(path)], "version": 1}

        def make() -> Arrays:
            say(f"reading {path}, about half a minute …")
            series = read(path)
            return {"values": series.values, "labels": series.labels, "classes": np.array(series.classes)}

        arrays = folder.simulated(self.name, about, make)
        values, labels, classes = arrays["values"], arrays["labels"], tuple(arrays["classes"].tolist())
        if protocol == "paper":
            if self.split:
                raise ValueError(f"split={self.split}: the paper's protocol has one split only, 0")
            parts = published(len(values))
        else:
            kept = distinct(values, labels, say)
            parts = Parts(*(kept[part] for part in stratified(labels[kept], self.split)))
        if not all(part.size for part in parts):
            raise ValueError(f"{path}: has {len(values)} recordings, too few for three splits")
        train, valid, test = (
            Samples.of(values[part], labels[part], per_step=False, name=name) for name, part in parts._asdict().items()
        )
        return Problem(
            train,
            valid,
            test,
            encoder=s7.LinearEncoder(values.shape[-1]) if protocol == "paper" else s7.LinearEncoder.of(train),
            head=s7.Mean(len(classes)),
            objective=s7.CrossEntropy(len(classes), classes),
            baselines=most_frequent(train, test, len(classes)),
        )


def published(count: int) -> Parts:
    """The split of the LEM paper."""
    train, rest = shuffled(count, 0.3, SEED)
    valid, test = shuffled(len(rest), 0.5, SEED)
    return Parts(train, rest[valid], rest[test])


def shuffled(count: int, fraction: float, seed: int) -> tuple[Int[np.ndarray, " A"], Int[np.ndarray, " B"]]:
    """Split off a random fraction exactly as scikit-learn's train_test_split does."""
    order = np.random.RandomState(seed).permutation(count)
    cut = math.ceil(fraction * count)
    return order[cut:], order[:cut]


def stratified(labels: Int[np.ndarray, " N"], seed: int) -> Parts:
    """Split at random within each class."""
    order = np.random.RandomState(seed).permutation(len(labels))
    parts: list[list[np.ndarray]] = [[], [], []]
    for label in np.unique(labels):
        members = order[labels[order] == label]
        for part, some in zip(parts, np.split(members, [round(len(members) * end) for end in ENDS]), strict=True):
            part.append(some)
    return Parts(*(np.sort(np.concatenate(part)) for part in parts))


def distinct(values: Float32[np.ndarray, "N L D"], labels: Int[np.ndarray, " N"], say: Say) -> Int[np.ndarray, " M"]:
    """The indices of recordings that are not exact copies of earlier ones."""
    first: dict[bytes, int] = {}
    original = np.array([first.setdefault(hashlib.sha256(one).digest(), n) for n, one in enumerate(values)])
    kept = np.flatnonzero(original == np.arange(len(values)))
    if len(kept) < len(values):
        copies = len(values) - len(kept)
        other = int(np.sum(labels != labels[original]))
        doubt = f", {other} of them with another label" if other else ""
        say(f"{copies} of {len(values)} recordings are exact copies of earlier ones{doubt}: removed")
    return kept


def read(path: Path) -> Series:
    """Read the training recordings, then the test recordings, in the order of the archive."""
    halves = []
    for half in ("TRAIN", "TEST"):
        with opened(path, half) as (lines, where):
            halves.append(READERS[Path(where).suffix](lines, where))
    train, test = halves
    if train.classes != test.classes or train.values.shape[1:] != test.values.shape[1:]:
        have, want = (f"{'×'.join(map(str, q.values.shape[1:]))} of {', '.join(q.classes)}" for q in (test, train))
        raise ValueError(f"{path}: the test recordings are {have}; those for training are {want}")
    values, labels = (np.concatenate(pair) for pair in zip(train[:2], test[:2], strict=True))
    return Series(values, labels, train.classes)


def files(path: Path) -> list[Path]:
    """The archive, or both files that were in it."""
    if path.suffix == ".zip":
        return [path]
    beside = path.with_name(path.name.replace("TRAIN", "TEST"))
    if not beside.exists():
        raise FileNotFoundError(f"{beside} is missing; it must be in the same folder as {path.name}")
    return [path, beside]


def digest(path: Path) -> str:
    """The digest of a file's content, the key of the cache."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def opened(path: Path, half: str) -> Iterator[tuple[IO[bytes], str]]:
    """The lines of TRAIN or TEST, and their name in messages."""
    if path.suffix != ".zip":
        file = path.with_name(f"EigenWorms_{half}{path.suffix}")
        with file.open("rb") as lines:
            yield lines, str(file)
        return
    wanted = [f"EigenWorms_{half}{suffix}" for suffix in READERS]
    try:
        with zipfile.ZipFile(path) as archive:
            held = {name.rpartition("/")[2]: name for name in archive.namelist()}
            found = [held[name] for name in wanted if name in held]
            if not found:
                raise ValueError(f"{path}: holds no {' or '.join(wanted)}")
            with archive.open(found[0]) as lines:
                yield lines, f"{path}: {found[0]}"
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path}: damaged, or not a .zip file ({error}); get it again") from None
