"""Events survive a round trip through every format that is written, in chunks of any size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import s7
from s7.events.container import Events
from s7.events.formats import EventFormat, find_format
from s7.events.reading import regrouped
from tests.events.streams import assert_same

WRITTEN = {"evt2": ".evt2", "evt3": ".raw", "dat": ".dat", "aedat2": ".aedat", "text": ".csv", "npz": ".npz"}


def test_every_writer_is_tested():
    writable = {name for name, form in EventFormat.registry.builtin.items() if form.written_as}
    assert writable == set(WRITTEN)


@st.composite
def some_events(draw, sensor=(346, 260), latest=2**31, back=0):
    """Events with gaps from 0 to an hour, some of them beyond overflows of the counters."""
    count = draw(st.integers(0, 30))
    gap = st.integers(-back, 3) | st.integers(0, 2**12) | st.integers(0, 2**25) | st.integers(0, 2**31 - 1)
    gaps = draw(st.lists(gap, min_size=count, max_size=count))
    t = np.maximum(draw(st.integers(0, latest)) + np.cumsum(np.array(gaps, np.int64)), 0)
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    x, y = (rng.integers(0, side, count) for side in sensor)
    if draw(st.booleans()):
        y[:] = 5
    return Events(x, y, t, rng.integers(0, 2, count), sensor)


@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=25)
@given(some_events(back=5), st.integers(1, 40), st.integers(1, 40))
def test_events_survive_a_round_trip(name, tmp_path_factory, events, chunk, read_chunk):
    path = tmp_path_factory.mktemp("events") / f"a{WRITTEN[name]}"
    s7.write_events(path, regrouped([events], chunk) if len(events) else events)
    assert type(find_format(path)).registry.name_of(type(find_format(path))) == name
    assert_same(s7.read_events(path, unordered="ignore"), events)
    parts = list(s7.read_events(path, chunks=read_chunk, unordered="ignore"))
    assert all(len(part) == read_chunk for part in parts[:-1])
    if len(events):
        assert_same(Events.concatenate(parts), events)


def test_other_sensors_are_written(tmp_path):
    events = Events([0, 33], [33, 0], [5, 9], [1, 0], (34, 34))
    for name, ending in WRITTEN.items():
        found = s7.read_events(s7.write_events(tmp_path / f"a{ending}", events))
        sensor = (128, 128) if name == "aedat2" else (34, 34)
        assert_same(found, Events(events.x, events.y, events.t, events.p, sensor))
        if name != "aedat2":
            unknown = Events(events.x, events.y, events.t, events.p)
            assert_same(s7.read_events(s7.write_events(tmp_path / f"b{ending}", unknown)), unknown)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("a.raw", {"x": [2048]}, "event 0 has x=2048; EVT 3.0 holds 0 to 2047"),
        ("a.evt2", {"y": [3000]}, "event 0 has y=3000; EVT 2.0 holds 0 to 2047"),
        ("a.dat", {"y": [2**14]}, "event 0 has y=16384; DAT holds 0 to 16383"),
        (
            "a.dat",
            {"t": [2**32]},
            "the first event is at 4294967296 µs, DAT files start at 4294967295 µs at the latest",
        ),
        ("a.raw", {"t": [-1]}, "event 0 is at -1 µs; EVT 3.0 holds no negative times"),
        ("a.raw", {"t": [1605537493718345]}, "the gaps between times are too long"),
        ("a.aedat2", {"x": [346]}, "event 0 has x=346; AEDAT 2.0 holds 0 to 345"),
        ("a.aedat2", {"sensor": (1280, 720)}, "a sensor of 1280×720 pixels is larger than the chips"),
        ("a.aedat2", {"sensor": None}, "AEDAT 2.0 needs the size of the sensor"),
    ],
)
def test_events_that_do_not_fit_are_rejected_and_nothing_is_written(name, change, message, tmp_path):
    columns = {"x": [1], "y": [2], "t": [3], "p": [1], "sensor": (346, 260)} | change
    with pytest.raises(ValueError, match=f"^{tmp_path / name}: not written, {message}"):
        s7.write_events(tmp_path / name, Events(**columns))
    assert list(tmp_path.iterdir()) == []


def test_times_that_go_back_further_than_a_counter_can_show_are_rejected(tmp_path):
    events = [Events([1], [1], [2**24], [0]), Events([1, 1], [1, 1], [2**24, 1], [0, 0])]
    with pytest.raises(ValueError, match=r"event 2 is -16777215 µs after the one before; EVT 3.0 holds up to"):
        s7.write_events(tmp_path / "a.raw", events)


def test_a_name_without_a_format_is_rejected(tmp_path):
    events = Events.empty()
    with pytest.raises(ValueError, match=r"no format is written under this name; use one of .*\.raw"):
        s7.write_events(tmp_path / "a.jpg", events)
    with pytest.raises(ValueError, match=r"a\.jpg: not written, the format nmnist can be read only"):
        s7.write_events(tmp_path / "a.jpg", events, format="nmnist")
    assert s7.write_events(tmp_path / "a.jpg", events, format="dat").exists()


def test_a_damaged_source_leaves_nothing_behind(tmp_path):
    source = s7.write_events(tmp_path / "a.dat", Events([1] * 9, [2] * 9, range(9), [1] * 9))
    source.write_bytes(source.read_bytes()[:-3])
    with pytest.raises(ValueError, match=rf"^{source}: byte \d+: cut off"):
        s7.write_events(tmp_path / "b.raw", s7.read_events(source, chunks=2))
    assert [path.name for path in tmp_path.iterdir()] == ["a.dat"]
