"""The ECF compression of Prophesee's HDF5 files (HDF5 filter 36559): chunks of up to 65,535 events.

A chunk starts with 32 bits: two bits for the way in which positions are stored, and the number of events. The first
time follows (64 bits), then runs of equal times. Numbers are little-endian.

    times       a byte: microseconds since the run before (upper half), number of events (lower half). 15 events mean
                that the number follows in two bytes; 15 µs mean that the lower half is a part of a longer time.
    all packed  x, y and polarity of four events in 12 bytes
    otherwise   runs of equal y (11 bits and 5 bits of a number; 31 means that the number follows), then
      x packed    x and polarity of four events in 6 bytes, or
      x masked    an x (11 bits) and which of the next five pixels have events too (5 bits), then runs of polarities
                  (1 bit and 7 bits of a number; 127 means that the number follows in two bytes)
"""

import numpy as np
from jaxtyping import Bool, Int

from s7.events.formats.words import set_bits

FILTER = 36559
DTYPE = np.dtype([("x", "<u2"), ("y", "<u2"), ("p", "<i2"), ("t", "<i8")])
# For each mask of the next five pixels, from the highest bit on: the pixels from x on, from the lowest bit on.
_PIXELS = np.array([1 | sum((mask >> (5 - j) & 1) << j for j in range(1, 6)) for mask in range(32)], np.uint8)


class DamagedChunk(ValueError):
    """A chunk cannot be decoded. The message does not name the file."""


def decode(data: bytes) -> np.ndarray:
    """Decode a chunk.

    Returns:
        A structured array with the fields x, y, p and t.

    Raises:
        DamagedChunk: If the chunk is damaged.
    """
    if len(data) < 12:
        raise DamagedChunk(f"a chunk of {len(data)} bytes")
    header = int.from_bytes(data[:4], "little")
    count, all_packed, x_packed = header >> 2, header >> 1 & 1, header & 1
    if count > 2**16:
        raise DamagedChunk(f"a chunk of {count:,} events")
    events = np.empty(count, DTYPE)
    if not count:
        return events
    events["t"], at = _times(data, count)
    if all_packed:
        values = _four_in_three(data, at, count, np.dtype("<u4"), 24)
        events["x"], events["y"], events["p"] = values >> 1 & 0x7FF, values >> 12 & 0x7FF, values & 1
        return events
    rows, numbers, at = _runs(_units(data, at, "<u2"), at, 5, 1, count)
    events["y"] = np.repeat(rows, numbers)
    if x_packed:
        values = _four_in_three(data, at, count, np.dtype("<u2"), 12)
        events["x"], events["p"] = values >> 1, values & 1
        return events
    units = _units(data, at, "<u2")[:count]
    bits = set_bits(_PIXELS[units & 31])[:count]
    if len(bits) < count:
        raise DamagedChunk(f"positions of {len(bits)} of {count} events")
    events["x"] = (units >> 5)[bits >> 3] + (bits & 7)
    at += 2 * (int(bits[-1] >> 3) + 1)
    polarities, numbers, at = _runs(_units(data, at, "u1"), at, 7, 2, count)
    events["p"] = np.repeat(polarities, numbers)
    return events


def _units(data: bytes, at: int, kind: str) -> np.ndarray:
    dtype = np.dtype(kind)
    return np.frombuffer(data, dtype, max(len(data) - at, 0) // dtype.itemsize, min(at, len(data)))


def _items(escapes: Bool[np.ndarray, " U"], extra: int) -> Bool[np.ndarray, " U"]:
    """Which units start an item, if those that escape are followed by `extra` units that belong to them."""
    starts = np.ones(len(escapes), bool)
    free = 0
    for place in np.flatnonzero(escapes).tolist():  # long runs only: few
        if place >= free:
            free = place + 1 + extra
            starts[place + 1 : free] = False
    return starts


def _numbers(
    units: np.ndarray, starts: Bool[np.ndarray, " U"], short: np.ndarray, bits: int, extra: int
) -> Int[np.ndarray, " U"]:
    """The number of events of each item: `short`, or what follows it if all its bits are set."""
    numbers = np.where(starts, short, 0).astype(np.int64)
    long = np.flatnonzero(starts & (numbers == 2**bits - 1))
    long = long[long + extra < len(units)]
    numbers[long] = units[long + 1] if extra == 1 else units[long + 1] | units[long + 2].astype(np.int64) << 8
    return numbers


def _end(numbers: Int[np.ndarray, " U"], count: int) -> int:
    """The index of the item with the last event."""
    total = np.cumsum(numbers)
    last = int(np.searchsorted(total, count))
    if last == len(total) or total[last] != count:
        raise DamagedChunk(f"runs that do not add up to {count} events")
    return last


def _runs(
    units: np.ndarray, at: int, bits: int, extra: int, count: int
) -> tuple[np.ndarray, Int[np.ndarray, " R"], int]:
    """Values in the upper bits and numbers of events in the lower ones, up to a number of events.

    Returns:
        The values, how often each occurs, and the position after them.
    """
    units = units[: 2 * count + extra]
    short = units & (2**bits - 1)
    starts = _items(short == 2**bits - 1, extra)
    numbers = _numbers(units, starts, short, bits, extra)
    last = _end(numbers, count)
    after = last + 1 + extra * int(short[last] == 2**bits - 1)
    return units[: last + 1] >> bits, numbers[: last + 1], at + after * units.itemsize


def _times(data: bytes, count: int) -> tuple[Int[np.ndarray, " E"], int]:
    """The times of all events, and the position after them."""
    first = int.from_bytes(data[4:12], "little", signed=True)
    units = _units(data, 12, "u1")[: 20 * count]
    steps, short = units >> 4, units & 15
    starts = _items((short == 15) & (steps != 15), 2)
    is_part = starts & (steps == 15)
    numbers = np.where(is_part, 0, _numbers(units, starts & ~is_part, short, 4, 2))
    last = _end(numbers, count)
    units, steps, short, is_part = (q[: last + 1] for q in (units, steps, short, is_part))
    # The parts of a longer time are four bits each, from the lowest on.
    index = np.arange(last + 1)
    begins = is_part & ~np.concatenate([[False], is_part[:-1]])
    place = index - np.maximum.accumulate(np.where(begins, index, 0))
    if (place[is_part] > 15).any():
        raise DamagedChunk("a time of more than 64 bits")
    parts = short.astype(np.int64) << np.where(is_part, 4 * place, 0)
    t = first + np.cumsum(np.where(is_part, parts, np.where(starts[: last + 1], steps, 0)))
    return np.repeat(t, numbers[: last + 1]), 12 + last + 1 + 2 * int(short[last] == 15)


def _four_in_three(data: bytes, at: int, count: int, kind: np.dtype, bits: int) -> np.ndarray:
    """Numbers of three quarters of a word's bits: four of them in three words."""
    groups = -(-count // 4)
    words = _units(data, at, kind.str)[: 3 * groups].astype(np.int64)
    if len(words) < 3 * groups:
        raise DamagedChunk(f"positions of {4 * (len(words) // 3)} of {count} events")
    a, b, c = words.reshape(-1, 3).T
    part = bits // 3
    low, middle = 2**part - 1, 2 ** (2 * part) - 1
    values = a >> part, a & low | b >> 2 * part << part, b & middle | c >> bits << 2 * part, c & (2**bits - 1)
    return np.stack(values, 1).ravel()[:count]
