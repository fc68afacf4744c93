"""The .bin files of N-MNIST and N-Caltech101: events of five bytes.

    x (8 bits)   y (8 bits)   polarity (1 bit), time in microseconds (23 bits, big-endian)

An entry with y = 240 is not an event but an overflow of the clock: 2**13 is added to all later times.
"""

import numpy as np

from s7.events.container import Events
from s7.events.formats.base import ByteFormat
from s7.events.formats.words import WordDecoder

SIZE = 5
OVERFLOW_ROW, OVERFLOW = 240, 2**13
# Events that must be in order for a stream of bytes to resemble this format.
RESEMBLING = 16


class NMnist(ByteFormat, name="nmnist"):
    """The .bin files of N-MNIST and N-Caltech101."""

    extensions = (".bin",)

    def resembles(self, start):
        whole = start[: len(start) // SIZE * SIZE]
        if len(whole) < RESEMBLING * SIZE:
            return False
        t = NMnistDecoder("").feed(whole).t
        return bool(len(t) >= RESEMBLING and (t[1:] >= t[:-1]).all() and t[-1] > t[0])

    def decoder(self, where):
        return NMnistDecoder(where)


class NMnistDecoder(WordDecoder):
    """Decodes the .bin files of N-MNIST."""

    word = np.dtype((np.void, SIZE))

    def __init__(self, where: str):
        super().__init__(where)
        self._overflows = 0

    def _words(self, words):
        raw = words.view(np.uint8).reshape(-1, SIZE)
        x, y, high, middle, low = (np.ascontiguousarray(column) for column in raw.T)
        t = high.astype(np.int32) & 127
        for part in (middle, low):
            t <<= 8
            t |= part
        t = t.astype(np.int64)
        p = high >> 7
        overflow = y == OVERFLOW_ROW
        if self._overflows or overflow.any():
            count = self._overflows + np.cumsum(overflow)
            self._overflows = int(count[-1])
            t += OVERFLOW * count
            kept = ~overflow
            x, y, t, p = x[kept], y[kept], t[kept], p[kept]
        return Events(x.astype(np.uint16), y.astype(np.uint16), t, p, self.sensor)
