"""Prophesee DAT: lines of text, two bytes (type and size of an event), then events of 8 bytes, little-endian.

    time in microseconds (32 bits)   x (bits 0 to 13)   y (bits 14 to 27)   polarity (bits 28 to 31)

Files of version 1, or without a version, have x in bits 0 to 8, y in bits 9 to 16 and the polarity in bit 17. The time
overflows after 71.6 minutes.
"""

import numpy as np

from s7.events.container import Events
from s7.events.formats.base import ByteFormat
from s7.events.formats.clock import Unwrapped
from s7.events.formats.words import WordDecoder, percent_header, raw_version, sensor_size, sniffed_header
from s7.events.formats.writers import Checked

# Types of events that are changes of brightness.
KINDS = (0x00, 0x0C)
SIZE = 8


class Dat(ByteFormat, name="dat"):
    """Prophesee DAT."""

    extensions = (".dat",)
    written_as = (".dat",)

    def sniff(self, start):
        fields = sniffed_header(start)
        return bool({"data", "version"} & set(fields)) and not raw_version(fields)

    def decoder(self, where):
        return DatDecoder(where)

    def write(self, file, blocks, sensor):
        size = "" if sensor is None else f"% Height {sensor[1]}\n% Width {sensor[0]}\n"
        file.write(f"% Data file containing CD events.\n% Version 2\n{size}".encode() + bytes([KINDS[1], SIZE]))
        for block in Checked(blocks, "DAT", 2**14 - 1, 2**14 - 1, longest_gap=2**31 - 1, latest_start=2**32 - 1):
            x, y, p = (column.astype(np.uint32) for column in (block.x, block.y, block.p))
            words = np.empty(len(block), DatDecoder.word)
            words["t"], words["data"] = (block.t & (2**32 - 1)).astype(np.uint32), x | y << 14 | p << 28
            file.write(words.tobytes())


class DatDecoder(WordDecoder):
    """Decodes DAT."""

    word = np.dtype([("t", "<u4"), ("data", "<u4")])

    def __init__(self, where: str):
        super().__init__(where)
        self._unwrapped = Unwrapped(2**32)
        self._bits = (14, 28)  # where y and the polarity start

    def _header(self, data, last):
        found = percent_header(data, last)
        if found is None or len(data) < found[0] + 2:
            return None
        at, fields = found
        kind, size = data[at], data[at + 1]
        if size != SIZE:
            self.fail(at + 1, f"events of {size} bytes, expected {SIZE}; the header is damaged or not one of DAT")
        if kind not in KINDS:
            self.fail(at, f"holds events of type 0x{kind:02X}, expected 0x00 or 0x0C, changes of brightness")
        if fields.get("version", "0").split(".")[0] in ("0", "1"):
            self._bits = (9, 17)
        self.sensor = sensor_size(fields)
        return at + 2

    def _words(self, words):
        low, high = self._bits
        data = words["data"]
        x = (data & (2**low - 1)).astype(np.uint16)
        y = (data >> low & (2 ** (high - low) - 1)).astype(np.uint16)
        p = (data >> high & 1).astype(np.uint8)
        self.check_positions(x, y, lambda n: n)
        return Events(x, y, self._unwrapped(words["t"]), p, self.sensor)
