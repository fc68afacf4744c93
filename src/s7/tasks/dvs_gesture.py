"""DVS-Gesture: classify eleven hand and arm gestures seen by an event camera of 128×128 pixels.

29 people under three to five lighting conditions. A trial is one recording of one person; a table lists the times of
about twelve gestures in it, each several seconds and some hundred thousand events long.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

import s7
from s7.data.download import Download
from s7.data.folder import read_arrays
from s7.events.formats.aedat3 import Aedat3
from s7.events.recordings import MICROSECONDS, Recording, Recordings, Sensor, recordings_in, recordings_of
from s7.tasks.event_task import EventTask

FOLDER = "dvs_gesture/DvsGesture"
LISTS = (f"{FOLDER}/trials_to_train.txt", f"{FOLDER}/trials_to_test.txt")
SAMPLE = "dvs_gesture/dvs_gesture_10.npz"
HOW = "s7 data fetch dvs-gesture, or unpack DvsGesture.tar.gz of IBM there"
SIDE = 128
HEADING = "class,startTime_usec,endTime_usec"
GESTURES = (
    *("hand clapping", "right hand wave", "left hand wave", "right arm clockwise", "right arm counter-clockwise"),
    *("left arm clockwise", "left arm counter-clockwise", "arm roll", "air drums", "air guitar", "other"),
)
# People held out for validation, of the 23 in the training list.
HELD_OUT = 3


@dataclass(frozen=True)
class DvsGesture(EventTask):
    """Gestures cut out of the trials at the times that the tables list."""

    name: ClassVar[str] = "dvs-gesture"
    title: ClassVar[str] = "DVS-Gesture, eleven gestures seen by an event camera"
    source: ClassVar[str] = (
        "DVS-Gesture (Amir 2017, CC BY 4.0); ten recordings of it suffice for a trial run, not for results"
    )
    downloads: ClassVar[tuple[Download, ...]] = (
        Download(
            "https://ibm.ent.box.com/s/3hiq58ww1pbbjrinh367ykfdf60xsfm8/folder/50167556794",
            "dvs_gesture/DvsGesture.tar.gz",
            digest="md5:8a5c71fb11e24e5ca5b11866ca6c00a1",
            page="https://research.ibm.com/interactive/dvsgesture",
            unpack=("*",),
        ),
    )
    manual_download: ClassVar[str] = (
        "IBM gives DvsGesture.tar.gz to people who open https://research.ibm.com/interactive/dvsgesture in a browser "
        "and agree to its licence; no program can"
    )
    protocols: ClassVar[dict[str, str]] = {
        "strict": (
            "the last three people of the training list for validation, the official test people for testing "
            "(if only the ten sample recordings are installed, all splits are those ten: not a result)"
        ),
        "paper": (
            "all people of the training list for training; the epoch is chosen on the test set "
            "(if only the ten sample recordings are installed, all splits are those ten: not a result)"
        ),
    }
    sensor: ClassVar[Sensor] = Sensor(SIDE, SIDE)
    classes: ClassVar[int] = len(GESTURES)

    def missing(self, folder):
        if folder.find(LISTS[0]):
            return None if folder.find(LISTS[1]) else folder.absence(LISTS[1], how=HOW)
        return None if folder.find(SAMPLE) else folder.absence(LISTS[0], how=HOW)

    def load(self, folder, protocol, say):
        path = folder.require(LISTS[0], SAMPLE, how=HOW)
        parts: dict[str, Iterable[Recordings]]
        if path.suffix == ".npz":
            recordings = recordings_in(read_arrays(path, ("x", "y", "p", "t", "offsets", "label")), str(path))
            say(f"{path}: trains, validates and tests on the same {len(recordings)} recordings; not a result")
            parts = {"train": [recordings], "test": [recordings]}
        else:
            learnt, tested = read_list(path), read_list(folder.require(LISTS[1], how=HOW))
            lists = {"train": learnt, "test": tested}
            if protocol == "strict":
                lists["train"], lists["valid"] = split(learnt, path)
            say(f"reading {len(learnt) + len(tested)} trials of DVS-Gesture …")
            parts = {name: map(read_trial, trials) for name, trials in lists.items()}
        splits = {name: self.samples(q, name, say) for name, q in parts.items()}
        return self.problem(splits, s7.EventEncoder((SIDE, SIDE)), s7.TimeMean(self.classes), GESTURES)


class Gesture(NamedTuple):
    """A line of a trial's table: times in microseconds, the end exclusive."""

    label: int
    start: int
    end: int
    line: int


def read_list(path: Path) -> list[Path]:
    """Read the trials that a list names. Each must exist, with its table."""
    trials = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        trial = path.parent / line.strip()
        for file in (trial, table_of(trial)):
            if not file.is_file():
                raise FileNotFoundError(f"{path}: line {number} names {trial.name}, but {file} does not exist")
        trials.append(trial)
    if not trials:
        raise ValueError(f"{path}: names no trials")
    return trials


def table_of(trial: Path) -> Path:
    """The path of the table that lists a trial's gestures."""
    return trial.with_name(f"{trial.stem}_labels.csv")


def split(trials: list[Path], path: Path) -> tuple[list[Path], list[Path]]:
    """Split into training trials and, of other people, validation trials; user07_led.aedat belongs to user07."""
    people = sorted({trial.name.partition("_")[0] for trial in trials})
    if len(people) <= HELD_OUT:
        raise ValueError(f"{path}: names trials of {len(people)} people, at least {HELD_OUT + 1} are needed")
    held = tuple(f"{person}_" for person in people[-HELD_OUT:])
    train = [trial for trial in trials if not trial.name.startswith(held)]
    return train, [trial for trial in trials if trial.name.startswith(held)]


def read_trial(path: Path) -> Recordings:
    """Read the gestures of a trial."""
    table = table_of(path)
    gestures, events = read_gestures(table), Recording.of(Aedat3().read(path))
    cut = []
    for gesture in gestures:
        start, end = gesture.start / MICROSECONDS, gesture.end / MICROSECONDS
        places = np.flatnonzero((events.t >= start) & (events.t < end))
        cut.append(Recording(*(q[places] for q in events)))
    labels = np.array([gesture.label for gesture in gestures])
    return recordings_of(cut, labels, [f"{path}, line {gesture.line} of {table.name}" for gesture in gestures])


def read_gestures(path: Path) -> list[Gesture]:
    """Read the lines of a table below its heading; classes count from 1 in the file and from 0 here."""
    gestures = []
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip() or line == HEADING:
            continue
        try:
            label, start, end = (int(cell) for cell in line.split(","))
        except ValueError:
            raise ValueError(f"{path}: line {number} is {line!r}, expected whole numbers: {HEADING}") from None
        if not 1 <= label <= len(GESTURES):
            raise ValueError(f"{path}: line {number} has the class {label}, outside 1 to {len(GESTURES)}")
        if start >= end:
            raise ValueError(f"{path}: line {number} ends at {end}, not after its start at {start}")
        gestures.append(Gesture(label - 1, start, end, number))
    if not gestures:
        raise ValueError(f"{path}: lists no gestures")
    return gestures
