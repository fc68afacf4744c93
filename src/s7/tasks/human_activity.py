"""Human activity: classify what a person is doing at every step, from four body-worn tags that report their position.

A step is one report: which tag, and its x, y and z in metres. Tags report at irregular times. The model predicts one of
seven activities at every step. The data are UCI 196; the recipe is that of the ODE-LSTM paper.
"""

import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

import s7
from s7.data.download import Download
from s7.data.position_augmentation import PositionAugmentation
from s7.data.samples import Samples
from s7.settings import unknown
from s7.tasks.task import Problem, Say, Task, most_frequent

TABLE = "ConfLongDemo_JSI.txt"
FILES = (
    f"har/{TABLE}",
    "har/localization.zip",
    "har/localization+data+for+person+activity.zip",
    "har/ConfLongDemo_JSI_first10pct.txt.xz",
)
HOW = f"s7 data fetch human-activity, or get {TABLE} of data set 196 from the UCI repository, or the zip file with it"
CLASSES = ("lying", "sitting", "standing up", "walking", "falling", "on all fours", "sitting on the ground")
ACTIVITIES = {
    "lying down": 0,
    "lying": 0,
    "sitting down": 1,
    "sitting": 1,
    "standing up from lying": 2,
    "standing up from sitting": 2,
    "standing up from sitting on the ground": 2,
    "walking": 3,
    "falling": 4,
    "on all fours": 5,
    "sitting on the ground": 6,
}
# Left ankle, right ankle, chest, belt.
TAGS = {"010-000-024-033": 0, "010-000-030-096": 1, "020-000-033-111": 2, "020-000-032-221": 3}
COLUMNS = 8
# Time is stored in units of 100 ns and counted in units of 100 ms.
TICKS = 10**6
# The gap before a recording's first step is unknown; this is the published value.
FIRST_GAP = 5.0
WINDOW, HOP = 32, 16
SEED = 98841


class Recording(NamedTuple):
    """One recording: at each step the tag (one-hot) with its position, the class, and the gap before the step."""

    name: str
    inputs: Float[np.ndarray, "L 7"]
    labels: Int[np.ndarray, " L"]
    gaps: Float[np.ndarray, " L"]


@dataclass(frozen=True)
class HumanActivity(Task):
    """`split` selects the test person: 0 the last in the file, 1 the one before, and so on.

    Training windows begin every `hop` steps, and `augment` displaces their tags at random.

    Where a timestamp goes back, as two do in the published file, the gap is set to 0; with `backwards="refuse"`, the
    file is rejected.
    """

    name: ClassVar[str] = "human-activity"
    title: ClassVar[str] = "Human activity at every step, from four tags on the body"
    source: ClassVar[str] = "UCI 196, Localization Data for Person Activity (CC BY 4.0)"
    downloads: ClassVar[tuple[Download, ...]] = (
        Download(
            "https://archive.ics.uci.edu/ml/machine-learning-databases/00196/ConfLongDemo_JSI.txt",
            "har/ConfLongDemo_JSI.txt",
            digest="md5:280a677ae0d673ec9a50ada480d8a529",
            page="https://archive.ics.uci.edu/dataset/196/localization+data+for+person+activity",
        ),
    )
    protocols: ClassVar[dict[str, str]] = {
        "strict": (
            "split by person: A, B, C for training, D for validation, E for testing; windows of 32 steps, each step "
            "of the test counted once. A file with fewer than three people is split by recording, which is easier: "
            "the test person also occurs in training"
        ),
        "paper": (
            "windows of 32 steps, every 16, are shuffled and a fifth of them is the test set, on which the epoch is "
            "chosen. Windows overlap, so four fifths of all test steps are training steps too. The last recording of "
            "the file is not used"
        ),
    }
    backwards: Literal["clip", "refuse"] = "clip"
    split: int = 0
    hop: int = HOP
    augment: PositionAugmentation = PositionAugmentation()

    def __post_init__(self):
        if self.hop < 1:
            raise ValueError(f"hop={self.hop} must be at least 1")
        if self.split < 0:
            raise ValueError(f"split={self.split} must be at least 0")

    def missing(self, folder):
        return None if folder.find(*FILES) else folder.absence(*FILES, how=HOW)

    def load(self, folder, protocol, say):
        path = folder.require(*FILES, how=HOW)
        recordings = read_recordings(path, self.backwards, say)
        if protocol == "paper":
            if self.split:
                raise ValueError(f"split={self.split}: the paper's protocol has one split only, 0")
            train, test = published(recordings, path)
            valid = test
        else:
            learnt, validated, tested = self._divide(recordings, path, say)
            train = samples(learnt, windows(learnt, covering(self.hop)), "train")
            valid, test = each_step_once(validated, "valid"), each_step_once(tested, "test")
        return Problem(
            train,
            valid,
            test,
            encoder=s7.LinearEncoder.of(train),
            head=s7.PerStep(len(CLASSES)),
            objective=s7.CrossEntropy(len(CLASSES), CLASSES),
            baselines=most_frequent(train, test, len(CLASSES)),
            augmentation=self.augment if self.augment != PositionAugmentation() else None,
        )

    def _divide(self, recordings: list[Recording], path: Path, say: Say) -> tuple[list[Recording], ...]:
        """Split by person, or by recording if there are fewer than three people."""
        for recording in recordings:
            if len(recording.labels) < WINDOW:
                size = len(recording.labels)
                raise ValueError(
                    f"{path}: recording {recording.name} has {size} steps, fewer than a window of {WINDOW}; remove it"
                )
        by, groups = "person", [recording.name[0] for recording in recordings]
        if len(set(groups)) < 3:
            by, groups = "recording", [recording.name for recording in recordings]
        order = list(dict.fromkeys(groups))
        if len(order) < 3:
            raise ValueError(f"{path}: has {len(order)} recordings, at least 3 are needed for three splits")
        if self.split >= len(order):
            raise ValueError(f"split={self.split}: {path} has {len(order)} {by}s, so 0 to {len(order) - 1}")
        *learnt, validated, tested = order[len(order) - self.split :] + order[: len(order) - self.split]
        note = "" if by == "person" else " (fewer than three people: the test person also occurs in training)"
        say(f"split by {by}{note}: {', '.join(learnt)} for training, {validated} for validation, {tested} for testing")
        parts = (learnt, [validated], [tested])
        return tuple([r for r, group in zip(recordings, groups, strict=True) if group in part] for part in parts)


def published(recordings: list[Recording], path: Path) -> tuple[Samples, Samples]:
    """Training and test windows as in the ODE-LSTM paper."""
    used = recordings[:-1]
    places = windows(used, lambda length: np.arange(0, length - WINDOW, HOP)) if used else np.empty((0, WINDOW), int)
    tested = len(places) // 5
    if not tested:
        raise ValueError(
            f"{path}: {len(places)} windows of {WINDOW} steps without the last recording, at least 5 are needed"
        )
    order = np.random.RandomState(SEED).permutation(len(places))
    return samples(used, places[order[tested:]], "train"), samples(used, places[order[:tested]], "test")


def each_step_once(recordings: list[Recording], name: str) -> Samples:
    """Consecutive windows. The last one of a recording overlaps the one before; the overlap is not counted again."""
    places = windows(recordings, covering(WINDOW))
    counts = np.zeros(places.shape, bool)
    counts.flat[np.unique(places, return_index=True)[1]] = True
    return samples(recordings, places, name, counts)


def covering(hop: int) -> Callable[[int], Int[np.ndarray, " W"]]:
    """Start positions of windows that cover all steps: every `hop`, and one window that ends at the last step."""
    return lambda length: np.append(np.arange(0, length - WINDOW, hop), length - WINDOW)


def windows(recordings: list[Recording], starts: Callable[[int], Int[np.ndarray, " W"]]) -> Int[np.ndarray, "W 32"]:
    """The steps of each window as indices into all recordings end to end; no window spans two recordings."""
    sizes = [len(recording.labels) for recording in recordings]
    begins = np.cumsum([0, *sizes[:-1]])
    first = np.concatenate([begin + starts(size) for begin, size in zip(begins, sizes, strict=True)])
    return first[:, None] + np.arange(WINDOW)


def samples(
    recordings: list[Recording],
    places: Int[np.ndarray, "W 32"],
    name: str,
    counts: Bool[np.ndarray, "W 32"] | None = None,
) -> Samples:
    """Cut the windows at these indices."""
    inputs, labels, gaps = (np.concatenate([recording[n] for recording in recordings]) for n in (1, 2, 3))
    return Samples.of(inputs[places], labels[places], gaps[places], counts, per_step=True, name=name)


def read_recordings(path: Path, backwards: Literal["clip", "refuse"], say: Say) -> list[Recording]:
    """Read the recordings in the order of the file."""
    names, tags, times, _, *metres, activities = _columns(path)
    tag = _codes(tags, TAGS, "tag", path)
    label = _codes(activities, ACTIVITIES, "activity", path).astype(np.int32)
    time = _numbers(times, np.int64, "timestamp", path)
    place = [_numbers(column, np.float32, axis, path) for column, axis in zip(metres, "xyz", strict=True)]
    name = np.array(names)
    starts = np.flatnonzero(np.concatenate([[True], name[1:] != name[:-1]]))
    for start in starts.tolist():
        if not re.fullmatch(r"[A-Za-z]\d+", names[start]):
            raise _bad(path, start, f"recording {names[start]!r} is not a person's letter and a number, such as A01")
    ticks = np.diff(time, prepend=time[:1])
    ticks[starts] = 0
    back = np.flatnonzero(ticks < 0)
    if back.size and backwards == "refuse":
        row = int(back[0])
        hint = 'backwards="clip" takes such a gap as 0'
        raise _bad(path, row, f"the timestamp goes back by {-ticks[row] / 1e4:.1f} ms; {hint}")
    if back.size:
        lines = ", ".join(str(row + 1) for row in back[:10]) + (", …" if back.size > 10 else "")
        say(f"{path}: the timestamp goes back in {back.size} of {len(names):,} lines ({lines}): the gap is set to 0")
    gaps = (np.maximum(ticks, 0) / TICKS).astype(np.float32)
    gaps[starts] = FIRST_GAP
    inputs = np.column_stack([np.eye(len(TAGS), dtype=np.float32)[tag], *place])
    spans = [slice(*ends) for ends in zip(starts, [*starts[1:], len(names)], strict=True)]
    return [Recording(names[span.start], inputs[span], label[span], gaps[span]) for span in spans]


def _columns(path: Path) -> list[list[str]]:
    content = _content(path).replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n"
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        byte = content[error.start]
        raise _bad(path, content.count(b"\n", 0, error.start), f"byte 0x{byte:02x} is not UTF-8") from None
    letters = np.frombuffer(content, np.uint8)
    ends, commas = np.flatnonzero(letters == ord("\n")), np.flatnonzero(letters == ord(","))
    columns = np.diff(np.searchsorted(commas, ends), prepend=0) + 1
    wrong = np.flatnonzero(columns != COLUMNS)
    if wrong.size:
        raise _bad(path, int(wrong[0]), f"has {columns[wrong[0]]} columns, expected {COLUMNS}")
    fields = text[:-1].replace("\n", ",").split(",")
    return [fields[column::COLUMNS] for column in range(COLUMNS)]


def _content(path: Path) -> bytes:
    try:
        if path.suffix == ".xz":
            return lzma.decompress(path.read_bytes())
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                return archive.read(TABLE)
        return path.read_bytes()
    except KeyError:
        raise ValueError(f"{path}: contains no {TABLE}") from None
    except (lzma.LZMAError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path}: truncated or damaged {path.suffix} file ({error}); download it again") from None


def _codes(column: Sequence[str], codes: Mapping[str, int], what: str, path: Path) -> Int[np.ndarray, " L"]:
    found = np.array([codes.get(word, -1) for word in column])
    if found.min() < 0:
        row = int(np.argmin(found))
        raise _bad(path, row, unknown(what, column[row], codes))
    return found


def _numbers(column: Sequence[str], kind: Any, what: str, path: Path) -> Shaped[np.ndarray, " L"]:
    try:
        with np.errstate(over="ignore"):
            numbers = np.array(column, kind)
        good = np.isfinite(numbers)
    except (ValueError, OverflowError):
        good = np.array([_is_number(word, kind) for word in column])
    if not good.all():
        row = int(np.argmin(good))
        raise _bad(path, row, f"{what} {column[row]!r} is not a {'whole' if kind is np.int64 else 'finite'} number")
    return numbers


def _is_number(word: str, kind: Any) -> bool:
    try:
        return bool(np.isfinite(np.array(word, kind)))
    except (ValueError, OverflowError):
        return False


def _bad(path: Path, row: int, what: str) -> ValueError:
    return ValueError(f"{path}: line {row + 1}: {what}")
