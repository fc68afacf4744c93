"""Events as text: one event per line, with numbers separated by commas, semicolons or spaces.

The columns are named in the first line (x, y, t, p in any order), or found by their values. Times are in microseconds,
or in seconds if they have fractions. Lines that start with '#' or '%' come first; one of them may give the size of the
sensor ("# geometry 640x480"). A first line of two numbers also does.
"""

import re
import warnings
from bisect import bisect_left
from typing import NoReturn

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from s7.events.container import Events
from s7.events.formats.base import ByteDecoder, ByteFormat
from s7.events.formats.guess import Columns, by_name, by_value, unit_of
from s7.events.formats.writers import decimal_digits

# Lines by which the columns are found if they have no names.
SAMPLE = 64
LONGEST_LINE = 2**12
# Digits of whole numbers that are exact in double precision.
EXACT = 15
_SPACES = bytes.maketrans(b",;\t", b"   ")
_GEOMETRY = re.compile(rb"[#%]\s*(?:geometry|sensor)\D+(\d{1,5})\D+(\d{1,5})\s*$", re.IGNORECASE)
_TEXT = re.compile(rb"[\x09\x0a\x0d\x20-\x7e]+")
_NUMBER = re.compile(rb"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?$")


def _names(line: bytes) -> list[str]:
    """The names of columns, separated as the numbers are."""
    text = line.decode("latin-1").strip()
    separator = next((mark for mark in ",;\t" if mark in text), None)
    return [name.strip(" \"'") for name in text.split(separator)]


def _numbers(text: bytes) -> Float[np.ndarray, " N"] | None:
    """Numbers separated by white space, or None if something else is among them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy 2.0 to 2.2 only warns
            return np.fromstring(text, np.float64, sep=" ")
    except (ValueError, DeprecationWarning):
        return None


def _whole_numbers(
    raw: UInt8[np.ndarray, " B"], word: Bool[np.ndarray, " B"], starts: Int[np.ndarray, " N"], width: int
) -> Float[np.ndarray, " N"] | None:
    """The numbers of a table if all of them are digits only, else None. Much faster than `_numbers`.

    Args:
        raw: The text.
        word: Whether each byte is part of a number.
        starts: Where the numbers start.
        width: The number of columns.
    """
    digits = raw - np.uint8(ord("0"))
    if np.count_nonzero(digits < 10) != np.count_nonzero(word):
        return None
    last = word.copy()
    last[:-1] &= ~word[1:]
    ends = np.flatnonzero(last)
    numbers = np.empty(len(starts), np.float64)
    for column in range(width):
        first, end = starts[column::width], ends[column::width]
        length = int((end - first).max(initial=0)) + 1
        if length > EXACT:
            return None
        value = digits.take(end).astype(np.int64)
        for place in range(1, length):
            at = end - place
            # Places before the first digit are of the number before, or of the text before all numbers.
            value += digits.take(np.maximum(at, 0)) * (at >= first) * np.int64(10**place)
        numbers[column::width] = value
    return numbers


class Text(ByteFormat, name="text"):
    """CSV and text, one event per line."""

    extensions = (".csv", ".txt")
    written_as = (".csv", ".txt")

    def resembles(self, start):
        if not _TEXT.fullmatch(start):
            return False
        lines = [line for line in start.splitlines() if line.strip() and line[:1] not in b"#%"]
        if not lines:
            return False
        return all(map(_NUMBER.match, lines[0].translate(_SPACES).split())) or len(by_name(_names(lines[0]))[0]) == 4

    def decoder(self, where):
        return TextDecoder(where)

    def write(self, file, blocks, sensor):
        if sensor is not None:
            file.write(f"# geometry {sensor[0]}x{sensor[1]}\n".encode())
        file.write(b"x,y,t,p\n")
        for block in blocks:
            parts = []
            for column, end in ((block.x, ","), (block.y, ","), (block.t, ","), (block.p, "\n")):
                parts += [decimal_digits(column.astype(np.int64)), np.full((len(block), 1), ord(end), np.uint8)]
            text = np.concatenate(parts, 1).ravel()
            file.write(text[text != 0].tobytes())


class TextDecoder(ByteDecoder):
    """Decodes text."""

    def __init__(self, where: str):
        super().__init__(where)
        self._columns = Columns(0, 1, 2, 3)
        self._width = 4

    def _header(self, data, last):
        at = 0
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True) if not last else data.splitlines(True):
            words = line.translate(_SPACES).split()
            if line[:1] in (b"#", b"%"):
                if found := _GEOMETRY.match(line.rstrip()):
                    self._set_sensor(int(found[1]), int(found[2]))
            elif len(words) == 2 and all(word.isdigit() for word in words):
                self._set_sensor(int(words[0][:6]), int(words[1][:6]))
            elif words:
                return self._read_columns(data, at, words, last)
            at += len(line)
        return at if last else None

    def _set_sensor(self, width: int, height: int) -> None:
        if 0 < width < 2**16 and 0 < height < 2**16:
            self.sensor = width, height

    def _read_columns(self, data: bytes, at: int, words: list[bytes], last: bool) -> int | None:
        """Find the columns by the line at `at`, the first that is not a comment: the position of the first event."""
        end = data.find(b"\n", at) + 1 or len(data)
        names = [] if all(map(_NUMBER.match, words)) else _names(data[at:end])
        body = end if names else at
        lines = [line for line in data[body:].splitlines(keepends=True)[: 2 * SAMPLE] if line.strip()]
        if not last and (len(lines) < SAMPLE if not names else not lines or not lines[0].endswith(b"\n")):
            return None
        if not last and not lines[-1].endswith(b"\n"):
            lines = lines[:-1]
        self._width = len(names or words)
        if names:
            found, unit = by_name(names)
            if len(found) < 4:
                absent = ", ".join(name for name in "xytp" if name not in found)
                self.fail(at, f"no column {absent} among {', '.join(names)[:80]}")
            places = {name: names.index(found[name]) for name in "xytp"}
            self._columns = Columns(**places, unit=unit or 1.0)
            if unit is None and lines:
                self._columns = Columns(**places, unit=unit_of(self._numbers(lines, body)[:, places["t"]]))
        elif len(words) != 4:
            self.fail(at, f"{len(words)} columns without names; expected 4, or a first line such as x,y,t,p")
        else:
            rows = self._numbers(lines, body)
            columns = by_value(rows) if len(rows) else Columns(0, 1, 2, 3)
            if columns is None:
                self.fail(at, "the columns are not those of events; name them in a first line such as x,y,t,p")
            self._columns = columns
        return body

    def _numbers(self, lines: list[bytes], at: int) -> Float[np.ndarray, "N W"]:
        self.at = at
        return self._parse(b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines))[0]

    def _decode(self, data, last):
        end = len(data) if last else data.rfind(b"\n") + 1
        if len(data) - end > LONGEST_LINE:
            self.fail(self.at + end, f"a line of more than {LONGEST_LINE:,} bytes")
        if not end:
            return 0, Events.empty(self.sensor)
        body = data[:end] if data[:end].endswith(b"\n") else data[:end] + b"\n"
        rows, lines = self._parse(body)
        return end, self._events(rows, body, lines)

    def _parse(self, body: bytes) -> tuple[Float[np.ndarray, "N W"], Int[np.ndarray, " N"]]:
        """The numbers of each line that is not empty, and the indices of these lines."""
        plain = body.translate(_SPACES)
        raw = np.frombuffer(plain, np.uint8)
        word = raw > 32
        starts = word.copy()
        starts[1:] &= ~word[:-1]
        ends = np.flatnonzero(raw == 10)
        counts = np.diff(np.cumsum(starts, dtype=np.int64)[ends], prepend=0)
        wrong = (counts != self._width) & (counts != 0)
        if wrong.any():
            n = int(np.argmax(wrong))
            self._fail_line(body, n, f"{counts[n]} columns, expected {self._width}")
        lines = np.flatnonzero(counts)
        numbers = _whole_numbers(raw, word, np.flatnonzero(starts), self._width)
        numbers = _numbers(plain) if numbers is None else numbers
        if numbers is None or len(numbers) != len(lines) * self._width:
            # The first line that is not of numbers: all lines before it are.
            n = bisect_left(ends, True, key=lambda end: _numbers(plain[: end + 1]) is None)
            self._fail_line(body, min(n, len(ends) - 1), "not a number")
        return numbers.reshape(-1, self._width), lines

    def _events(self, rows: Float[np.ndarray, "N W"], body: bytes, lines: Int[np.ndarray, " N"]) -> Events:
        places = self._columns
        x, y, t, p = (rows[:, place] for place in (places.x, places.y, places.t, places.p))
        width, height = self.sensor or (2**16, 2**16)
        tests = (
            ("x", x, (x >= 0) & (x < width) & (x == np.floor(x)), f"a whole number from 0 to {width - 1}"),
            ("y", y, (y >= 0) & (y < height) & (y == np.floor(y)), f"a whole number from 0 to {height - 1}"),
            ("t", t, np.abs(t * places.unit) < 2.0**53, "a time"),
            ("p", p, (p == 0) | (np.abs(p) == 1), "0, 1 or -1"),
        )
        for name, values, good, expected in tests:
            if not good.all():
                n = int(np.argmin(good))
                self._fail_line(body, int(lines[n]), f"{name} is {values[n]:g}, expected {expected}")
        times = np.rint(t * places.unit).astype(np.int64)
        return Events(x.astype(np.uint16), y.astype(np.uint16), times, (p > 0).astype(np.uint8), self.sensor)

    def _fail_line(self, body: bytes, line: int, message: str) -> NoReturn:
        start = 0
        if line:
            start = int(np.flatnonzero(np.frombuffer(body, np.uint8) == 10)[line - 1]) + 1
        text = body[start : body.index(b"\n", start)][:60].decode("latin-1")
        self.fail(self.at + start, f"{message} in the line {text.strip()!r}")
