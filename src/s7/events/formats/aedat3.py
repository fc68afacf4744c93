"""AEDAT 3.1, the format of the DVS-Gesture data set, recorded from iniVation cameras with jAER and cAER.

A file has lines that start with '#', up to #!END-HEADER, followed by packets. A packet is a header of 28 bytes, which
contains the number of events, and the events. Numbers are little-endian. Only packets of polarity events are read
(kind 1, eight bytes per event):

    data       valid (bit 0)   polarity (bit 1)   y (bits 2 to 16)   x (bits 17 to 31)
    timestamp  microseconds, 31 bits; the header of the packet counts the overflows
"""

import re
import struct
from typing import NamedTuple, NoReturn

import numpy as np

from s7.events.container import Events
from s7.events.formats.base import ByteDecoder, ByteFormat

FIRST, LAST = b"#!AER-DAT3.1", b"#!END-HEADER"
# Kind, source, size of an event, offset of its timestamp, overflows; capacity, number and number of valid events.
_HEADER = struct.Struct("<hhiiiiii")
_EVENT = np.dtype([("data", "<u4"), ("t", "<i4")])
POLARITY = 1
SENSORS = {b"DVS128": (128, 128), b"DAVIS240": (240, 180), b"DAVIS346": (346, 260), b"DAVIS640": (640, 480)}


class Aedat3(ByteFormat, name="aedat3"):
    """AEDAT 3.1, recorded with jAER and cAER."""

    extensions = (".aedat",)

    def sniff(self, start):
        return start.startswith(FIRST)

    def decoder(self, where):
        return Aedat3Decoder(where)


class _Packet(NamedTuple):
    kind: int
    overflows: int
    all_valid: bool


class Aedat3Decoder(ByteDecoder):
    """Decodes AEDAT 3.1."""

    def __init__(self, where: str):
        super().__init__(where)
        self._packet = _Packet(0, 0, True)
        self._left = 0  # bytes of this packet that have not arrived
        self._number = -1

    def _header(self, data, last):
        if not data.startswith(FIRST) and (last or not FIRST.startswith(data)):
            self.fail(0, f"not an AEDAT 3.1 file, which starts with {FIRST.decode()}")
        end = 0
        while data[end : end + 1] == b"#":
            start, end = end, data.find(b"\n", end) + 1
            if data[start:end].rstrip() == LAST:
                return end
            if source := re.match(rb"#Source \d+: *(\w+)", data[start:end]):
                self.sensor = next((size for name, size in SENSORS.items() if source[1].startswith(name)), None)
            if not end:
                break
        else:
            if last or data[end : end + 1]:
                self.fail(end, f"the header has no line {LAST.decode()}; get it again")
        return None

    def _decode(self, data, last):
        at = 0
        parts: list[np.ndarray] = [np.empty(0, _EVENT)]
        overflows = [0]
        while at < len(data):
            if not self._left:
                if len(data) - at < _HEADER.size:
                    break
                self._left = self._read_packet(data, at)
                at += _HEADER.size
                continue
            here = min(self._left, len(data) - at)
            if self._packet.kind == POLARITY:
                here -= here % _EVENT.itemsize
                if not here:
                    break
                parts.append(np.frombuffer(data, _EVENT, here // _EVENT.itemsize, at))
                overflows.append(self._packet.overflows)
                if not self._packet.all_valid:
                    parts[-1] = parts[-1][parts[-1]["data"] & 1 == 1]
            at += here
            self._left -= here
        if last and (self._left or at < len(data)):
            self._rest = data
            self._cut_off()
        return at, self._events(parts, overflows)

    def _read_packet(self, data: bytes, at: int) -> int:
        """Read the header of a packet.

        Returns:
            The number of bytes in the packet after its header.
        """
        kind, _, size, offset, overflows, _, count, valid = _HEADER.unpack_from(data, at)
        self._number += 1
        wrong = kind < 0 or size < 1 or count < 0 or overflows < 0
        if wrong or (kind == POLARITY and (size, offset) != (_EVENT.itemsize, 4)):
            self.fail(self.at + at, f"packet {self._number} is damaged, or compressed (not supported)")
        self._packet = _Packet(kind, overflows, valid == count)
        return count * size

    def _events(self, parts: list[np.ndarray], overflows: list[int]) -> Events:
        events = np.concatenate(parts)
        before = np.repeat(np.array(overflows, np.int64) << 31, [len(part) for part in parts])
        bits = events["data"]
        x, y = ((bits >> shift & 0x7FFF).astype(np.uint16) for shift in (17, 2))
        return Events(x, y, before + events["t"], (bits >> 1 & 1).astype(np.uint8), self.sensor)

    def _cut_off(self) -> NoReturn:
        part = f"inside of packet {self._number}" if self._left else f"in the header of packet {self._number + 1}"
        self.fail(self.at + len(self._rest), f"cut off {part}; get it again")
