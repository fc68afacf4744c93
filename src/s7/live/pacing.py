"""Playback of recorded time against the clock: when an event is due, and how late it is."""

import time
from collections.abc import Callable

Clock = Callable[[], float]


class Pacer:
    """Maps the times of a recording to the clock, at any speed and with pauses.

    Args:
        seconds: The length of the recording's unit of time.
        speed: How many seconds of the recording pass in a second.
        clock: The clock, in seconds.
    """

    def __init__(self, seconds: float, speed: float = 1.0, clock: Clock = time.monotonic):
        self._seconds, self._clock = seconds, clock
        self._speed = speed
        # Playback was at `_position` when the clock showed `_since`; None while it is paused.
        self._position, self._since = 0.0, None  # type: float, float | None

    @property
    def speed(self) -> float:
        """How many seconds of the recording pass in a second."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        if self._since is not None:
            self._position, self._since = self.position, self._clock()
        self._speed = speed

    @property
    def is_running(self) -> bool:
        """Whether time passes."""
        return self._since is not None

    @property
    def position(self) -> float:
        """The time in the recording up to which events are due."""
        if self._since is None:
            return self._position
        return self._position + (self._clock() - self._since) * self._speed / self._seconds

    def position_before(self, seconds: float) -> float:
        """The time in the recording that was due this many seconds ago."""
        return self.position - seconds * self._speed / self._seconds

    def start(self, position: float) -> None:
        """Play from this time in the recording."""
        self._position, self._since = position, self._clock()

    def pause(self) -> None:
        """Stop the time."""
        self._position, self._since = self.position, None

    def resume(self) -> None:
        """Let the time pass again."""
        if self._since is None:
            self._since = self._clock()

    def wait(self, moment: float) -> float:
        """Seconds until events of this time are due; negative if they are late."""
        return (moment - self.position) * self._seconds / self._speed

    def lag(self, moment: float) -> float:
        """Seconds since events of this time were due; 0 if they are not due yet."""
        return max(0.0, -self.wait(moment))
