"""Where the events of a stream come from: a file of any format, or standard input."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from s7.events.formats import find_format
from s7.events.recordings import MICROSECONDS
from s7.live.inputs import Batch, Inputs
from s7.live.lines import Lines

# The path that stands for standard input.
STDIN = "-"
# Bytes per read, and events per batch.
BLOCK = 1 << 16
EVENTS = 1 << 16


def open_source(path: str, inputs: Inputs, name: str | None = None) -> Iterator[Batch]:
    """The batches of a file, or of standard input (`-`).

    Args:
        path: The file.
        inputs: What the model reads.
        name: The name of the file in error messages; by default its path.

    Raises:
        OSError: The file does not exist or cannot be read.
    """
    if path == STDIN:
        return _standard_input(inputs)
    if not Path(path).is_file():
        raise FileNotFoundError(f"{name or path}: no such file")
    with Path(path).open("rb") as file:
        start = file.read(BLOCK)
    if is_line_protocol(start, inputs):
        return _lines(_blocks(path), inputs, name or path)
    return _file(Path(path), inputs, name or path)


def is_line_protocol(start: bytes, inputs: Inputs) -> bool:
    """Whether the first line that is neither empty nor a comment has the numbers of the line protocol."""
    for line in start.split(b"\n"):
        words = line.replace(b",", b" ").split()
        if words and not words[0].startswith(b"#"):
            return len(words) == len(inputs.columns) and all(map(_is_number, words))
    return False


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _blocks(path: str) -> Iterator[bytes]:
    with Path(path).open("rb") as file:
        while block := file.read(BLOCK):
            yield block


def _arriving() -> Iterator[bytes]:
    """Standard input, in blocks of what is there."""
    while block := sys.stdin.buffer.raw.read(BLOCK):  # type: ignore[attr-defined]
        yield block


def _standard_input(inputs: Inputs) -> Iterator[Batch]:
    name = "standard input"
    blocks, start = _arriving(), b""
    for block in blocks:
        start += block
        if b"\n" in start or len(start) >= BLOCK:
            break
    if inputs.kind != "events" or is_line_protocol(start, inputs):
        yield from _lines(chain([start], blocks), inputs, name)
        return
    with tempfile.NamedTemporaryFile(prefix="s7-") as file:
        for block in chain([start], blocks):
            file.write(block)
        file.flush()
        yield from _file(Path(file.name), inputs, name)


def _lines(blocks: Iterator[bytes], inputs: Inputs, source: str) -> Iterator[Batch]:
    lines = Lines(inputs, source)
    for block in blocks:
        if batch := lines.feed(block):
            yield batch
    if batch := lines.end():
        yield batch


def _file(path: Path, inputs: Inputs, source: str) -> Iterator[Batch]:
    events = find_format(path).read(path)
    t = np.rint(events.t * MICROSECONDS).astype(np.int64)
    for start in range(0, len(t), EVENTS):
        part = slice(start, start + EVENTS)
        yield inputs.of_columns(events.x[part], events.y[part], t[part], events.p[part], _numbered(source, start))


def _numbered(source: str, start: int) -> Callable[[int], str]:
    return lambda k: f"{source}: event {start + k}"
