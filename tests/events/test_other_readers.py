"""Other libraries read the same events, where they are installed: eventcv and evlib."""

from importlib.util import find_spec

import numpy as np
import pytest

import s7
from s7.events.container import Events
from tests.events.formats.test_ecf import some_events, write_ecf
from tests.real_data import real_file

needs_eventcv = pytest.mark.skipif(find_spec("eventcv") is None, reason="eventcv is missing; pip install eventcv")
needs_evlib = pytest.mark.skipif(find_spec("evlib") is None, reason="evlib is missing; pip install evlib")


def rows(events):
    return np.stack([column.astype(np.int64) for column in (events.x, events.y, events.t, events.p)], 1)


def by_eventcv(path, **options):
    import eventcv

    return eventcv.load(str(path), **options).numpy().astype(np.int64)


def by_evlib(path):
    import evlib

    frame = evlib.load_events(str(path)).collect()
    t = frame["t"].dt.total_microseconds().to_numpy()
    x, y, p = (frame[name].to_numpy() for name in ("x", "y", "polarity"))
    return np.stack([x.astype(np.int64), y.astype(np.int64), t, p > 0], 1)


def in_order(table):
    """Rows sorted by time, then by the rest: evlib sorts events, and not stably."""
    return table[np.lexsort((table[:, 3], table[:, 1], table[:, 0], table[:, 2]))]


def twenty_seconds():
    """Events for longer than EVT 3.0 counts without an overflow."""
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.integers(0, 2000, 20_000))
    return Events(rng.integers(0, 346, 20_000), rng.integers(0, 260, 20_000), t, rng.integers(0, 2, 20_000), (346, 260))


@needs_eventcv
def test_real_files_are_read_as_by_eventcv():
    path = real_file("event_files/sample.aedat4")
    np.testing.assert_array_equal(rows(s7.read_events(path)), by_eventcv(path))
    path = real_file("event_files/sample_ncars.dat")
    np.testing.assert_array_equal(rows(s7.read_events(path)), by_eventcv(path, sensor_size=(120, 100)))


@needs_eventcv
@pytest.mark.parametrize(
    ("name", "form"), [("a.raw", "evt3"), ("a.raw", "evt2"), ("a.dat", "dat"), ("a.aedat", "aedat2"), ("a.npz", "npz")]
)
def test_written_files_are_read_by_eventcv(name, form, tmp_path):
    events = twenty_seconds()
    path = s7.write_events(tmp_path / name, events, format=form)
    np.testing.assert_array_equal(by_eventcv(path), rows(events))


@needs_eventcv
@pytest.mark.parametrize("ending", [".raw", ".dat", ".aedat4", ".h5", ".npz", ".txt", ".bag"])
def test_files_that_eventcv_wrote_are_read(ending, tmp_path):
    import eventcv

    events = twenty_seconds()
    path = tmp_path / f"a{ending}"
    eventcv.save(eventcv.from_numpy(rows(events), sensor_size=events.sensor, time_unit="us"), str(path))
    np.testing.assert_array_equal(rows(s7.read_events(path)), rows(events))


@needs_evlib
def test_a_real_file_is_read_as_by_evlib():
    path = real_file("event_files/sample.aedat4")
    np.testing.assert_array_equal(in_order(rows(s7.read_events(path))), in_order(by_evlib(path)))


@needs_evlib
@pytest.mark.parametrize("form", ["evt2", "evt3"])
def test_written_files_are_read_by_evlib(form, tmp_path):
    events = twenty_seconds()
    path = s7.write_events(tmp_path / "a.raw", events, format=form)
    np.testing.assert_array_equal(in_order(by_evlib(path)), in_order(rows(events)))


@needs_evlib
@pytest.mark.parametrize("way", ["packed", "x packed", "masked"])
def test_compressed_hdf5_files_are_read_as_by_evlib(way, tmp_path):
    path = write_ecf(tmp_path / "a.h5", some_events(5000, 0, quick=False), 1000, way)
    np.testing.assert_array_equal(in_order(rows(s7.read_events(path))), in_order(by_evlib(path)))
