"""Recordings of events laid end to end, and the sensor that they come from.

Times are milliseconds. An event's polarity is 0 or 1; the channels of a cochlea, or of any row of sensors, are a sensor
one pixel high that has no polarity.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Integer, Shaped

from s7.data.samples import Samples


class Events(NamedTuple):
    """One recording, in the order of time."""

    x: Integer[np.ndarray, " E"]
    y: Integer[np.ndarray, " E"]
    p: Integer[np.ndarray, " E"]
    t: Float[np.ndarray, " E"]


@dataclass(frozen=True)
class Sensor:
    """Pixels, `width` by `height`, each with one or two polarities; every event is one of `tokens` tokens."""

    width: int
    height: int = 1
    polarities: int = 2

    @property
    def tokens(self) -> int:
        """How many kinds of events there are."""
        return self.polarities * self.width * self.height

    def tokens_of(self, events: Events) -> Integer[np.ndarray, " E"]:
        """Each event as a number, in as few bytes as they all fit in. Events must be on the sensor."""
        pixels = events.x.astype(np.int32) * self.height + events.y
        tokens = self.polarities * pixels + (events.p if self.polarities > 1 else 0)
        return tokens.astype(np.min_scalar_type(self.tokens - 1))

    def events_of(self, tokens: Integer[np.ndarray, " E"], t: Float[np.ndarray, " E"]) -> Events:
        """The events that these tokens stand for."""
        tokens = tokens.astype(np.int64)
        p = tokens % self.polarities
        pixels = tokens // self.polarities
        return Events(pixels // self.height, pixels % self.height, p, t)

    def check(self, events: Events, where: str) -> None:
        """Raises an error that names the first event that is not on the sensor or goes back in time."""
        limits = {"x": self.width, "y": self.height, "p": self.polarities}
        for name, limit in limits.items():
            values = getattr(events, name)
            bad = (values < 0) | (values >= limit)
            if bad.any():
                n = int(np.argmax(bad))
                raise ValueError(f"{where}: event {n} has {name}={values[n]}, outside of 0 to {limit - 1}")
        back = np.diff(events.t) < 0
        if back.any():
            n = int(np.argmax(back)) + 1
            raise ValueError(f"{where}: time goes back at event {n}, from {events.t[n - 1]:g} to {events.t[n]:g} ms")


@dataclass(frozen=True, eq=False)
class Recordings:
    """Recordings end to end, each with a label; recording n is events[offsets[n] : offsets[n + 1]]."""

    events: Events
    offsets: Int[np.ndarray, " M"]
    labels: Integer[np.ndarray, " N"]

    def __len__(self) -> int:
        return len(self.labels)

    def samples(self, sensor: Sensor, name: str, chosen: Shaped[np.ndarray, "..."] | None = None) -> Samples:
        """Tokens and the gaps between them, in milliseconds; the first gap of a recording is 0.

        `chosen` are the numbers of the recordings to take, or a mask of them. An empty recording, an event outside of
        the sensor and time that goes back are errors that name the recording and the event.
        """
        numbers = np.arange(len(self)) if chosen is None else np.arange(len(self))[chosen]
        tokens, gaps = [], []
        for n in numbers:
            at = slice(self.offsets[n], self.offsets[n + 1])
            events = Events(*(q[at] for q in self.events))
            if not len(events.t):
                raise ValueError(f"{name}: recording {n} is empty; leave it out")
            sensor.check(events, f"{name}: recording {n}")
            tokens.append(sensor.tokens_of(events))
            gaps.append(np.diff(events.t, prepend=events.t[:1]).astype(np.float32))
        return Samples.of(tokens, self.labels[numbers].astype(np.int32), gaps, per_step=False, name=name)


def recordings_of(recordings: list[Events], labels: Integer[np.ndarray, " N"]) -> Recordings:
    """Separate recordings laid end to end."""
    offsets = np.concatenate([[0], np.cumsum([len(events.t) for events in recordings])]).astype(np.int64)
    return Recordings(Events(*(np.concatenate(q) for q in zip(*recordings, strict=True))), offsets, labels)
