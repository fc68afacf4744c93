"""Read event files, whole or in chunks."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, overload

from s7.events.container import Events
from s7.events.formats import EventFormat, find_format, format_named
from s7.events.order import Order

Unordered = Literal["warn", "reject", "ignore"]


@overload
def read_events(
    path: str | os.PathLike,
    *,
    chunks: None = None,
    format: str | None = None,
    recording: int | None = None,
    unordered: Unordered = "warn",
) -> Events: ...
@overload
def read_events(
    path: str | os.PathLike,
    *,
    chunks: int,
    format: str | None = None,
    recording: int | None = None,
    unordered: Unordered = "warn",
) -> Iterator[Events]: ...
def read_events(
    path: str | os.PathLike,
    *,
    chunks: int | None = None,
    format: str | None = None,
    recording: int | None = None,
    unordered: Unordered = "warn",
) -> Events | Iterator[Events]:
    """Read an event file. The format is recognized by its content.

    Args:
        path: The file.
        chunks: The number of events per chunk, for files that are larger than the memory. By default all events are
            returned at once.
        format: The name of the format, for files without a signature. `s7 events --help` lists the formats.
        recording: Which recording to read, from 0, if the file holds several.
        unordered: What to do if timestamps decrease: "warn" after reading, "reject" the file, or "ignore" it. Counters
            that overflow are continued and do not count.

    Returns:
        `Events` with x, y, t in microseconds, p and the sensor size; or an iterator over chunks of them.

    Raises:
        ValueError: If the file is damaged. The message names the file and the position in bytes.
    """
    path = Path(path)
    if chunks is not None and chunks < 1:
        raise ValueError(f"chunks must be at least 1, not {chunks}")
    if unordered not in ("warn", "reject", "ignore"):
        raise ValueError(f"unordered must be 'warn', 'reject' or 'ignore', not {unordered!r}")
    blocks = _watched(open_blocks(path, format, recording), Order(str(path)), unordered)
    return Events.concatenate(list(blocks)) if chunks is None else regrouped(blocks, chunks)


def open_blocks(path: Path, format: str | None = None, recording: int | None = None) -> Iterator[Events]:
    """The events of a file in blocks of any size.

    Args:
        path: The file.
        format: The name of its format. By default it is recognized.
        recording: Which recording to read, if the file holds several.
    """
    return blocks_of(path, format_named(format) if format else find_format(path), recording)


def blocks_of(path: Path, form: EventFormat, recording: int | None = None) -> Iterator[Events]:
    """The events of a file of a known format in blocks of any size."""
    count = form.recordings(path)
    if recording is None:
        if count != 1:
            raise ValueError(f"{path}: holds {count:,} recordings; choose one from 0 to {count - 1}")
        return form.blocks(path)
    if not 0 <= recording < count:
        raise ValueError(f"{path}: holds {count:,} recording{'s'[: count > 1]}; there is no recording {recording}")
    return form.recording(path, recording)


def regrouped(blocks: Iterable[Events], size: int) -> Iterator[Events]:
    """Yield the same events in chunks of `size`. The last chunk may be smaller."""
    waiting: list[Events] = []
    count = 0
    for block in blocks:
        waiting.append(block)
        count += len(block)
        if count < size:
            continue
        whole = Events.concatenate(waiting)
        for start in range(0, count - size + 1, size):
            yield whole[start : start + size]
        rest = whole[count - count % size :]
        waiting, count = [rest], len(rest)
    if count:
        yield Events.concatenate(waiting)


def _watched(blocks: Iterable[Events], order: Order, unordered: Unordered) -> Iterator[Events]:
    watch: Callable[[Events], None] = order.require if unordered == "reject" else order.watch
    for block in blocks:
        watch(block)
        yield block
    if unordered == "warn" and order.count:
        warnings.warn(order.report(), stacklevel=3)
