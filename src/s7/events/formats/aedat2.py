"""AEDAT 2.0, recorded with jAER: lines that start with '#', then records of an address and a time, big-endian.

    time     microseconds, 32 bits, which overflow after 71.6 minutes
    DVS128   polarity (bit 0; 0 is brighter)   x (bits 1 to 7)   y (bits 8 to 14)   not an event if bit 15 is set
    DAVIS    polarity (bit 11)   x (bits 12 to 21)   y (bits 22 to 30)   not an event if bit 10 or bit 31 is set

The header names the chip. Rows are counted from the bottom in these files; here, as in all formats, from the top.
"""

import re
from dataclasses import dataclass

import numpy as np

from s7.events.container import Events, Size
from s7.events.formats.base import ByteFormat, Unwritable
from s7.events.formats.clock import Unwrapped
from s7.events.formats.words import WordDecoder
from s7.events.formats.writers import Checked

FIRST, END = b"#!AER-DAT2.0", b"#End Of ASCII Header"
_PRINTABLE = re.compile(rb"#[\x09\x20-\x7e\x80-\xff]*\r?")


@dataclass(frozen=True)
class Chip:
    """The layout of addresses: the first bit and the number of bits of each part, and the bits of other records."""

    sensor: Size
    x: tuple[int, int] = (12, 10)
    y: tuple[int, int] = (22, 9)
    p: int = 11
    on: int = 1
    others: int = 1 << 10 | 1 << 31


DVS128 = Chip((128, 128), (1, 7), (8, 7), 0, 0, 1 << 15)
CHIPS = {
    "DVS128": DVS128,
    "DAVIS240": Chip((240, 180)),
    "DAVIS346": Chip((346, 260)),
    "DAVIS640": Chip((640, 480)),
}
# Files without the name of a chip are of the oldest one if all addresses have no more bits than its.
SHORT = 2**16


class Aedat2(ByteFormat, name="aedat2"):
    """AEDAT 2.0, recorded with jAER."""

    extensions = (".aedat2",)
    written_as = (".aedat2", ".aedat")

    def sniff(self, start):
        return start.startswith(FIRST)

    def decoder(self, where):
        return Aedat2Decoder(where)

    def write(self, file, blocks, sensor):
        name, chip = _chip_for(sensor)
        lines = (FIRST, f"# AEChip: {name}".encode(), END)
        file.write(b"".join(line + b"\r\n" for line in lines))
        width, height = chip.sensor
        checked = Checked(blocks, "AEDAT 2.0", width - 1, height - 1, longest_gap=2**31 - 1, latest_start=2**32 - 1)
        for block in checked:
            x, p = block.x.astype(np.uint32), block.p.astype(np.uint32)
            y = np.uint32(height - 1) - block.y.astype(np.uint32)
            words = np.empty(len(block), Aedat2Decoder.word)
            words["address"] = x << chip.x[0] | y << chip.y[0] | (p ^ np.uint32(1 - chip.on)) << chip.p
            words["t"] = (block.t & (2**32 - 1)).astype(np.uint32)
            file.write(words.tobytes())


def _chip_for(sensor: Size | None) -> tuple[str, Chip]:
    """The smallest chip on which a sensor fits."""
    if sensor is None:
        raise Unwritable("AEDAT 2.0 needs the size of the sensor, which is not known; give it")
    for name, chip in CHIPS.items():
        if sensor[0] <= chip.sensor[0] and sensor[1] <= chip.sensor[1]:
            return name, chip
    raise Unwritable(f"a sensor of {sensor[0]}×{sensor[1]} pixels is larger than the chips of AEDAT 2.0, up to 640×480")


class Aedat2Decoder(WordDecoder):
    """Decodes AEDAT 2.0."""

    word = np.dtype([("address", ">u4"), ("t", ">u4")])

    def __init__(self, where: str):
        super().__init__(where)
        self._unwrapped = Unwrapped(2**32)
        self._chip: Chip | None = None

    def _header(self, data, last):
        if not data.startswith(FIRST) and (last or not FIRST.startswith(data)):
            self.fail(0, f"not an AEDAT 2.0 file, which starts with {FIRST.decode()}")
        at = 0
        while True:
            if data[at : at + 1] != b"#":
                return at if last or at < len(data) else None
            end = data.find(b"\n", at)
            line = data[at : end if end >= 0 else None]
            if not _PRINTABLE.fullmatch(line):  # the first address, of which a byte happens to be '#'
                return at
            if end < 0:
                return None
            at = end + 1
            self._read_line(line)
            if line.startswith(END):
                return at

    def _read_line(self, line: bytes) -> None:
        text = line.decode("latin-1")
        if "chip" in text.lower():
            for name, chip in CHIPS.items():
                if name in text.upper():
                    self._chip, self.sensor = chip, chip.sensor

    def _words(self, words):
        address = words["address"].astype(np.uint32)
        chip = self._chip or self._guess(address)
        t = self._unwrapped(words["t"])
        places = np.flatnonzero(address & np.uint32(chip.others) == 0)
        address, t = address[places], t[places]
        x, y = ((address >> first & (2**bits - 1)).astype(np.uint16) for first, bits in (chip.x, chip.y))
        self.check_positions(x, y, lambda n: int(places[n]))
        y = np.uint16(chip.sensor[1] - 1) - y
        return Events(x, y, t, (address >> chip.p & 1 == chip.on).astype(np.uint8), chip.sensor)

    def _guess(self, address: np.ndarray) -> Chip:
        if address.max() >= SHORT:
            self.fail(self.position(0), f"the header names none of the chips {', '.join(CHIPS)}")
        self._chip, self.sensor = DVS128, DVS128.sensor
        return DVS128
