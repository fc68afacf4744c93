"""Timestamps that decrease in a stream of events."""

from s7.events.container import Events


class Order:
    """Counts the events that are earlier than the event before them.

    Attributes:
        events: The number of events so far.
        count: The number of decreases so far.
    """

    def __init__(self, where: str):
        self.events = 0
        self.count = 0
        self._where = where
        self._first = ""
        self._last: int | None = None

    def watch(self, block: Events) -> None:
        """Count the decreases in the next events of the stream."""
        if not len(block):
            return
        back = block.jumps_back()
        count, place = len(back), int(back[0]) if len(back) else 0
        if self._last is not None and block.t[0] < self._last:
            count, place = count + 1, 0
        if count and not self.count:
            before = block.t[place - 1] if place else self._last
            self._first = f"event {self.events + place}, from {before} to {block.t[place]} µs"
        self.count += count
        self.events += len(block)
        self._last = int(block.t[-1])

    def require(self, block: Events) -> None:
        """Raise a ValueError if the next events of the stream are not in the order of time."""
        self.watch(block)
        if self.count:
            raise ValueError(f"{self._where}: time goes back at {self._first}")

    def report(self) -> str:
        """A line about the decreases, of which there must be some."""
        times = "once" if self.count == 1 else f"{self.count:,} times, first"
        return f"{self._where}: time goes back {times} at {self._first}"
