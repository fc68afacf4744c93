"""Write event files of about 1 GB, read each in chunks in a process of its own, and print the largest memory it used.

    python -m benchmarks.event_memory [--gigabytes 1] [--formats evt3,npz]

Fails if reading takes more than 300 MB, or, for smaller files, more than the limit that is given.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from s7.bench.files import simulate
from s7.events.container import Events
from s7.events.writing import write_events

ENDINGS = {"evt3": ".raw", "evt2": ".evt2", "dat": ".dat", "aedat2": ".aedat2", "npz": ".npz", "text": ".csv"}
BYTES = {"evt3": 5, "evt2": 4, "dat": 8, "aedat2": 8, "npz": 13, "text": 19, "npy": 13, "hdf5": 13}
LIMIT = 300
# Reads a file in chunks; prints the number of events and the largest resident memory in MB. The memory that getrusage
# reports would include that of this process.
READ = """
import re, sys, s7
count = sum(len(chunk) for chunk in s7.read_events(sys.argv[1], chunks=1_000_000))
with open("/proc/self/status") as status:
    kilobytes = re.search(r"VmHWM:\\s+(\\d+) kB", status.read())[1]
print(count, int(kilobytes) * 1.024e-3)
"""


def repeated(events: Events, count: int) -> Iterator[Events]:
    """The same events over and over, with times that go on, up to a number of events."""
    length = int(events.t[-1]) + 1
    for number in range(-(-count // len(events))):
        part = events[: count - number * len(events)]
        yield Events(part.x, part.y, part.t + number * length, part.p, part.sensor)


def write(path: Path, blocks: Iterator[Events], count: int) -> None:
    """Write a file by its extension."""
    if path.suffix == ".npy":
        kind = np.dtype([("x", "<u2"), ("y", "<u2"), ("t", "<i8"), ("p", "u1")])
        array = np.lib.format.open_memmap(path, "w+", kind, (count,))
        _fill({name: array[name] for name in "xytp"}, blocks)
        array.flush()
    elif path.suffix == ".h5":
        import h5py

        with h5py.File(path, "w") as file:
            kinds = {"x": "<u2", "y": "<u2", "t": "<i8", "p": "u1"}
            made = {
                name: file.create_dataset(f"events/{name}", (count,), kind, chunks=(2**16,))
                for name, kind in kinds.items()
            }
            _fill(made, blocks)
    else:
        write_events(path, blocks)


def _fill(arrays: dict, blocks: Iterator[Events]) -> None:
    at = 0
    for block in blocks:
        for name, array in arrays.items():
            array[at : at + len(block)] = getattr(block, name)
        at += len(block)


def measure(folder: Path, name: str, size: float, say: Callable[[str], None]) -> float:
    """Write a file of `size` bytes and return the memory in MB that reading it takes."""
    count = int(size / BYTES[name])
    path = folder / f"events{ENDINGS.get(name, {'npy': '.npy', 'hdf5': '.h5'}.get(name))}"
    write(path, repeated(simulate(min(count, 2**18)), count), count)
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", READ, str(path)], check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    found, memory = done.stdout.split()
    assert int(found) == count, f"{name}: {found} of {count} events"
    size = path.stat().st_size
    say(f"{name:<8}{size / 1e6:>8,.0f} MB {count:>13,} events {seconds:>7.1f} s {float(memory):>7,.0f} MB of memory")
    path.unlink()
    return float(memory)


def main() -> None:
    """Measure the formats in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--formats", default=",".join(BYTES))
    parser.add_argument("--limit", type=float, default=LIMIT)
    options = parser.parse_args()
    with TemporaryDirectory(prefix="s7-memory-") as folder:
        used = [measure(Path(folder), name, options.gigabytes * 1e9, print) for name in options.formats.split(",")]
    if max(used) > options.limit:
        raise SystemExit(f"reading took {max(used):,.0f} MB, more than {options.limit:,.0f} MB")


if __name__ == "__main__":
    main()
