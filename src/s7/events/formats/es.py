"""Event Stream (.es), version 2: "Event Stream", the version (3 bytes), the type of events, width and height.

An event has five bytes, little-endian:

    DVS    microseconds since the event before (7 bits), polarity (1 bit)                  x (16 bits)   y (16 bits)
    ATIS   microseconds since the event before (6 bits), polarity, exposure (1 bit each)   x (16 bits)   y (16 bits)

Where the time does not fit, single bytes come first: 0xFF adds 127 µs in DVS streams (0xFE adds none), and 0xFC to 0xFF
add 0 to 3 times 63 µs in ATIS streams. Exposures of ATIS are left out.
"""

import numpy as np
from jaxtyping import Bool, Int

from s7.events.container import Events
from s7.events.formats.base import ByteDecoder, ByteFormat

SIGNATURE = b"Event Stream"
HEADER = 20
SIZE = 5
DVS, ATIS = 1, 2
KINDS = {0: "generic", 3: "display", 4: "color"}


class EventStream(ByteFormat, name="es"):
    """Event Stream, version 2."""

    extensions = (".es",)

    def sniff(self, start):
        return start.startswith(SIGNATURE)

    def decoder(self, where):
        return EventStreamDecoder(where)


class EventStreamDecoder(ByteDecoder):
    """Decodes Event Stream."""

    def __init__(self, where: str):
        super().__init__(where)
        self._kind = DVS
        self._t = 0

    def _header(self, data, last):
        if not data.startswith(SIGNATURE[: len(data)]):
            self.fail(0, f"not an Event Stream, which starts with {SIGNATURE.decode()!r}")
        if len(data) < HEADER:
            return None
        if data[12] != 2:
            self.fail(12, f"version {data[12]} of Event Stream; only version 2 is supported")
        self._kind = data[15]
        if self._kind not in (DVS, ATIS):
            self.fail(15, f"holds {KINDS.get(self._kind, 'unknown')} events, expected DVS or ATIS")
        width, height = (int.from_bytes(data[at : at + 2], "little") for at in (16, 18))
        if not width or not height:
            self.fail(16, f"the size of the sensor is {width}×{height}")
        self.sensor = width, height
        return HEADER

    def _decode(self, data, last):
        stream = np.frombuffer(data, np.uint8)
        flags, step, least = (1, 127, 0xFE) if self._kind == DVS else (2, 63, 0xFC)
        places = np.flatnonzero(stream >= least)
        places = places[_between_records((places % SIZE).astype(np.int8))]
        kept = np.delete(stream, places) if len(places) else stream
        count = len(kept) // SIZE
        records = kept[: count * SIZE].reshape(-1, SIZE)
        first = np.ascontiguousarray(records[:, 0])
        steps = (first >> flags).astype(np.int64)
        # A byte between records comes before the event whose record starts after as many bytes of records.
        before = (places - np.arange(len(places))) // SIZE
        times = (stream[places] & (2**flags - 1)).astype(np.int64) * step
        np.add.at(steps, before[before < count], times[before < count])
        t = self._t + np.cumsum(steps)
        self._t = int(t[-1] if count else self._t) + int(times[before >= count].sum())
        x, y = np.ascontiguousarray(records[:, 1:]).view("<u2").T.astype(np.uint16)
        self._check(x, y, before)
        p = (first & 1 if self._kind == DVS else first >> 1 & 1).astype(np.uint8)
        events = Events(x, y, t, p, self.sensor)
        if self._kind == ATIS:
            events = events[first & 1 == 0]
        return len(data) - len(kept) % SIZE, events

    def _check(self, x: np.ndarray, y: np.ndarray, before: np.ndarray) -> None:
        width, height = self.sensor or (0, 0)
        if len(x) and (x.max() >= width or y.max() >= height):
            n = int(np.argmax((x >= width) | (y >= height)))
            at = self.at + SIZE * n + int((before <= n).sum())
            self.fail(at, f"an event at x={x[n]}, y={y[n]} is outside of the sensor of {width}×{height} pixels")


def _between_records(residues: Int[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
    """Which bytes that could be single bytes stand between records, and are not part of one.

    After k single bytes, records start at positions that leave the residue k when divided by the size of a record. So
    whether a byte is a single one depends on the number of those before it. All candidates are processed in pieces at
    the same time, from each of the residues they could start with.

    Args:
        residues: The positions of the candidates, modulo the size of a record.
    """
    pieces = max(int(np.sqrt(len(residues))), 1)
    length = -(-len(residues) // pieces)
    filled = np.full(pieces * length, SIZE, np.int8)  # the filling matches nothing
    filled[: len(residues)] = residues
    table = filled.reshape(pieces, length)
    states = np.tile(np.arange(SIZE, dtype=np.int8), (pieces, 1))
    for column in table.T:
        states += states == column[:, None]
        states[states == SIZE] = 0
    state = np.zeros(pieces, np.int8)
    for piece in range(1, pieces):
        state[piece] = states[piece - 1, state[piece - 1]]
    found = np.empty((length, pieces), bool)
    for row, column in zip(found, table.T, strict=True):
        np.equal(state, column, out=row)
        state += row
        state[state == SIZE] = 0
    return found.T.ravel()[: len(residues)]
