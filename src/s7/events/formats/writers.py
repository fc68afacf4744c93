"""What the writers of formats share: times in counters of few bits, checks of ranges, numbers as text."""

from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Int, UInt8

from s7.events.container import Events
from s7.events.formats.base import Unwritable

# Time words that fill a gap; more are a sign of times that do not start near 0.
MOST_FILLED = 1_000_000


class Checked:
    """Blocks of events whose values fit into a format.

    Args:
        blocks: The events.
        form: The name of the format, for messages.
        largest_x: The largest x that the format holds.
        largest_y: The largest y that the format holds.
        longest_gap: The longest gap between times, in both directions, or None if it does not matter.
        latest_start: The latest time of the first event, or None if it does not matter.
    """

    def __init__(
        self,
        blocks: Iterable[Events],
        form: str,
        largest_x: int,
        largest_y: int,
        longest_gap: int,
        latest_start: int | None = None,
    ):
        self._blocks, self._form = blocks, form
        self._largest = {"x": largest_x, "y": largest_y}
        self._gap, self._start = longest_gap, latest_start
        self._count = 0
        self._last: int | None = None

    def __iter__(self) -> Iterator[Events]:
        for block in self._blocks:
            if len(block):
                self._check(block)
                self._count += len(block)
                self._last = int(block.t[-1])
                yield block

    def _check(self, block: Events) -> None:
        for name, limit in self._largest.items():
            values = getattr(block, name)
            if values.max() > limit:
                n = int(np.argmax(values > limit))
                raise Unwritable(f"event {self._count + n} has {name}={values[n]}; {self._form} holds 0 to {limit}")
        if block.t.min() < 0:
            n = int(np.argmax(block.t < 0))
            raise Unwritable(f"event {self._count + n} is at {block.t[n]} µs; {self._form} holds no negative times")
        if self._last is None and self._start is not None and block.t[0] > self._start:
            raise Unwritable(
                f"the first event is at {block.t[0]} µs, {self._form} files start at {self._start} µs at the latest; "
                "subtract the time of the first event"
            )
        gaps = np.diff(block.t, prepend=block.t[0] if self._last is None else self._last)
        wrong = (gaps < -self._gap) | (gaps > self._gap) if self._start is not None else gaps < -self._gap
        if wrong.any():
            n = int(np.argmax(wrong))
            raise Unwritable(
                f"event {self._count + n} is {gaps[n]} µs after the one before; {self._form} holds up to ±{self._gap}"
            )


def high_words(
    highs: Int[np.ndarray, " E"], last: int | None, period: int
) -> tuple[Int[np.ndarray, " T"], Int[np.ndarray, " E"]]:
    """The words that set the upper bits of the times of events.

    Steps of more than a quarter of the period are filled with words in between, as cameras do, so that every overflow
    can be seen.

    Args:
        highs: The upper bits of the time of each event, with as many bits as needed.
        last: Those of the event before, or None at the start of a file.
        period: The number of values that a word holds.

    Returns:
        The values of the words, and the number of words before each event.
    """
    steps = np.diff(highs, prepend=0 if last is None else last)
    counts = -(-np.abs(steps) // (period // 4))
    if last is None:
        counts[0] = max(counts[0], 1)
    if counts.sum() - np.count_nonzero(counts) > MOST_FILLED:
        raise Unwritable("the gaps between times are too long; subtract the time of the first event if it is late")
    starts = np.repeat(highs - steps, counts)
    parts = np.arange(len(starts)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    values = starts + np.repeat(steps, counts) * parts // np.maximum(np.repeat(counts, counts), 1)
    return values % period, counts


def decimal_digits(values: Int[np.ndarray, " E"]) -> UInt8[np.ndarray, "E W"]:
    """Whole numbers as text, right-aligned in rows of bytes. Bytes that are not used are 0."""
    size = np.abs(values)
    width = len(str(int(size.max()))) if len(values) else 1
    text = np.empty((len(values), width + 1), np.uint8)
    rest = size
    for place in range(width, 0, -1):
        above = rest // 10
        text[:, place] = rest - 10 * above + ord("0")
        text[:, place][(rest == 0) & (place < width)] = 0
        rest = above
    # The sign stands directly before the first digit; bytes that are 0 are dropped, so any place before it will do.
    text[:, 0] = np.where(values < 0, ord("-"), 0)
    return text
