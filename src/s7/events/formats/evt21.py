"""Prophesee EVT 2.1: words of 64 bits, little-endian, with events of up to 32 pixels side by side.

    type (bits 60 to 63)   0 darker, 1 brighter, 8 time, A trigger, E and F other
    events                 time (bits 54 to 59)   x (bits 43 to 53)   y (bits 32 to 42)   one bit per pixel from x on
    time                   bits 32 to 59: the upper 28 bits of the time of the events that follow

Files whose header says endianness=legacy have the upper half of each word first.
"""

import numpy as np

from s7.events.container import Events
from s7.events.formats.base import ByteFormat
from s7.events.formats.evt2 import HIGH_BITS, OTHERS, TIME, HighTimes
from s7.events.formats.words import RawDecoder, raw_version, set_bits, sniffed_header


class Evt21(ByteFormat, name="evt2.1"):
    """Prophesee EVT 2.1 (.raw)."""

    extensions = (".evt21",)

    def sniff(self, start):
        return raw_version(sniffed_header(start)) == "2.1"

    def decoder(self, where):
        return Evt21Decoder(where)


class Evt21Decoder(RawDecoder):
    """Decodes EVT 2.1."""

    word = np.dtype([("mask", "<u4"), ("head", "<u4")])
    version = "2.1"

    def __init__(self, where: str):
        super().__init__(where)
        self._times = HighTimes()
        self._halves = ("mask", "head")

    def _options(self, options):
        if options.get("endianness") == "legacy":
            self._halves = ("head", "mask")

    def _words(self, words):
        # The fields of a record are its halves in the order of the file.
        first, second = (np.ascontiguousarray(words[name]) for name in ("mask", "head"))
        masks, heads = (first, second) if self._halves[0] == "mask" else (second, first)
        kinds = heads >> 28
        places, times = np.flatnonzero(kinds < 2), np.flatnonzero(kinds == TIME)
        if len(places) + len(times) < len(words):
            wrong = np.flatnonzero((kinds > 1) & ~np.isin(kinds, (TIME, *OTHERS)))
            if len(wrong):
                self.unknown_word(int(wrong[0]), int(kinds[wrong[0]]))
        untimed, t = self._times.of(times, heads[times] & (2**HIGH_BITS - 1), places)
        places = places[untimed:]
        chosen = heads[places]
        t += (chosen >> 22) & 63
        bits = set_bits(masks[places].astype("<u4"))
        rows = bits >> 5
        x = (chosen >> 11 & 0x7FF).astype(np.uint16)[rows] + (bits & 31).astype(np.uint16)
        y = (chosen & 0x7FF).astype(np.uint16)[rows]
        self.check_positions(x, y, lambda n: int(places[rows[n]]))
        return Events(x, y, t[rows], (chosen >> 28).astype(np.uint8)[rows], self.sensor)
