"""When a stream is asked for a prediction: after a number of events, or after a time of the recording."""

import math
import re
from dataclasses import dataclass

import numpy as np

from s7.data.gaps import SECONDS
from s7.live.inputs import Batch


@dataclass(frozen=True)
class Every:
    """An interval between predictions: a number of events, or seconds. One of them is None."""

    events: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> "Every":
        """Read "1000" (events) or "10ms" (a time, in ns, us, ms, s, min, h or D).

        Raises:
            ValueError: The text is neither.
        """
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([a-zA-Zµ]*)\s*", text)
        if found:
            number, unit = float(found[1]), found[2].replace("µ", "u")
            if not unit and number >= 1 and number == int(number):
                return cls(events=int(number))
            if unit in SECONDS and 0 < number < math.inf:
                return cls(seconds=number * SECONDS[unit])
        raise ValueError(f"{text!r} is neither a number of events, such as 1000, nor a time, such as 10ms")


class Schedule:
    """Divides batches at the places where predictions are due.

    Args:
        every: The interval.
        seconds: The length of the unit of the batches' times.
    """

    def __init__(self, every: Every, seconds: float):
        self._every = every
        self._interval = None if every.seconds is None else every.seconds / seconds
        self._seen = 0
        # Events since the last prediction, and the end of the present interval.
        self.pending = 0
        self._start, self._end = 0.0, None  # type: float, float | None

    def parts(self, batch: Batch) -> list[tuple[Batch, bool]]:
        """The batch in parts, and whether a prediction is due after each. A part may be empty."""
        made, start = [], 0
        for cut in self._cuts(batch):
            made.append((batch.part(start, cut), True))
            start = cut
        made.append((batch.part(start, len(batch)), False))
        self.pending = len(batch) - start if start or len(made) > 1 else self.pending + len(batch)
        self._seen += len(batch)
        return made

    @property
    def end(self) -> float | None:
        """The end of the present interval; None if it has no events, or if events are counted."""
        return self._end if self.pending else None

    def closes(self, position: float) -> bool:
        """Whether a prediction is due because the interval ended, without an event after its end."""
        if self._end is None or not self.pending or position < self._end:
            return False
        self.pending = 0
        return True

    def _cuts(self, batch: Batch) -> list[int]:
        if self._every.events is not None:
            size = self._every.events
            return list(range(size - self._seen % size, len(batch) + 1, size))
        if batch.times is None:
            raise ValueError("the model has no times; ask for a prediction after a number of events instead")
        times, cuts = batch.times, []
        if not len(times):
            return []
        if self._end is None or times[0] < self._start:  # the first event, or the clock was set back
            self._start = float(times[0])
            self._end = self._end_after(self._start)
        while times[-1] >= self._end:
            cut = int(np.searchsorted(times, self._end, "left"))
            if cut or self.pending:
                cuts.append(cut)
            self._end = self._end_after(float(times[cut]))
        return cuts

    def _end_after(self, moment: float) -> float:
        """The end of the interval that holds this time; intervals without events are skipped."""
        assert self._interval is not None
        end = self._start + (math.floor((moment - self._start) / self._interval) + 1) * self._interval
        return max(end, math.nextafter(moment, math.inf))  # an interval may be too short for float64
