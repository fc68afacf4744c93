"""Numbers that describe a stream of events: count, times, rate, polarities, positions, order."""

from dataclasses import asdict, dataclass
from typing import Any

from s7.events.container import Events, Size
from s7.events.order import Order


@dataclass(frozen=True)
class Summary:
    """The description of a stream. Numbers that need events are None if there are none.

    Attributes:
        sensor: Width and height of the sensor, if they are known.
        events: The number of events.
        start: The earliest time in microseconds.
        end: The latest time in microseconds.
        seconds: The time from the earliest to the latest event.
        rate: Events per second, if they take longer than no time.
        brighter: The share of events of polarity 1.
        largest: The largest x and y.
        decreases: The number of events that are earlier than the event before them.
    """

    sensor: Size | None
    events: int
    start: int | None
    end: int | None
    seconds: float | None
    rate: float | None
    brighter: float | None
    largest: Size | None
    decreases: int

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)


class Statistics:
    """Collects the description of a stream block by block."""

    def __init__(self, where: str):
        self.order = Order(where)
        self._sensor: Size | None = None
        self._start: int | None = None
        self._end: int | None = None
        self._brighter = 0
        self._largest = (0, 0)

    def watch(self, block: Events) -> None:
        """Add the next events of the stream."""
        self.order.watch(block)
        self._sensor = block.sensor or self._sensor
        if not len(block):
            return
        start, end = int(block.t.min()), int(block.t.max())
        self._start = start if self._start is None else min(start, self._start)
        self._end = end if self._end is None else max(end, self._end)
        self._brighter += int(block.p.sum())
        self._largest = max(self._largest[0], int(block.x.max())), max(self._largest[1], int(block.y.max()))

    def summary(self) -> Summary:
        """The description of all events so far."""
        count = self.order.events
        seconds = None if self._start is None or self._end is None else (self._end - self._start) / 1e6
        return Summary(
            self._sensor,
            count,
            self._start,
            self._end,
            seconds,
            count / seconds if seconds else None,
            self._brighter / count if count else None,
            self._largest if count else None,
            self.order.count,
        )
