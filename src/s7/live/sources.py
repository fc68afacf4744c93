"""Where the events of a stream come from: a file of any format, or standard input."""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from s7.events.container import Events
from s7.events.formats import decoder_for
from s7.events.reading import open_blocks
from s7.live.inputs import Batch, Inputs
from s7.live.lines import Lines

# The path that stands for standard input, and its name in messages.
STDIN = "-"
STDIN_NAME = "standard input"
# Bytes per read, the first of which tell the format; and events per batch.
BLOCK = 1 << 16
SNIFFED = 4096
EVENTS = 1 << 16


def open_source(
    path: str, inputs: Inputs, name: str | None = None, recording: int | None = None, *, clip: bool = False
) -> Iterator[Batch]:
    """The batches of a file, or of standard input (`-`).

    Args:
        path: The file.
        inputs: What the model reads.
        name: The name of the file in error messages; by default its path.
        recording: Which recording to read, from 0, if the file holds several.
        clip: Whether events that go back in time are taken as simultaneous with the one before.

    Raises:
        OSError: The file does not exist or cannot be read.
    """
    batches = _open(path, inputs, name or path, recording)
    return _clipped(batches) if clip else batches


def _open(path: str, inputs: Inputs, name: str, recording: int | None) -> Iterator[Batch]:
    if path == STDIN:
        return _standard_input(inputs)
    if not Path(path).is_file():
        raise FileNotFoundError(f"{name}: no such file")
    if inputs.kind == "numbers" or (inputs.kind == "tokens" and is_line_protocol(_start(path), inputs)):
        return _lines(_blocks(path), inputs, name)
    return _file(path, inputs, name, recording)


def _clipped(batches: Iterator[Batch]) -> Iterator[Batch]:
    last = -np.inf
    for batch in batches:
        if batch.times is None or not len(batch):
            yield batch
            continue
        times = np.maximum(np.maximum.accumulate(batch.times), last)
        last = float(times[-1])
        yield replace(batch, times=times)


def _start(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(SNIFFED)


def is_line_protocol(start: bytes, inputs: Inputs) -> bool:
    """Whether the first line that is neither empty nor a comment has the numbers of the line protocol.

    The times of events are whole numbers there: times with a fraction are those of text that counts seconds.
    """
    for line in start.split(b"\n"):
        words = line.replace(b",", b" ").split()
        if words and not words[0].startswith(b"#"):
            is_number = _is_whole if inputs.kind == "events" else _is_number
            return len(words) == len(inputs.columns) and all(map(is_number, words))
    return False


def _is_whole(word: bytes) -> bool:
    return word.removeprefix(b"-").isdigit()


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


def _standard_input(inputs: Inputs) -> Iterator[Batch]:
    # Not a buffered read, which would wait for a full buffer.
    blocks = iter(lambda: os.read(sys.stdin.fileno(), BLOCK), b"")
    start = b""
    while len(start) < SNIFFED and not (b"\n" in start and is_line_protocol(start, inputs)):
        block = next(blocks, b"")
        if not block:
            break
        start += block
    blocks = chain([start], blocks)
    if inputs.kind == "numbers" or is_line_protocol(start, inputs):
        yield from _lines(blocks, inputs, STDIN_NAME)
    else:
        yield from _numbered(_decoded(start, blocks), inputs, STDIN_NAME)


def _decoded(start: bytes, blocks: Iterator[bytes]) -> Iterator[Events]:
    decoder = decoder_for(start, STDIN_NAME)
    for block in blocks:
        yield decoder.feed(block)
    yield decoder.finish()


def _file(path: str, inputs: Inputs, name: str, recording: int | None) -> Iterator[Batch]:
    try:
        yield from _numbered(open_blocks(Path(path), None, recording), inputs, name)
    except (ValueError, OSError) as error:
        # An uploaded file has another name on disk than its client knows.
        raise ValueError(str(error).replace(path, name)) from None


def _lines(blocks: Iterator[bytes], inputs: Inputs, source: str) -> Iterator[Batch]:
    lines = Lines(inputs, source)
    for block in blocks:
        if batch := lines.feed(block):
            yield batch
    if batch := lines.end():
        yield batch


def _numbered(parts: Iterator[Events], inputs: Inputs, source: str) -> Iterator[Batch]:
    """Batches whose events are counted from the start of the source."""
    first = 0
    for part in parts:
        for start in range(0, len(part), EVENTS):
            some = part[start : start + EVENTS]
            yield inputs.of_columns(some.x, some.y, some.t, some.p, _place(source, first + start))
        first += len(part)


def _place(source: str, first: int) -> Callable[[int], str]:
    return lambda k: f"{source}: event {first + k}"
