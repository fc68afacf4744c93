"""What a server allows its clients."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits of a server.

    Attributes:
        connections: Connections at the same time.
        rate: Events per second of one connection. More are dropped, or wait if a recording is played.
        message: Bytes of one message.
        upload: Bytes of an uploaded file.
        idle: Seconds without a message and without playback before a connection is closed. A session whose connection
            is lost is kept as long.
        lag: Seconds. Events of a recording that are later than this are dropped.
        send: Seconds that a client may take to read a message.
    """

    connections: int = 32
    rate: float = 1e6
    message: int = 1 << 20
    upload: int = 64 << 20
    idle: float = 300.0
    lag: float = 0.1
    send: float = 10.0


class Allowance:
    """A budget of events that refills with time, up to that of one second.

    Args:
        rate: Events per second.
        clock: The clock, in seconds.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic):
        self._rate, self._clock = rate, clock
        self._left, self._then = rate, clock()

    def take(self, events: int) -> int:
        """How many of these events are allowed now; they are taken from the budget."""
        now = self._clock()
        self._left = min(self._rate, self._left + (now - self._then) * self._rate)
        self._then = now
        allowed = min(events, int(self._left))
        self._left -= allowed
        return allowed

    def wait(self, events: int) -> float:
        """Seconds until this many events are allowed, at most one second."""
        return min(1.0, max(0.0, min(events, self._rate) - self._left) / self._rate)
