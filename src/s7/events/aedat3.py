"""AEDAT 3.1, the format of the DVS-Gesture data set, recorded from iniVation cameras with jAER and cAER.

A file has lines that start with '#', up to #!END-HEADER, followed by packets. A packet is a header of 28 bytes, which
contains the number of events, and the events. Numbers are little-endian. Only packets of polarity events are read
(kind 1, eight bytes per event):

    data       valid (bit 0)   polarity (bit 1)   y (bits 2 to 16)   x (bits 17 to 31)
    timestamp  microseconds, 31 bits; the header of the packet counts the overflows
"""

import struct
from pathlib import Path

import numpy as np

from s7.events.formats import EventFormat
from s7.events.recordings import MICROSECONDS, Events

FIRST, LAST = b"#!AER-DAT3.1", b"#!END-HEADER"
# Kind, source, size of an event, offset of its timestamp, overflows; capacity, number and number of valid events.
_HEADER = struct.Struct("<hhiiiiii")
_EVENT = np.dtype([("data", "<u4"), ("t", "<i4")])
POLARITY = 1


class Aedat3(EventFormat, name="aedat3"):
    """AEDAT 3.1, recorded with jAER and cAER."""

    extensions = (".aedat",)

    def sniff(self, start):
        return start.startswith(FIRST)

    def read(self, path):
        return read_aedat3(path)


def read_aedat3(path: Path) -> Events:
    """Read the valid polarity events of a file."""
    return decode_aedat3(path.read_bytes(), str(path))


def decode_aedat3(data: bytes, where: str) -> Events:
    """Decode the valid polarity events of a file's content. Error messages start with `where`."""
    at = _end_of_header(data, where)
    packets = [np.empty(0, _EVENT)]
    overflows = [0]
    number = 0
    while at < len(data):
        if at + _HEADER.size > len(data):
            raise ValueError(f"{where}: cut off at byte {len(data)}, in the header of packet {number}; get it again")
        kind, _, size, offset, overflow, _, count, valid = _HEADER.unpack_from(data, at)
        if kind < 0 or size < 1 or count < 0 or (kind == POLARITY and (size, offset) != (_EVENT.itemsize, 4)):
            raise ValueError(f"{where}: packet {number} at byte {at} is damaged, or compressed (not supported)")
        start, at = at + _HEADER.size, at + _HEADER.size + count * size
        if at > len(data):
            raise ValueError(f"{where}: cut off at byte {len(data)}, inside of packet {number}; get it again")
        if kind == POLARITY:
            events = np.frombuffer(data, _EVENT, count, start)
            packets.append(events if valid == count else events[events["data"] & 1 == 1])
            overflows.append(overflow)
        number += 1
    events = np.concatenate(packets)
    before = np.repeat(np.array(overflows, np.int64) << 31, [len(packet) for packet in packets])
    bits = events["data"]
    x, y = ((bits >> shift & 0x7FFF).astype(np.uint16) for shift in (17, 2))
    return Events(x, y, (bits >> 1 & 1).astype(np.uint8), (before + events["t"]) / MICROSECONDS)


def _end_of_header(data: bytes, where: str) -> int:
    """The position of the first packet."""
    if not data.startswith(FIRST):
        raise ValueError(f"{where}: not an AEDAT 3.1 file, which starts with {FIRST.decode()}")
    end = 0
    while data[end : end + 1] == b"#":
        start, end = end, data.find(b"\n", end) + 1
        if data[start:end].rstrip() == LAST:
            return end
        if not end:
            break
    raise ValueError(f"{where}: the header has no line {LAST.decode()}; get it again")
