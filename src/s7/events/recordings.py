"""Recordings for training, and sensors.

Times are in milliseconds. The polarity of an event is 0 or 1. The channels of a cochlea, or of any row of sensors, are
a sensor of height 1 without polarity.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Integer, Shaped

from s7.data.folder import Arrays
from s7.data.samples import Samples
from s7.events.container import Events
from s7.tokens import from_token, to_token

# Microseconds per millisecond; cameras and data sets use microseconds.
MICROSECONDS = 1000


class Recording(NamedTuple):
    """The events of one recording, sorted by time. t is in milliseconds."""

    x: Integer[np.ndarray, " E"]
    y: Integer[np.ndarray, " E"]
    p: Integer[np.ndarray, " E"]
    t: Float[np.ndarray, " E"]

    @classmethod
    def of(cls, events: Events) -> "Recording":
        """The recording of events as they are read from files, with times in microseconds."""
        return cls(events.x, events.y, events.p, events.t / MICROSECONDS)


@dataclass(frozen=True)
class Sensor:
    """A sensor of `width` × `height` pixels with one or two polarities. Every event is one of `tokens` tokens."""

    width: int
    height: int = 1
    polarities: int = 2

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return self.polarities * self.width * self.height

    @property
    def limits(self) -> dict[str, int]:
        """The exclusive upper limits of x, y and p."""
        return {"x": self.width, "y": self.height, "p": self.polarities}

    def tokens_of(self, events: Recording) -> Integer[np.ndarray, " E"]:
        """The token of each event, in the smallest integer type. Events must be on the sensor."""
        polarity = events.p if self.polarities > 1 else np.zeros_like(events.p)
        tokens = to_token(events.x.astype(np.int32), events.y, polarity, self.height, self.polarities)
        return tokens.astype(np.min_scalar_type(self.tokens - 1))

    def events_of(self, tokens: Integer[np.ndarray, " E"], t: Float[np.ndarray, " E"]) -> Recording:
        """The events of these tokens."""
        return Recording(*from_token(tokens.astype(np.int64), self.height, self.polarities), t)

    def holds(self, events: Recording) -> bool:
        """Whether all events are on the sensor."""
        columns = [(getattr(events, name), limit) for name, limit in self.limits.items()]
        return all(q.min(initial=0) >= 0 and q.max(initial=0) < limit for q, limit in columns)

    def check(self, events: Recording, where: str) -> None:
        """Raise an error that names the first event that is not on the sensor or is earlier than the previous one."""
        for name, limit in self.limits.items():
            values = getattr(events, name)
            bad = (values < 0) | (values >= limit)
            if bad.any():
                n = int(np.argmax(bad))
                raise ValueError(f"{where}: event {n} has {name}={values[n]}, outside of 0 to {limit - 1}")
        back = np.diff(events.t) < 0
        if back.any():
            n = int(np.argmax(back)) + 1
            times = f"from {events.t[n - 1]:.10g} to {events.t[n]:.10g} ms"
            raise ValueError(f"{where}: time goes back at event {n}, {times}; tasks with repair=True sort the events")


@dataclass(frozen=True, eq=False)
class Recordings:
    """Concatenated recordings with labels. Recording n is events[offsets[n] : offsets[n + 1]].

    `sources` describe the origin of each recording in error messages; by default its index.
    """

    events: Recording
    offsets: Int[np.ndarray, " M"]
    labels: Integer[np.ndarray, " N"]
    sources: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def sizes(self) -> Int[np.ndarray, " N"]:
        """The number of events of each recording."""
        return np.diff(self.offsets)

    def source(self, n: int) -> str:
        """The origin of recording n, for error messages."""
        return self.sources[n] if self.sources else f"recording {n}"

    def recording(self, n: int) -> Recording:
        """The events of recording n."""
        return Recording(*(q[self.offsets[n] : self.offsets[n + 1]] for q in self.events))

    def take(self, chosen: Shaped[np.ndarray, "..."]) -> "Recordings":
        """The recordings with these indices, in this order, or those where a mask is True."""
        numbers = np.arange(len(self))[chosen]
        sizes = self.sizes[numbers]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[numbers] - offsets[:-1], sizes)
        sources = [self.source(n) for n in numbers.tolist()]
        return Recordings(Recording(*(q[places] for q in self.events)), offsets, self.labels[numbers], sources)

    def goes_back(self) -> Bool[np.ndarray, " E"]:
        """Whether each event is earlier than the previous one of its recording."""
        t = self.events.t
        back = np.zeros(len(t), bool)
        back[1:] = t[1:] < t[:-1]
        back[self.offsets[self.offsets < len(t)]] = False
        return back

    def repaired(self) -> "Recordings":
        """The recordings with events sorted by time, without empty recordings."""
        kept = self.take(self.sizes > 0)
        if not kept.goes_back().any():
            return kept
        order = np.lexsort((kept.events.t, np.repeat(np.arange(len(kept)), kept.sizes)))
        return Recordings(Recording(*(q[order] for q in kept.events)), kept.offsets, kept.labels, kept.sources)

    def samples(self, sensor: Sensor, name: str, chosen: Shaped[np.ndarray, "..."] | None = None) -> Samples:
        """Convert recordings to tokens and gaps in milliseconds. The first gap of a recording is 0.

        Args:
            sensor: The sensor of the recordings.
            name: The name of the samples, for error messages.
            chosen: The indices of the recordings, or a mask. By default all recordings.

        Raises:
            ValueError: If a recording is empty, an event is outside of the sensor or times decrease. The message names
                the recording and the event.
        """
        if chosen is not None:
            return self.take(chosen).samples(sensor, name)
        if not self.sizes.all():
            empty = self.source(int(np.argmin(self.sizes)))
            raise ValueError(f"{name}: {empty} is empty; leave it out, as tasks with repair=True do")
        if not sensor.holds(self.events) or self.goes_back().any():
            for n in range(len(self)):
                sensor.check(self.recording(n), f"{name}: {self.source(n)}")
        gaps = np.diff(self.events.t, prepend=self.events.t[:1]).astype(np.float32)
        gaps[self.offsets[:-1]] = 0
        labels = self.labels.astype(np.int32)
        made = Samples(sensor.tokens_of(self.events), labels, self.offsets.astype(np.int64), gaps, name=name)
        made.check()
        return made


def recordings_of(
    recordings: list[Recording], labels: Integer[np.ndarray, " N"], sources: Sequence[str] = ()
) -> Recordings:
    """Concatenate separate recordings.

    Args:
        recordings: The events of each recording.
        labels: The label of each recording.
        sources: The origin of each recording, for error messages.
    """
    offsets = np.concatenate([[0], np.cumsum([len(events.t) for events in recordings])]).astype(np.int64)
    return Recordings(Recording(*(np.concatenate(q) for q in zip(*recordings, strict=True))), offsets, labels, sources)


def recordings_in(arrays: Arrays, where: str) -> Recordings:
    """Recordings from arrays x, y, p, t (microseconds), offsets and label, the layout of this project's .npz files."""
    columns = [arrays[name] for name in ("x", "y", "p", "t")]
    offsets, labels = arrays["offsets"], arrays["label"]
    if any(q.ndim != 1 or q.dtype.kind not in "iu" for q in (*columns, offsets, labels)):
        raise ValueError(f"{where}: x, y, p, t, offsets and label must be rows of whole numbers")
    x, y, p, t = columns
    if {len(q) for q in columns} != {len(t)} or len(offsets) != len(labels) + 1:
        raise ValueError(f"{where}: expected as many x, y and p as t, and one more offset than labels")
    offsets = offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != len(t) or (np.diff(offsets) < 0).any():
        raise ValueError(f"{where}: offsets must rise from 0 to the number of events, {len(t)}")
    return Recordings(Recording(x, y, p, t / MICROSECONDS), offsets, labels)


def samples_of(parts: Iterable[Recordings], sensor: Sensor, name: str) -> Samples:
    """Convert recordings part by part. Tokens need a fifth to a half of the memory of events."""
    made = [part.samples(sensor, name) for part in parts if len(part)]
    if not made:
        raise ValueError(f"{name}: there are no recordings")
    sizes = np.concatenate([np.diff(samples.offsets) for samples in made])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    inputs, targets = (np.concatenate([getattr(samples, q) for samples in made]) for q in ("inputs", "targets"))
    gaps = np.concatenate([samples.dt for samples in made if samples.dt is not None])
    return Samples(inputs, targets, offsets, gaps, name=name)
