"""Damage event files at random and read them: the result is events or one line about what is wrong.

    python -m tests.events.fuzz --bytes 10000000

Each case is written to a file before it is read, so that the file that ends the process or hangs it is left behind.
"""

import argparse
import faulthandler
import signal
import sys
import warnings
from collections import Counter
from io import BytesIO
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import NoReturn

import numpy as np

import s7
from s7.bench.files import FILES, SENSOR
from s7.events.container import Events
from s7.events.formats import decoder_for
from tests.events.formats import test_extras
from tests.events.formats.test_ecf import some_events, write_ecf
from tests.events.writers import write_spikes

# Seconds that reading one small file may take.
LIMIT = 20


def examples(folder: Path) -> dict[str, bytes]:
    """A small file of every format that can be read here, by name."""
    rng = np.random.default_rng(0)
    size = 400
    x, y = (rng.integers(0, side, size) for side in SENSOR)
    events = Events(x, y, np.cumsum(rng.integers(0, 50, size)), rng.integers(0, 2, size), SENSOR)
    made = {f"{name}-{make(folder, events).name}": make(folder, events).read_bytes() for name, make in FILES.items()}
    made["text-plain.txt"] = b"".join(b"%.6f %d %d %d\n" % (n / 1e3, n % 640, n % 480, n % 2) for n in range(200))
    spikes = BytesIO()
    np.savez(spikes, np.stack([np.linspace(0, 1, 50), np.arange(50) % 700]))
    made["npz-spikes.npz"] = spikes.getvalue()
    makers = {"dsec": _dsec, "prophesee": _prophesee, "shd": _shd, "ecf": _ecf}
    for name, make in {f"hdf5-{name}.h5": make for name, make in makers.items()}.items():
        try:
            made[name] = make(folder / name, events)
        except ModuleNotFoundError:
            print(f"{name} left out: h5py is missing", file=sys.stderr)
    for version, ending in ((1, "bag"), ("mcap", "mcap"), ("db3", "db3")):
        try:
            kind = "dvs_msgs/msg/EventArray"
            bag = test_extras.write_bag(
                folder / f"bag.{ending}",
                version,
                kind,
                lambda store, version=version: [test_extras.array_message(store, version, test_extras.EVENTS)],
            )
            made[f"rosbag-a.{ending}"] = bag.read_bytes()
        except ModuleNotFoundError:
            print(f"rosbag-a.{ending} left out: rosbags is missing", file=sys.stderr)
    return made


def real_aedat4(place: Path | None) -> dict[str, bytes]:
    """The start of a real AEDAT 4 file, which cannot be written here."""
    path = None if place is None else place / "event_files" / "sample.aedat4"
    return {"aedat4-sample.aedat4": path.read_bytes()[:40_000]} if path and path.exists() else {}


def _dsec(path: Path, events: Events) -> bytes:
    import h5py

    with h5py.File(path, "w") as file:
        for name in "xytp":
            file.create_dataset(f"events/{name}", data=getattr(events, name), chunks=(100,), compression="gzip")
        file["t_offset"] = np.int64(5)
    return path.read_bytes()


def _prophesee(path: Path, events: Events) -> bytes:
    import h5py

    array = np.zeros(len(events), [("x", "<u2"), ("y", "<u2"), ("p", "<i2"), ("t", "<i8")])
    for name in "xytp":
        array[name] = getattr(events, name)
    with h5py.File(path, "w") as file:
        file["CD/events"] = array
        file.attrs["geometry"] = "640x480"
    return path.read_bytes()


def _ecf(path: Path, events: Events) -> bytes:
    return write_ecf(path, some_events(400, 0, quick=False), 100, "masked").read_bytes()


def _shd(path: Path, events: Events) -> bytes:
    write_spikes(path, [events.t[:50] / 1e6], [events.x[:50]], [1])
    return path.read_bytes()


def damaged(data: bytes, rng: np.random.Generator) -> tuple[bytes, int]:
    """A damaged copy of a file and the number of bytes that were changed, added or removed."""
    content = np.frombuffer(data, np.uint8).copy()
    way = rng.integers(6)
    # Often a few bytes, sometimes most of the file; often near its start, where the header is.
    number = int(min(rng.choice([1, 2, 8, 64, 1024, len(data)]), len(data)))
    reach = int(min(rng.choice([64, 512, len(data)]), len(data)))
    if way <= 2:
        places = rng.integers(0, reach, number)
        values = (
            rng.integers(0, 256, number, np.uint8)
            if way
            else rng.choice(np.array([0, 1, 127, 128, 255], np.uint8), number)
        )
        content[places] = values
        return content.tobytes(), len(np.unique(places))
    start = int(rng.integers(0, reach))
    if way == 3:
        return data[:start], 1
    if way == 4:
        end = min(start + number, len(data))
        return data[:start] + data[end:], end - start
    return data[:start] + rng.integers(0, 256, number, np.uint8).tobytes() + data[start:], number


def read(path: Path, rng: np.random.Generator) -> str:
    """Read a file in one of several ways: "events" or "error"."""
    start = path.read_bytes()
    try:
        way = rng.integers(3)
        if way == 0:
            s7.read_events(path, unordered="ignore")
        elif way == 1:
            for _ in s7.read_events(path, chunks=100, unordered="reject"):
                pass
        else:
            decoder = decoder_for(start[:4096], str(path))
            cuts = np.sort(rng.integers(0, len(start) + 1, 3)).tolist()
            for first, last in zip([0, *cuts], [*cuts, len(start)], strict=True):
                decoder.feed(start[first:last])
            decoder.finish()
    except ValueError as error:
        message = str(error)
        assert message.startswith(str(path)), f"does not name the file: {message}"
        assert "\n" not in message, f"more than one line: {message!r}"
        assert len(message) < 1000, "a message of more than 1,000 characters"
        return "error"
    return "events"


def _time_is_up(number: int, frame: object) -> NoReturn:
    raise TimeoutError(f"reading took more than {LIMIT} s")


def fuzz(wanted: int, seed: int, place: Path | None, folder: Path) -> Counter:
    """Read damaged files of all formats in turn until this many bytes were damaged.

    Returns:
        How many files were read and rejected, and how many bytes were damaged, by format and in total.
    """
    signal.signal(signal.SIGALRM, _time_is_up)
    counts: Counter = Counter()
    files = examples(folder) | real_aedat4(place)
    for number in count():
        for name, data in files.items():
            rng = np.random.default_rng([seed, number, len(name)])
            content, changed = damaged(data, rng)
            path = folder / f"case-{name.rpartition('-')[2]}"
            path.write_bytes(content)
            signal.alarm(LIMIT)
            faulthandler.dump_traceback_later(3 * LIMIT, exit=True)  # compiled code does not notice the alarm
            try:
                found = read(path, rng)
            except BaseException:
                print(f"{name}, seed {seed}, case {number}: the file is {path}", file=sys.stderr)
                raise
            finally:
                signal.alarm(0)
                faulthandler.cancel_dump_traceback_later()
            counts.update({f"{name}: {found}": 1, "files": 1, "bytes": changed})
        if counts["bytes"] >= wanted:
            break
    return counts


def main() -> None:
    """Run until the number of bytes is reached, and print what was read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=10_000_000, help="bytes to damage in all (default 10,000,000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, help="data folder with event_files/sample.aedat4")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    folder = Path(mkdtemp(prefix="s7-fuzz-"))
    counts = fuzz(options.bytes, options.seed, options.data, folder)
    for name in sorted(set(counts) - {"files", "bytes"}):
        print(f"{counts[name]:8,}  {name}")
    print(f"{counts['bytes']:,} bytes damaged in {counts['files']:,} files: no crash, no hang, no traceback")


if __name__ == "__main__":
    main()
