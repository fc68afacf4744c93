"""Readers of the UEA archive's time series with a class each: files .ts and .arff.

Both have a header of lines with @, a line @data, and then one series in each line: its dimensions one after another,
each a list of numbers, and the class last. In a .ts file dimensions end in a colon; in an .arff file they stand between
quotes, with the two characters \\n between them.
"""

import re
import warnings
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int

from s7.settings import unknown


class Series(NamedTuple):
    """Series of one length, each with the number of its class."""

    values: Float32[np.ndarray, "N L D"]
    labels: Int[np.ndarray, " N"]
    classes: tuple[str, ...]


class _Format(NamedTuple):
    comment: bytes
    # The class names, if this line of the header has them.
    classes: Callable[[str], list[str]]
    # The header line that lists the classes, for error messages.
    example: str
    # The dimensions and the class of a line.
    parts: Callable[[str], tuple[list[str], str]]


def read_ts(lines: Iterable[bytes], where: str) -> Series:
    """The series of a .ts file; `where` leads the messages."""
    return _read(lines, where, _Format(b"#", _ts_classes, "@classLabel true 1 2", _ts_parts))


def read_arff(lines: Iterable[bytes], where: str) -> Series:
    """The series of an .arff file; `where` leads the messages."""
    return _read(lines, where, _Format(b"%", _arff_classes, "@attribute class {1,2}", _arff_parts))


READERS = {".arff": read_arff, ".ts": read_ts}


def _ts_classes(line: str) -> list[str]:
    key, *words = line.split()
    return words[1:] if key.lower() == "@classlabel" and words[:1] == ["true"] else []


def _arff_classes(line: str) -> list[str]:
    names = re.fullmatch(r"@attribute\s.*\{(.*)\}", line, re.IGNORECASE)
    return [_unquoted(name) for name in names[1].split(",")] if names else []


def _ts_parts(line: str) -> tuple[list[str], str]:
    *dimensions, label = line.split(":")
    if not dimensions:
        raise ValueError("is not a series, a colon after each of its dimensions, and a class")
    return dimensions, label.strip()


def _arff_parts(line: str) -> tuple[list[str], str]:
    series, quote, rest = line[1:].partition(line[0])
    if line[0] not in "'\"" or not quote or not rest.startswith(","):
        raise ValueError("is not a series between quotes, a comma and a class")
    return series.split(r"\n"), _unquoted(rest[1:])


def _short(word: str) -> str:
    """For a message: without the commas or colons that should be there, a word is as long as the line."""
    word = word.strip()
    return word if len(word) <= 40 else f"{word[:40]}…"


def _unquoted(word: str) -> str:
    return word.strip().strip("'\"")


def _read(lines: Iterable[bytes], where: str, form: _Format) -> Series:
    classes: list[str] = []
    values: list[Float32[np.ndarray, "L D"]] = []
    labels: list[int] = []
    number, begun = 0, False
    try:
        for number, line in enumerate(lines, 1):  # noqa: B007  (the message below has it)
            if not line.strip() or line.startswith(form.comment):
                continue  # the archive has comments that are not UTF-8
            text = _decoded(line).strip()
            if begun:
                dimensions, label = form.parts(text)
                if label not in classes:
                    raise ValueError(unknown("class", _short(label), classes))
                labels.append(classes.index(label))
                values.append(_series(dimensions, values[:1]))
            elif text.startswith("@"):
                classes = form.classes(text) or classes
                begun = text.lower() == "@data"
                if begun and not classes:
                    raise ValueError(f"@data, but no line before it names the classes, such as {form.example}")
            else:
                raise ValueError("starts with no @, and @data is still to come; is this the right kind of file?")
    except ValueError as error:
        raise ValueError(f"{where}: line {number}: {error}") from None
    if not values:
        raise ValueError(f"{where}: has no {'series after @data' if begun else 'line @data'}; is it whole?")
    return Series(np.stack(values), np.array(labels, np.int32), tuple(classes))


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte 0x{line[error.start]:02x} is not UTF-8") from None


def _series(dimensions: list[str], others: list[Float32[np.ndarray, "L D"]]) -> Float32[np.ndarray, "L D"]:
    """A series, of the shape that others have."""
    length, wanted = others[0].shape if others else (dimensions[0].count(",") + 1, len(dimensions))
    if len(dimensions) != wanted:
        raise ValueError(f"has {len(dimensions)} dimensions, the series before {wanted}")
    series = np.empty((length, wanted), np.float32)
    for column, text in enumerate(dimensions):
        numbers = _numbers(text, column + 1)
        if len(numbers) != length:
            raise ValueError(f"dimension {column + 1} has {len(numbers):,} numbers, expected {length:,}")
        series[:, column] = numbers
    return series


def _numbers(text: str, dimension: int) -> Float32[np.ndarray, " L"]:
    # NumPy's fastest parser. Invalid text is an error in some versions and a warning in others.
    with warnings.catch_warnings(), np.errstate(over="ignore"):
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            numbers = np.fromstring(text, sep=",").astype(np.float32)
        except ValueError:
            numbers = np.empty(0, np.float32)
    if len(numbers) == text.count(",") + 1 and np.isfinite(numbers).all():
        return numbers
    for place, word in enumerate(text.split(","), 1):
        if word.strip().lower() in ("?", "nan"):
            raise ValueError(f"dimension {dimension}, number {place} is missing ({word.strip()}); all must be there")
        if not _is_number(word):
            raise ValueError(f"dimension {dimension}, number {place} is not a finite number ({_short(word)!r})")
    raise ValueError(f"dimension {dimension} is not a list of numbers with commas between them")


def _is_number(word: str) -> bool:
    try:
        return abs(float(word)) <= float(np.finfo(np.float32).max)
    except ValueError:
        return False
