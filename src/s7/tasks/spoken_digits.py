"""Spoken digits: classify a spoken digit from spikes on frequency channels.

The Free Spoken Digit Dataset has 3,000 recordings of six speakers, 50 for each digit and speaker. `SpikeEncoder`
converts them to spikes. The task is like the Heidelberg digits, but its data are small and free.
"""

import hashlib
import re
import tarfile
import wave
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Int16, Int64, Shaped

import s7
from s7.data.download import Download
from s7.data.folder import Arrays, DataFolder, read_arrays
from s7.events.augmentation import EventAugmentation
from s7.events.recordings import Recording, Recordings, recordings_of, samples_of
from s7.events.sound_variation import SoundVariation
from s7.events.spikes import SpikeEncoder
from s7.settings import table_of, unknown
from s7.tasks.task import Problem, Task, most_frequent

FILES = (
    "fsdd/fsdd_8khz_int16.npz",
    "fsdd/free-spoken-digit-dataset-1.0.10.tar.gz",
    "fsdd/recordings",
)
HOW = "s7 data fetch spoken-digits, or put the folder recordings of the Free Spoken Digit Dataset there"
ARRAYS = ("audio", "offsets", "label", "speaker", "index")
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# File names in the archive. Hidden files are ignored.
RECORDING = re.compile(r"(^|/)recordings/[^./][^/]*\.wav$")
RATE = 8000
# Of the 50 recordings of a digit by a speaker, the first are the published test set and the next are for validation.
TESTED, VALIDATED = 5, 10
VALIDATION = ("speaker", "recordings")
# Increase it when the same settings give other spikes than before.
VERSION = 1


class Spoken(NamedTuple):
    """Concatenated recordings, sorted by digit, speaker and index, with RATE samples per second."""

    audio: Int16[np.ndarray, " T"]
    offsets: Int64[np.ndarray, " M"]
    label: Int64[np.ndarray, " N"]
    speaker: Shaped[np.ndarray, " N"]
    take: Int64[np.ndarray, " N"]

    @property
    def names(self) -> list[str]:
        """The names of the published files."""
        about = zip(self.label.tolist(), self.speaker.tolist(), self.take.tolist(), strict=True)
        return [f"{digit}_{speaker}_{index}.wav" for digit, speaker, index in about]

    def digest(self) -> str:
        """The SHA-256 of all arrays, which does not depend on the file format."""
        digest = hashlib.sha256("\n".join(self.names).encode())
        for array in (self.offsets, self.audio):
            digest.update(array.data)
        return digest.hexdigest()


@dataclass(frozen=True)
class SpokenDigits(Task):
    """Classify spoken digits.

    Args:
        spikes: Converts sound to spikes.
        augment: Changes the training recordings at random.
        speaker: The name of the test speaker, who is not in the training data. By default the split is the published
            one.
        validate: With a test speaker, what is for validation: another "speaker", or "recordings" of the five speakers
            who are also in the training data.
        vary: Adds variants of the training recordings, made before they are converted to spikes.
    """

    name: ClassVar[str] = "spoken-digits"
    title: ClassVar[str] = "Spoken digits as spikes"
    source: ClassVar[str] = "Free Spoken Digit Dataset 1.0.10 (CC BY-SA 4.0)"
    # The server creates the archive on request, so its checksum and size vary.
    downloads: ClassVar[tuple[Download, ...]] = (
        Download(
            "https://github.com/Jakobovski/free-spoken-digit-dataset/archive/refs/tags/v1.0.10.tar.gz",
            "fsdd/free-spoken-digit-dataset-1.0.10.tar.gz",
            page="https://github.com/Jakobovski/free-spoken-digit-dataset",
        ),
    )
    protocols: ClassVar[dict[str, str]] = {
        "strict": (
            "the published test set (recordings 0-4 of each digit and speaker), 5-9 for validation, 10-49 for "
            "training; all six speakers are in each split. With data.speaker, that speaker is the test set, the next "
            "by name is for validation and the other four are for training; with data.validate=recordings too, "
            "recordings 0-4 of the other five are for validation and the rest are for training"
        ),
    }
    spikes: SpikeEncoder = SpikeEncoder()
    speaker: str = ""
    validate: str = "speaker"
    vary: SoundVariation = SoundVariation()
    augment: EventAugmentation = EventAugmentation()

    def __post_init__(self) -> None:
        if self.validate not in VALIDATION:
            raise ValueError(f"data.validate: {unknown('choice', self.validate, VALIDATION)}")
        if self.validate != VALIDATION[0] and not self.speaker:
            raise ValueError(f"data.validate={self.validate} needs a test speaker; set data.speaker")

    def missing(self, folder):
        return None if folder.find(*FILES) else folder.absence(*FILES, how=HOW)

    def load(self, folder, protocol, say):
        path = folder.require(*FILES, how=HOW)
        spoken = read_spoken(path)
        splits = split(spoken, self.speaker, self.validate)
        for name, chosen in splits.items():
            if not chosen.any():
                raise ValueError(f"{path}: no recordings for {name}, some are missing; {HOW}")
        sensor = self.spikes.sensor
        versions = self.versions(folder, spoken, path, say)
        recordings = next(versions)
        samples = {name: recordings.samples(sensor, name, chosen) for name, chosen in splits.items()}
        if self.vary.copies:
            parts = (version.take(splits["train"]) for version in chain((recordings,), versions))
            samples["train"] = samples_of(parts, sensor, "train")
        return Problem(
            samples["train"],
            samples["valid"],
            samples["test"],
            encoder=s7.TokenEncoder(sensor.tokens),
            head=s7.Mean(len(DIGITS)),
            objective=s7.CrossEntropy(len(DIGITS), DIGITS),
            baselines=most_frequent(samples["train"], samples["test"], len(DIGITS)),
            augmentation=self.augment.on(sensor, len(DIGITS)),
        )

    def versions(
        self, folder: DataFolder, spoken: Spoken, path: Path, say: Callable[[str], None]
    ) -> Iterator[Recordings]:
        """The spikes of all recordings, then of each of their variants."""
        for copy in range(self.vary.copies + 1):
            yield self._spikes(folder, spoken, path, say, copy)

    def _spikes(
        self, folder: DataFolder, spoken: Spoken, path: Path, say: Callable[[str], None], copy: int
    ) -> Recordings:
        """The spikes of all recordings, or of their variants with this number."""

        def make() -> Arrays:
            what = f"variant {copy} of " if copy else ""
            say(f"converting {what}{len(spoken.label):,} recordings to spikes, about 15 s …")
            return encode(varied(spoken, self.vary, copy) if copy else spoken, self.spikes, path)

        settings = {"spikes": table_of(self.spikes), "sha256": spoken.digest(), "version": VERSION}
        if copy:
            settings |= {"vary": table_of(replace(self.vary, copies=0)), "copy": copy}
        made = folder.simulated(self.name, settings, make)
        none = np.zeros(len(made["t"]), np.uint8)
        events = Recording(made["channel"], none, none, made["t"])
        return Recordings(events, made["offsets"], spoken.label, [f"{path}: {n}" for n in spoken.names])


def varied(spoken: Spoken, vary: SoundVariation, copy: int) -> Spoken:
    """A variant of each recording, which depends on its index here and the number of the copy."""
    each = [
        vary(spoken.audio[start:end], RATE, np.random.default_rng([copy, n]))
        for n, (start, end) in enumerate(zip(spoken.offsets[:-1], spoken.offsets[1:], strict=True))
    ]
    limits = np.iinfo(spoken.audio.dtype)
    audio = np.concatenate(each).clip(limits.min, limits.max).astype(spoken.audio.dtype)
    return spoken._replace(audio=audio, offsets=np.cumsum([0, *map(len, each)]))


def split(spoken: Spoken, speaker: str, validate: str = VALIDATION[0]) -> dict[str, Bool[np.ndarray, " N"]]:
    """The recordings of each split."""
    if not speaker:
        tested = spoken.take < TESTED
        validated = ~tested & (spoken.take < VALIDATED)
    else:
        names = sorted(set(spoken.speaker.tolist()))
        if speaker not in names:
            raise ValueError(f"data.speaker: {unknown('speaker', speaker, names)}")
        tested = spoken.speaker == speaker
        following = names[(names.index(speaker) + 1) % len(names)]
        validated = ~tested & (spoken.speaker == following if validate == "speaker" else spoken.take < TESTED)
    return {"train": ~tested & ~validated, "valid": validated, "test": tested}


def encode(spoken: Spoken, encoder: SpikeEncoder, path: Path) -> Arrays:
    """The concatenated spikes of all recordings: channel and time. A recording without spikes is an error."""
    each = []
    for name, start, end in zip(spoken.names, spoken.offsets[:-1], spoken.offsets[1:], strict=True):
        spikes = encoder(spoken.audio[start:end], RATE)
        if not len(spikes.t):
            raise ValueError(f"{path}: {name} makes no spikes; it is silent or too short, leave it out")
        each.append(spikes)
    made = recordings_of(each, spoken.label)
    channel = made.events.x.astype(np.min_scalar_type(encoder.channels - 1))
    return {"channel": channel, "t": made.events.t.astype(np.float32), "offsets": made.offsets}


def read_spoken(path: Path) -> Spoken:
    """Read the recordings of a folder, of the published archive, or of an .npz file."""
    if path.suffix == ".npz":
        return _from_arrays(path)
    found = {name: _samples(data, name) for name, data in (_folder(path) if path.is_dir() else _archive(path))}
    if not found:
        raise ValueError(f"{path}: no recordings/{{digit}}_{{speaker}}_{{index}}.wav in it")
    about = [_about(name) for name in found]
    label, speaker, index = (np.array(q) for q in zip(*about, strict=True))
    offsets = np.cumsum([0, *map(len, found.values())])
    return _ordered(Spoken(np.concatenate(list(found.values())), offsets, label, speaker, index))


def _from_arrays(path: Path) -> Spoken:
    arrays = read_arrays(path, ARRAYS)
    audio, offsets, label, speaker, index = (arrays[name] for name in ARRAYS)
    if audio.dtype != np.int16 or any(arrays[name].dtype.kind not in "iu" for name in ("offsets", "label", "index")):
        raise ValueError(f"{path}: audio must be int16, and offsets, label and index whole numbers")
    if any(array.ndim != 1 for array in arrays.values()) or speaker.dtype.kind != "U":
        raise ValueError(f"{path}: expected rows of numbers, and of names for speaker")
    if not len(offsets) - 1 == len(label) == len(speaker) == len(index):
        raise ValueError(f"{path}: expected one label, speaker and index for each recording, and one more offset")
    offsets = offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != len(audio) or (np.diff(offsets) < 0).any():
        raise ValueError(f"{path}: offsets must rise from 0 to the number of samples, {len(audio)}")
    if label.max(initial=0) >= len(DIGITS) or label.min(initial=0) < 0:
        n = int(np.argmax((label < 0) | (label >= len(DIGITS))))
        raise ValueError(f"{path}: recording {n} has label {label[n]}, outside of 0 to {len(DIGITS) - 1}")
    return _ordered(Spoken(audio, offsets, label.astype(np.int64), speaker, index.astype(np.int64)))


def _ordered(spoken: Spoken) -> Spoken:
    """Sort recordings by digit, speaker and index."""
    order = np.lexsort((spoken.take, spoken.speaker, spoken.label))
    pieces = [spoken.audio[spoken.offsets[n] : spoken.offsets[n + 1]] for n in order]
    offsets = np.cumsum([0, *map(len, pieces)])
    return Spoken(np.concatenate(pieces), offsets, spoken.label[order], spoken.speaker[order], spoken.take[order])


def _folder(path: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(path.glob("[!.]*.wav")):
        yield str(file), file.read_bytes()


def _archive(path: Path) -> Iterator[tuple[str, bytes]]:
    """Read the folder of recordings of the archive, without unpacking it."""
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in archive:
                stream = archive.extractfile(member) if RECORDING.search(member.name) else None
                if stream is not None:
                    yield f"{path}: {member.name}", stream.read()
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise ValueError(f"{path}: damaged, or not a .tar.gz archive ({error}); get it again") from None


def _about(name: str) -> tuple[int, str, int]:
    """Digit, speaker and index, from the name of a file."""
    parts = re.fullmatch(r"(\d)_([^_]+)_(\d+)\.wav", name.rpartition("/")[2])
    if parts is None:
        raise ValueError(f"{name}: expected a name such as 7_jackson_32.wav: digit, speaker, index")
    return int(parts[1]), parts[2], int(parts[3])


def _samples(data: bytes, name: str) -> Int16[np.ndarray, " T"]:
    try:
        with wave.open(BytesIO(data)) as file:
            rate, channels, bits = file.getframerate(), file.getnchannels(), 8 * file.getsampwidth()
            count, samples = file.getnframes(), file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise ValueError(f"{name}: not a WAV file ({error or 'it ends too soon'})") from None
    if (rate, channels, bits) != (RATE, 1, 16):
        have = f"{rate:,} Hz, {channels} channels, {bits} bits"
        raise ValueError(f"{name}: {have}; expected {RATE:,} Hz, 1 channel, 16 bits")
    if len(samples) != 2 * count:
        raise ValueError(f"{name}: ends after {len(samples) // 2:,} of {count:,} samples; get it again")
    return np.frombuffer(samples, "<i2").astype(np.int16)
