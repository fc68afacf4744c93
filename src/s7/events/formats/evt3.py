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
from s7.events.formats.words import RawDecoder, raw_header, raw_version, set_bits, sniffed_header
from s7.events.formats.writers import Checked, high_words

Y, X, BASE, VECTOR_12, VECTOR_8, TIME_LOW, TIME_HIGH = 0, 2, 3, 4, 5, 6, 8
OTHERS = (7, 0xA, 0xE, 0xF)
# A y or a polarity that was not set yet.
UNSET = 0x8000
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
        self._high = -1  # negative: not known yet
        self._low = 0
        self._y = UNSET
        self._base = (0, UNSET)  # x of the next pixel of the vector, and its polarity

    def _words(self, words):
        kinds = words >> 12
        is_y, is_base, is_low, is_high = (kinds == kind for kind in (Y, BASE, TIME_LOW, TIME_HIGH))
        is_vector = (kinds == VECTOR_12) | (kinds == VECTOR_8)
        is_event = is_vector | (kinds == X)
        self._check_kinds(kinds, is_y | is_base | is_low | is_high | is_event)
        places = np.flatnonzero(is_event)
        t = self._times(words, np.flatnonzero(is_high), is_low, places)
        rows = _Runs(is_y)
        y = rows.at(places, words.take(rows.starts), self._y)
        self._y = int(words[rows.starts[-1]]) if len(rows.starts) else self._y
        if len(places) and (y[0] == UNSET or t[0] < 0):
            known = (y != UNSET) & (t >= 0)
            places, t, y = places[known], t[known], y[known]
        chosen = words.take(places)
        x, y, p = chosen & np.uint16(0x7FF), y & np.uint16(0x7FF), (chosen >> 11 & 1).astype(np.uint8)
        if is_vector.any() or is_base.any():
            vectors = np.flatnonzero(is_vector.take(places))
            x[vectors], p[vectors], valid = self._vectors(words, kinds, _Runs(is_base), is_vector, places[vectors])
            masks = np.ones(len(places), np.uint16)
            masks[vectors] = chosen[vectors] & valid
            bits = set_bits(masks.astype("<u2"))
            each = bits >> 4
            places, y, t, p = places[each], y.take(each), t.take(each), p.take(each)
            x = x.take(each) + (bits & 15).astype(np.uint16)
            if len(x) and x.max() > LARGEST:
                self.fail(self.position(int(places[np.argmax(x > LARGEST)])), f"a vector goes beyond x={LARGEST}")
        self.check_positions(x, y, lambda n: int(places[n]))
        return Events(x, y, t, p, self.sensor)

    def _check_kinds(self, kinds: UInt16[np.ndarray, " W"], known: Bool[np.ndarray, " W"]) -> None:
        others = np.flatnonzero(~known)
        wrong = others[~np.isin(kinds[others], OTHERS)]
        if len(wrong):
            self.unknown_word(int(wrong[0]), int(kinds[wrong[0]]))

    def _times(
        self,
        words: UInt16[np.ndarray, " W"],
        high_words: Int[np.ndarray, " T"],
        is_low: Bool[np.ndarray, " W"],
        places: Int[np.ndarray, " E"],
    ) -> Int[np.ndarray, " E"]:
        """The time of each word in `places`; negative if it is not known."""
        highs = np.concatenate([[self._high], self._unwrapped(words.take(high_words) & np.uint16(0xFFF))])
        # A new upper part is also a lower part of 0. One that is repeated changes nothing.
        is_low[high_words[highs[1:] != highs[:-1]]] = True
        low_words = _Runs(is_low)
        set_by = words.take(low_words.starts)
        lows = (set_by & np.uint16(0xFFF)) * (set_by >> 12 == TIME_LOW)
        low = low_words.at(places, lows, self._low)
        self._high, self._low = int(highs[-1]), int(lows[-1]) if len(lows) else self._low
        ends = np.append(np.searchsorted(places, high_words), len(places))
        return np.repeat(highs << 12, np.diff(ends, prepend=0)) + low

    def _vectors(
        self,
        words: UInt16[np.ndarray, " W"],
        kinds: UInt16[np.ndarray, " W"],
        bases: "_Runs",
        is_vector: Bool[np.ndarray, " W"],
        vectors: Int[np.ndarray, " V"],
    ) -> tuple[UInt16[np.ndarray, " V"], UInt16[np.ndarray, " V"], UInt16[np.ndarray, " V"]]:
        """The first x, the polarity and the bits that count of the vector words `vectors`."""
        sizes = np.where(kinds == VECTOR_12, 12, 8) * is_vector
        pixels = np.cumsum(sizes)  # of all vectors up to each word
        starts = words.take(bases.starts)
        origins = (starts & np.uint16(0x7FF)).astype(np.int64) - pixels.take(bases.starts)
        first = bases.at(vectors, origins, self._base[0]) + (pixels - sizes).take(vectors)
        if len(first) and first.max() > LARGEST:
            self.fail(self.position(int(vectors[np.argmax(first > LARGEST)])), f"a vector goes beyond x={LARGEST}")
        polarity = bases.at(vectors, starts >> 11 & 1, self._base[1])
        if len(starts):
            self._base = int(origins[-1]), int(starts[-1] >> 11 & 1)
        self._base = min(self._base[0] + int(pixels[-1]), LARGEST + 1), self._base[1]
        valid = np.where(kinds.take(vectors) == VECTOR_12, 0xFFF, 0xFF) * (polarity != UNSET)
        return first.astype(np.uint16), polarity & 1, valid.astype(np.uint16)


class _Runs:
    """The state that some words set for all words that follow, up to the next of them.

    Attributes:
        starts: The indices of the words that set the state.
    """

    def __init__(self, is_start: Bool[np.ndarray, " W"]):
        self.starts = np.flatnonzero(is_start)
        self._number = np.cumsum(is_start, dtype=np.int32)

    def at(self, places: Int[np.ndarray, " E"], values: np.ndarray, before: int) -> np.ndarray:
        """The state at some words.

        Args:
            places: The indices of these words.
            values: The states that are set.
            before: The state before the first of them.
        """
        states = np.empty(len(values) + 1, values.dtype)
        states[0], states[1:] = before, values
        return states.take(self._number.take(places))
