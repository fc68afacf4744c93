"""Options and argument types that several commands share."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path


def count(text: str) -> int:
    """A whole number of at least 1."""
    return _whole(text, least=1)


def seed(text: str) -> int:
    """A whole number from 0 to 2**32 - 1."""
    value = _whole(text, least=0)
    if value >= 2**32:
        raise argparse.ArgumentTypeError(f"expected a whole number below 2**32, not {text!r}")
    return value


def duration(text: str) -> float:
    """A positive, finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"expected a positive number, not {text!r}")
    return value


def names(text: str) -> list[str]:
    """Names separated by commas."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise argparse.ArgumentTypeError("expected at least one name")
    return found


def counts(text: str) -> list[int]:
    """Whole numbers of at least 1, separated by commas."""
    return [count(word) for word in text.split(",")]


def shapes(size: int, example: str) -> Callable[[str], list[tuple[int, ...]]]:
    """An argument type: shapes of `size` whole numbers, such as 8x4096x16, separated by commas."""

    def parse(text: str) -> list[tuple[int, ...]]:
        found = []
        for shape in text.split(","):
            words = shape.split("x")
            if len(words) != size or not all(word.isdecimal() and int(word) for word in words):
                raise argparse.ArgumentTypeError(f"expected {size} whole numbers, such as {example}, not {shape!r}")
            found.append(tuple(map(int, words)))
        return found

    return parse


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add `--data`, the folder of the data sets."""
    parser.add_argument("--data", type=Path, metavar="DIR", help="data folder (default: $S7_DATA, else ~/.cache/s7)")


def add_json(parser: argparse.ArgumentParser, *, nested: bool = False) -> None:
    """Add `--json`. A nested parser leaves the value alone unless the option is given there."""
    default = argparse.SUPPRESS if nested else False
    parser.add_argument("--json", action="store_true", default=default, help="print JSON lines instead of text")


def _whole(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, not {text!r}")
    return value
