"""The time that training takes, and the part of it that is spent waiting for data."""

import time

from s7.training.checkpoint import Position


class Clock:
    """Measures an epoch and adds its time to the position."""

    def __init__(self, position: Position):
        self._at, self._before, self._began = position, position.seconds, time.perf_counter()
        self._cpu = position.cpu_seconds - time.process_time()
        self.first_batch, self.waited = position.batch, 0.0
        self._asked = 0.0

    @property
    def spent(self) -> float:
        """Seconds of this epoch."""
        return time.perf_counter() - self._began

    def read(self) -> None:
        """Update the position's time."""
        self._at.seconds = self._before + self.spent
        self._at.cpu_seconds = self._cpu + time.process_time()

    def waiting(self) -> "Clock":
        """A context that counts as waiting for data."""
        return self

    def __enter__(self) -> None:
        self._asked = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        now = time.perf_counter() - self._asked
        self.waited += now
        self._at.waited += now
