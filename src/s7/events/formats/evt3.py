"""Prophesee EVT 3.0: words of 16 bits, little-endian, that change a state or add events to it.

    0 y (bits 0 to 10)            2 one event: x (bits 0 to 10), polarity (bit 11)
    3 first x and polarity of a vector, as in 2
    4 and 5 the next 12 or 8 pixels of the vector, one event for each bit that is set
    6 lower and 8 upper 12 bits of the time                        7, A, E and F other

The type is in bits 12 to 15. The time has 24 bits and overflows after 16.8 seconds. A new upper part sets the lower
part to 0. Events before the first time and the first y are left out.
"""

import numpy as np
from jaxtyping import Bool, Int, UInt16

from s7.events.container import Events
from s7.events.formats.base import ByteFormat
from s7.events.formats.clock import Unwrapped
from s7.events.formats.words import RawDecoder, raw_header, raw_version, sniffed_header
from s7.events.formats.writers import Checked, high_words

Y, X, BASE, VECTOR_12, VECTOR_8, TIME_LOW, TIME_HIGH = 0, 2, 3, 4, 5, 6, 8
OTHERS = (7, 0xA, 0xE, 0xF)
# A y that was not set yet. It has more bits than any y.
UNSET = 0xFFFF
LARGEST = 2047


class Evt3(ByteFormat, name="evt3"):
    """Prophesee EVT 3.0 (.raw)."""

    extensions = (".evt3",)
    written_as = (".raw", ".evt3")

    def sniff(self, start):
        return raw_version(sniffed_header(start)) == "3"

    def decoder(self, where):
        return Evt3Decoder(where)

    def write(self, file, blocks, sensor):
        file.write(raw_header("3", sensor))
        last: tuple[int | None, int, int] = (None, -1, -1)
        for block in Checked(blocks, "EVT 3.0", LARGEST, LARGEST, longest_gap=2**23 - 2**12):
            file.write(_encoded(block, *last).astype("<u2").tobytes())
            last = int(block.t[-1]) >> 12, int(block.t[-1]) & 0xFFF, int(block.y[-1])


def _encoded(block: Events, high: int | None, low: int, y: int) -> UInt16[np.ndarray, " W"]:
    """Words for events that follow one with these parts of its time and this y: up to four kinds before each event."""
    highs, lows = block.t >> 12, block.t & 0xFFF
    values, counts = high_words(highs, high, 2**12)
    has_low = (counts > 0) | (np.diff(lows, prepend=low) != 0)
    has_y = np.diff(block.y.astype(np.int64), prepend=y) != 0
    ends = np.cumsum(counts + has_low + has_y + 1)
    words = np.full(ends[-1], TIME_HIGH << 12, np.uint16)
    is_high = np.ones(len(words), bool)
    for places, content in (
        (ends - 1, X << 12 | block.p.astype(np.uint16) << 11 | block.x),
        ((ends - 2)[has_y], block.y[has_y]),
        ((ends - 2 - has_y)[has_low], TIME_LOW << 12 | lows[has_low]),
    ):
        words[places] = content
        is_high[places] = False
    words[is_high] |= values.astype(np.uint16)
    return words


class Evt3Decoder(RawDecoder):
    """Decodes EVT 3.0."""

    word = np.dtype("<u2")
    version = "3"

    def __init__(self, where: str):
        super().__init__(where)
        self._unwrapped = Unwrapped(2**12)
        self._high = self._t = -1  # negative: not set yet
        self._y = UNSET
        self._base: tuple[int, int] | None = None  # x and polarity

    def _words(self, words):
        kinds = words >> 12
        is_time = (kinds == TIME_LOW) | (kinds == TIME_HIGH)
        is_y = kinds == Y
        is_vector = (kinds == VECTOR_12) | (kinds == VECTOR_8)
        is_event = is_vector | (kinds == X)
        is_base = kinds == BASE
        self._check_kinds(kinds, is_time | is_y | is_event | is_base)
        places = np.flatnonzero(is_event)
        t = self._times(words, is_time)[np.cumsum(is_time, dtype=np.int32)[places]]
        rows = np.concatenate([np.array([self._y], np.uint16), words[is_y] & np.uint16(0x7FF)])
        y = rows[np.cumsum(is_y, dtype=np.int32)[places]]
        if self._y == UNSET or (len(t) and t[0] < 0):
            known = (y != UNSET) & (t >= 0)
            places, t, y = places[known], t[known], y[known]
        self._y = int(rows[-1])
        chosen = words[places]
        x, p = chosen & np.uint16(0x7FF), (chosen >> 11 & 1).astype(np.uint8)
        if is_vector.any() or is_base.any():
            vectors, firsts, polarities = self._vectors(words, kinds, is_vector, is_base)
            masks = np.ones(len(words), np.uint16)
            masks[vectors] = words[vectors] & np.where(kinds[vectors] == VECTOR_12, np.uint16(0xFFF), np.uint16(0xFF))
            masks[vectors[polarities < 0]] = 0
            first, polarity = np.zeros(len(words), np.uint16), np.zeros(len(words), np.uint8)
            first[places], polarity[places] = x, p
            first[vectors], polarity[vectors] = firsts, polarities > 0
            bits = np.flatnonzero(np.unpackbits(masks[places].astype("<u2").view(np.uint8), bitorder="little"))
            each = bits >> 4
            places = places[each]
            x, y, t, p = first[places] + (bits & 15).astype(np.uint16), y[each], t[each], polarity[places]
            if len(x) and x.max() > LARGEST:
                self.fail(self.position(int(places[np.argmax(x > LARGEST)])), f"a vector goes beyond x={LARGEST}")
        self.check_positions(x, y, lambda n: int(places[n]))
        return Events(x, y, t, p, self.sensor)

    def _check_kinds(self, kinds: UInt16[np.ndarray, " W"], known: Bool[np.ndarray, " W"]) -> None:
        others = np.flatnonzero(~known)
        wrong = others[~np.isin(kinds[others], OTHERS)]
        if len(wrong):
            self.unknown_word(int(wrong[0]), int(kinds[wrong[0]]))

    def _times(self, words: UInt16[np.ndarray, " W"], is_time: Bool[np.ndarray, " W"]) -> Int[np.ndarray, " T"]:
        """The time before the first word and after each time word."""
        values = words[is_time]
        is_high = values >> 12 == TIME_HIGH
        parts = (values & np.uint16(0xFFF)).astype(np.int64)
        highs = np.concatenate([[self._high], self._unwrapped(parts[is_high])])
        high = highs[np.cumsum(is_high)]
        times = np.concatenate([[self._t], (high << 12) | np.where(is_high, 0, parts)])
        # An upper part that is repeated changes nothing: the time is that of the word before.
        repeated = np.flatnonzero(is_high)[highs[1:] == highs[:-1]] + 1
        if len(repeated):
            source = np.arange(len(times))
            source[repeated] = 0
            times = times[np.maximum.accumulate(source)]
        self._high, self._t = int(highs[-1]), int(times[-1])
        return times

    def _vectors(self, words, kinds, is_vector, is_base) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The indices of vector words, the first x of each, and its polarity: -1 if no vector was begun."""
        vectors, bases = np.flatnonzero(is_vector), np.flatnonzero(is_base)
        before = np.concatenate([[0], np.cumsum(np.where(kinds[vectors] == VECTOR_12, 12, 8))])
        x, p = (0, -1) if self._base is None else self._base
        starts = np.concatenate([[x], (words[bases] & np.uint16(0x7FF)).astype(np.int64)])
        polarities = np.concatenate([[p], (words[bases] >> 11 & 1).astype(np.int64)])
        # The pixels of earlier vectors do not count.
        starts[1:] -= before[np.searchsorted(vectors, bases)]
        which = np.searchsorted(bases, vectors)
        firsts = starts[which] + before[:-1]
        if polarities[-1] >= 0:
            self._base = int(min(starts[-1] + before[-1], UNSET)), int(polarities[-1])
        wrong = np.flatnonzero(firsts > LARGEST)
        if len(wrong):
            self.fail(self.position(int(vectors[wrong[0]])), f"a vector goes beyond x={LARGEST}")
        return vectors, firsts, polarities[which]
