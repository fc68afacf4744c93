"""Prophesee EVT 2.0: words of 32 bits, little-endian.

    type (bits 28 to 31)   0 darker, 1 brighter, 8 time, A trigger, E and F other
    events                 time (bits 22 to 27)   x (bits 11 to 21)   y (bits 0 to 10)
    time                   the upper 28 bits of the time of the events that follow

The time has 34 bits and overflows after 4.8 hours. Events before the first time word have no time and are left out.
"""

import numpy as np
from jaxtyping import Int

from s7.events.container import Events
from s7.events.formats.base import ByteFormat
from s7.events.formats.clock import Unwrapped
from s7.events.formats.words import RawDecoder, raw_header, raw_version, sniffed_header
from s7.events.formats.writers import Checked, high_words

TIME, OTHERS = 8, (0xA, 0xE, 0xF)
LARGEST = 2047
HIGH_BITS, LOW_BITS = 28, 6


class Evt2(ByteFormat, name="evt2"):
    """Prophesee EVT 2.0 (.raw)."""

    extensions = (".evt2",)
    written_as = (".evt2",)

    def sniff(self, start):
        return raw_version(sniffed_header(start)) == "2"

    def decoder(self, where):
        return Evt2Decoder(where)

    def write(self, file, blocks, sensor):
        file.write(raw_header("2", sensor))
        high = None
        for block in Checked(blocks, "EVT 2.0", LARGEST, LARGEST, longest_gap=2 ** (HIGH_BITS + LOW_BITS - 1) - 64):
            highs = block.t >> LOW_BITS
            values, counts = high_words(highs, high, 2**HIGH_BITS)
            high = int(highs[-1])
            words = np.full(len(values) + len(block), TIME << 28, np.uint32)
            places = np.arange(len(block)) + np.cumsum(counts)
            is_event = np.zeros(len(words), bool)
            is_event[places] = True
            words[~is_event] |= values.astype(np.uint32)
            x, y, p = (column.astype(np.uint32) for column in (block.x, block.y, block.p))
            words[places] = p << 28 | (block.t & 63).astype(np.uint32) << 22 | x << 11 | y
            file.write(words.astype("<u4").tobytes())


class HighTimes:
    """The upper bits of the time, set by words of their own, for the words that follow each of them."""

    def __init__(self) -> None:
        self._unwrapped = Unwrapped(2**HIGH_BITS)
        self._last: int | None = None

    def of(
        self, words: Int[np.ndarray, " T"], values: np.ndarray, events: Int[np.ndarray, " E"]
    ) -> tuple[int, Int[np.ndarray, " F"]]:
        """The upper bits of each event's time, shifted into place.

        Args:
            words: The indices of time words, rising.
            values: Their values.
            events: The indices of words with events, rising.

        Returns:
            The number of events without a time, which come first, and the times of the others.
        """
        highs = self._unwrapped(values) << LOW_BITS
        starts = np.searchsorted(events, words)
        untimed = 0
        if self._last is None:
            untimed = int(starts[0]) if len(starts) else len(events)
        else:
            highs, starts = np.concatenate([[self._last], highs]), np.concatenate([[0], starts])
        if len(highs):
            self._last = int(highs[-1])
        return untimed, np.repeat(highs, np.diff(starts, append=len(events)))


class Evt2Decoder(RawDecoder):
    """Decodes EVT 2.0."""

    word = np.dtype("<u4")
    version = "2"

    def __init__(self, where: str):
        super().__init__(where)
        self._times = HighTimes()

    def _words(self, words):
        kinds = words >> 28
        places, times = np.flatnonzero(kinds < 2), np.flatnonzero(kinds == TIME)
        if len(places) + len(times) < len(words):
            wrong = np.flatnonzero((kinds > 1) & ~np.isin(kinds, (TIME, *OTHERS)))
            if len(wrong):
                self.unknown_word(int(wrong[0]), int(kinds[wrong[0]]))
        untimed, t = self._times.of(times, words[times] & (2**HIGH_BITS - 1), places)
        places = places[untimed:]
        chosen = words[places]
        t += (chosen >> 22) & 63
        x, y = (chosen >> 11 & 0x7FF).astype(np.uint16), (chosen & 0x7FF).astype(np.uint16)
        self.check_positions(x, y, lambda n: int(places[n]))
        return Events(x, y, t, (chosen >> 28).astype(np.uint8), self.sensor)
