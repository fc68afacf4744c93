"""Decoding of records of a fixed size, and the text headers of Prophesee's formats."""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from jaxtyping import Int, Integer, Shaped

from s7.events.container import Events, Size
from s7.events.formats.base import ByteDecoder


class WordDecoder(ByteDecoder):
    """A decoder of records of one fixed size. Subclasses define `word`, the type of a record, and `_words`."""

    word: ClassVar[np.dtype]

    def _decode(self, data, last):
        count = len(data) // self.word.itemsize
        if not count:
            return 0, Events.empty(self.sensor)
        words = np.frombuffer(data, self.word, count)
        return count * self.word.itemsize, self._words(words)

    @abstractmethod
    def _words(self, words: Shaped[np.ndarray, " W"]) -> Events:
        """Decode whole records, the first of them at position `at`."""

    def position(self, index: int) -> int:
        """The position of a record in the stream, by its index in the words that are being decoded."""
        return self.at + index * self.word.itemsize

    def check_positions(
        self, x: Integer[np.ndarray, " E"], y: Integer[np.ndarray, " E"], word_of: Callable[[int], int]
    ) -> None:
        """Fail if an event is outside of the sensor. `word_of` gives the index of an event's record."""
        if self.sensor is None or not len(x):
            return
        width, height = self.sensor
        if x.max() >= width or y.max() >= height:
            n = int(np.argmax((x >= width) | (y >= height)))
            self.fail(
                self.position(word_of(n)),
                f"an event at x={x[n]}, y={y[n]} is outside of the sensor of {width}×{height} pixels",
            )


def set_bits(masks: Integer[np.ndarray, " N"]) -> Int[np.ndarray, " B"]:
    """The places of all bits that are set in little-endian words, counted from the lowest bit of the first word."""
    # As bool, because np.flatnonzero is several times slower for other types.
    return np.flatnonzero(np.unpackbits(masks.view(np.uint8), bitorder="little").view(bool))


def percent_header(data: bytes, last: bool) -> tuple[int, dict[str, str]] | None:
    """Read lines "% key value" at the start of `data`.

    Returns:
        The size of the header and its values by keys in lower case, or None if it does not end within `data`.
    """
    at = 0
    fields: dict[str, str] = {}
    while True:
        start = data[at : at + 2]
        if not last and start in (b"", b"%"):
            return None
        if start != b"% ":
            return at, fields
        end = data.find(b"\n", at)
        if end < 0:
            return None
        key, _, value = data[at + 2 : end].decode("latin-1").strip().partition(" ")
        at = end + 1
        fields[key.lower()] = value.strip()
        if key == "end":
            return at, fields


def sniffed_header(start: bytes) -> dict[str, str]:
    """The fields of a header of which the start is known, up to the last complete line."""
    if not start.startswith(b"% "):
        return {}
    found = percent_header(start[: start.rfind(b"\n") + 1], last=True)
    return found[1] if found else {}


def raw_version(fields: dict[str, str]) -> str:
    """The version of Prophesee's RAW format that a header names: "2", "2.1", "3" or another; "" if it names none."""
    name = fields.get("format", "").partition(";")[0].upper()
    if name.startswith("EVT"):
        return ".".join(name[3:])
    return fields.get("evt", "").removesuffix(".0")


def raw_options(fields: dict[str, str]) -> dict[str, str]:
    """The options of the format in a header: "EVT3;height=720;width=1280" has a height and a width."""
    options = fields.get("format", "").split(";")[1:]
    return {key.strip(): value.strip() for key, _, value in (option.partition("=") for option in options)}


def sensor_size(fields: dict[str, str]) -> Size | None:
    """The size of the sensor in a header, or None."""
    options = raw_options(fields)
    width, _, height = fields.get("geometry", "").lower().partition("x")
    for pair in (
        (options.get("width", ""), options.get("height", "")),
        (width, height),
        (fields.get("width", ""), fields.get("height", "")),
    ):
        if all(text.isdecimal() and 0 < int(text[:6]) < 2**16 for text in pair):
            return int(pair[0]), int(pair[1])
    return None


class RawDecoder(WordDecoder):
    """A decoder of one version of Prophesee's RAW format, whose files start with lines of text."""

    version: ClassVar[str]

    def _header(self, data, last):
        found = percent_header(data, last)
        if found is None:
            return None
        size, fields = found
        version = raw_version(fields)
        if version and version != self.version:
            self.fail(0, f"the header says EVT {version}, not EVT {self.version}")
        self.sensor = sensor_size(fields)
        self._options(raw_options(fields) | fields)
        return size

    def _options(self, options: dict[str, str]) -> None:
        """Read further options of the header."""

    def unknown_word(self, index: int, kind: int) -> None:
        """Fail because of the type of a record."""
        self.fail(self.position(index), f"0x{kind:X} is not a type of EVT {self.version} words; the file is damaged")


def raw_header(version: str, sensor: Size | None) -> bytes:
    """The header of a RAW file that is written."""
    lines = [f"evt {version if '.' in version else version + '.0'}"]
    name = f"EVT{version.replace('.', '')}"
    if sensor is None:
        lines += [f"format {name}"]
    else:
        width, height = sensor
        lines += [f"format {name};height={height};width={width}", f"geometry {width}x{height}"]
    return "".join(f"% {line}\n" for line in [*lines, "end"]).encode()
