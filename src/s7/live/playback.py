"""A recording that is played to a stream: in real time, faster or slower, or as fast as possible."""

import time
from collections.abc import Callable, Iterator

import numpy as np

from s7.live.inputs import Batch, Inputs
from s7.live.pacing import Clock, Pacer
from s7.live.sources import open_source

# Events that are taken at once if the speed is not limited.
AT_ONCE = 8192
# Seconds between two looks at the clock, and between the end of a recording and its repetition.
TICK = 0.01
INTERMISSION = 0.5


class Playback:
    """Plays a file.

    Args:
        path: The file.
        inputs: What the model reads.
        name: The name of the file for messages; by default its path.
        recording: Which recording to play, from 0, if the file holds several.
        clip: Whether events that go back in time are taken as simultaneous with the one before, instead of an error.
        speed: How many seconds of the recording pass in a second; None for as fast as possible.
        max_lag: Events that are later than this, in seconds, are dropped.
        clock: The clock, in seconds.
    """

    def __init__(
        self,
        path: str,
        inputs: Inputs,
        *,
        name: str | None = None,
        recording: int | None = None,
        clip: bool = False,
        speed: float | None = 1.0,
        max_lag: float = 0.1,
        clock: Clock = time.monotonic,
    ):
        self.path, self.name = path, name or path
        self._recording, self._clip = recording, clip
        self._inputs, self._max_lag = inputs, max_lag
        self._pacer = Pacer(inputs.seconds, speed or 1.0, clock)
        self._is_paced = speed is not None and inputs.timed
        self._batches: Iterator[Batch] | None = None
        self._waiting: Batch | None = None
        self.is_playing = False
        self.is_over = False
        self.repeats = False
        self.dropped = 0

    @property
    def speed(self) -> float | None:
        """How many seconds of the recording pass in a second; None for as fast as possible."""
        return self._pacer.speed if self._is_paced else None

    @speed.setter
    def speed(self, speed: float | None) -> None:
        paced = speed is not None and self._inputs.timed
        if paced and not self._is_paced and self._waiting is not None and len(self._waiting):
            assert self._waiting.times is not None
            self._pacer.start(float(self._waiting.times[0]))
            if not self.is_playing:
                self._pacer.pause()
        self._is_paced = paced
        if speed is not None:
            self._pacer.speed = speed

    def play(self) -> None:
        """Start or continue."""
        self.is_playing = True
        self._pacer.resume()

    def pause(self) -> None:
        """Stop until `play`."""
        self.is_playing = False
        self._pacer.pause()

    def rewind(self) -> None:
        """Go back to the start."""
        self._batches = self._waiting = None
        self.is_over = False

    def take(self, most: Callable[[int], int] = lambda events: events) -> Batch | None:
        """The events that are due; None at the end, where `is_over` becomes True.

        Args:
            most: How many of a number of events may be taken now. The others wait if the speed is not limited, and are
                dropped otherwise.

        Raises:
            ValueError, OSError: The file cannot be read, naming the file and the position.
        """
        waiting = self._next()
        if waiting is None:
            self.is_over, self.is_playing = True, False
            return None
        if not self._is_paced or waiting.times is None:
            taken = most(min(AT_ONCE, len(waiting)))
            self._waiting = waiting.part(taken, len(waiting))
            return waiting.part(0, taken)
        due = int(np.searchsorted(waiting.times, self._pacer.position, "right"))
        late = int(np.searchsorted(waiting.times[:due], self._pacer.position_before(self._max_lag), "left"))
        end = late + most(due - late)
        self.dropped += late + due - end
        self._waiting = waiting.part(due, len(waiting))
        return waiting.part(late, end)

    def wait(self) -> float:
        """Seconds until the next events are due."""
        waiting = self._waiting
        if not self._is_paced or waiting is None or waiting.times is None or not len(waiting):
            return 0.0
        return min(max(self._pacer.wait(float(waiting.times[0])), TICK), 0.25)

    def lag(self, moment: float | None) -> float:
        """Seconds since events of this time were due."""
        if not self._is_paced or moment is None or not self.is_playing:
            return 0.0
        return self._pacer.lag(moment)

    def _next(self) -> Batch | None:
        if self._batches is None:
            self._batches = open_source(self.path, self._inputs, self.name, self._recording, clip=self._clip)
            self._waiting = next(self._batches, None)
            if self._waiting is not None and self._waiting.times is not None:
                self._pacer.start(float(self._waiting.times[0]))
        elif self._waiting is None or not len(self._waiting):
            self._waiting = next(self._batches, None)
        return self._waiting
