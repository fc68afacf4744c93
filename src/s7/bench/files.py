"""Event files: millions of events per second that are read on one core, next to a copy of the same file.

Files of simulated events are written to a temporary folder. `blocks` decodes a file without keeping its events, `whole`
returns all events at once, and `copy` reads the file into memory without decoding it. The files are in the cache of the
operating system. Times are those of the processor, which other programs on the machine change little.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from s7.bench.measures import Row
from s7.bench.timing import Run, best_of
from s7.events.container import Events
from s7.events.formats import BLOCK, EventFormat, find_format
from s7.events.formats.words import raw_header
from s7.events.writing import write_events

EVENTS = 4_000_000
SENSOR = (640, 480)


def rows(
    formats: Sequence[str] | None = None,
    *,
    events: int = EVENTS,
    runs: int = 10,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Row]:
    """Yield a row per format and way of reading. Ratios are relative to reading in blocks.

    Args:
        formats: The names of formats, as in `FILES`. By default all.
        events: The number of events per file.
        runs: Repetitions; the fastest counts.
        say: Called with a description of each step.
    """
    unknown = [name for name in formats or () if name not in FILES]
    if unknown:
        raise ValueError(f"no file of the format {', '.join(unknown)} to measure; known: {', '.join(FILES)}")
    simulated = simulate(events)
    with TemporaryDirectory(prefix="s7-bench-") as folder:
        for name in formats or FILES:
            say(f"{name}, writing")
            path = FILES[name](Path(folder), simulated)
            form = find_format(path)
            count = _count(form, path)
            size = path.stat().st_size
            ways: dict[str, Run] = {
                "blocks": partial(_count, form, path),
                "whole": partial(form.read, path),
                "copy": partial(_copy, path),
            }
            say(f"{name}, reading")
            seconds = best_of(runs, ways, clock=time.process_time)
            for way, took in seconds.items():
                yield {
                    "benchmark": "files",
                    "format": name,
                    "events": count,
                    "bytes": size,
                    "implementation": way,
                    "million_events_per_s": count / took / 1e6,
                    "mb_per_s": size / took / 1e6,
                    "ratio": took / seconds["blocks"],
                }
            path.unlink()


def _count(form: EventFormat, path: Path) -> int:
    return sum(len(block) for block in form.blocks(path))


def _copy(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        return list(iter(lambda: file.read(BLOCK), b""))


def simulate(count: int) -> Events:
    """Events at random pixels, at a rate of two million per second."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, side, count, np.uint16) for side in SENSOR)
    return Events(x, y, np.cumsum(rng.integers(0, 2, count)), rng.integers(0, 2, count, np.uint8), SENSOR)


def _written(ending: str) -> Callable[[Path, Events], Path]:
    def write(folder: Path, events: Events) -> Path:
        parts = (events[start : start + 2**17] for start in range(0, len(events), 2**17))
        return write_events(folder / f"events{ending}", parts)

    return write


def _evt3_vectors(folder: Path, events: Events) -> Path:
    """Vectors of 32 pixels, of which a quarter are events, in three words."""
    count = len(events) // 8
    t, y = events.t[:count], events.y[:count]
    masks = _masks(count)
    words = np.empty((count, 7), "<u2")
    words[:, 0], words[:, 1] = 8 << 12 | (t >> 12 & 0xFFF), 6 << 12 | (t & 0xFFF)
    words[:, 2], words[:, 3] = y, 3 << 12 | (events.x[:count] >> 5 << 5)
    for column, (kind, shift) in enumerate(((4, 0), (4, 12), (5, 24)), 4):
        words[:, column] = kind << 12 | (masks >> shift & (0xFFF if kind == 4 else 0xFF))
    return _save(folder / "vectors.raw", raw_header("3", SENSOR), words)


def _evt21(folder: Path, events: Events) -> Path:
    """Words of 32 pixels, of which a quarter are events, and a time word before every eight of them."""
    count = len(events) // 8
    t, x, y, p = (column[:count].astype(np.uint64) for column in (events.t, events.x, events.y, events.p))
    words = (p << 60 | (t & 63) << 54 | (x >> 5 << 5) << 43 | y << 32 | _masks(count)).astype("<u8")
    times = (np.uint64(8) << 60 | (t >> 6) << 32)[::8]
    return _save(folder / "events.raw", raw_header("2.1", SENSOR), np.insert(words, np.arange(0, count, 8), times))


def _masks(count: int) -> np.ndarray:
    a, b = np.random.default_rng(1).integers(0, 2**32, (2, count), np.uint64)
    return a & b


def _aedat3(folder: Path, events: Events) -> Path:
    """Packets of 4,096 events."""
    words = np.empty((len(events), 2), "<u4")
    words[:, 0] = events.x.astype(np.uint32) << 17 | events.y.astype(np.uint32) << 2 | events.p << 1 | 1
    words[:, 1] = events.t
    packets = [b"#!AER-DAT3.1\r\n#!END-HEADER\r\n"]
    for start in range(0, len(events), 4096):
        part = words[start : start + 4096]
        header = np.array([len(part)] * 3, "<i4").tobytes()
        packets += [np.array([1, 1], "<i2").tobytes(), np.array([8, 4, 0], "<i4").tobytes(), header, part.tobytes()]
    return _save(folder / "events.aedat", b"".join(packets))


def _nmnist(folder: Path, events: Events) -> Path:
    t = events.t & (2**23 - 1)
    columns = (events.x & 127, events.y & 127, events.p.astype(np.int64) << 7 | t >> 16, t >> 8 & 255, t & 255)
    return _save(folder / "events.bin", b"", np.stack(columns, 1).astype(np.uint8))


def _es(folder: Path, events: Events) -> Path:
    header = b"Event Stream" + bytes([2, 0, 0, 1]) + np.array(SENSOR, "<u2").tobytes()
    steps = np.diff(events.t, prepend=0) << 1 | events.p
    columns = (steps, events.x & 255, events.x >> 8, events.y & 255, events.y >> 8)
    return _save(folder / "events.es", header, np.stack(columns, 1).astype(np.uint8))


def _npy(folder: Path, events: Events) -> Path:
    array = np.empty(len(events), [("x", "<u2"), ("y", "<u2"), ("t", "<i8"), ("p", "u1")])
    for name in ("x", "y", "t", "p"):
        array[name] = getattr(events, name)
    np.save(folder / "events.npy", array)
    return folder / "events.npy"


def _save(path: Path, header: bytes, array: np.ndarray | None = None) -> Path:
    path.write_bytes(header if array is None else header + array.tobytes())
    return path


FILES: dict[str, Callable[[Path, Events], Path]] = {
    "evt3": _written(".raw"),
    "evt3 vectors": _evt3_vectors,
    "evt2.1": _evt21,
    "evt2": _written(".evt2"),
    "dat": _written(".dat"),
    "aedat2": _written(".aedat2"),
    "aedat3": _aedat3,
    "nmnist": _nmnist,
    "es": _es,
    "npy": _npy,
    "npz": _written(".npz"),
    "text": _written(".csv"),
}
