"""Event files: events round trip exactly, and invalid files are rejected with the position."""

import gzip
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s7.events import nmnist_bin, spike_hdf5
from s7.events.nmnist_bin import find_bins
from s7.events.recordings import Recording, Recordings, Sensor, recordings_in, recordings_of, samples_of
from s7.events.spike_hdf5 import open_spikes
from tests.events.writers import bin_bytes, needs_h5py, some_events, write_spikes
from tests.real_data import real_file

SENSOR = Sensor(34, 34)


def assert_recording(found, x, y, p, t):
    """The recording is this; `t` in microseconds."""
    for name, expected in (("x", x), ("y", y), ("p", p)):
        np.testing.assert_array_equal(getattr(found, name), expected, name)
    np.testing.assert_allclose(found.t, np.asarray(t) / 1000, rtol=1e-15)


# Recordings.


def plain_samples(recordings, sensor):
    """Tokens and gaps, event by event."""
    tokens, gaps = [], []
    for n in range(len(recordings)):
        before = None
        for x, y, p, t in zip(*(q.tolist() for q in recordings.recording(n)), strict=True):
            tokens.append(sensor.polarities * (x * sensor.height + y) + (p if sensor.polarities > 1 else 0))
            gaps.append(0 if before is None else t - before)
            before = t
    return tokens, gaps


def make_recordings(sizes, sensor=SENSOR, seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for size in sizes:
        x, y, p = (rng.integers(0, limit, size) for limit in (sensor.width, sensor.height, sensor.polarities))
        made.append(Recording(x, y, p, np.sort(rng.uniform(0, 300, size))))
    return recordings_of(made, np.arange(len(sizes)))


@settings(max_examples=25)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.sampled_from([SENSOR, Sensor(5, 9), Sensor(7, 1, 1)]))
def test_samples_are_those_of_a_plain_loop(sizes, sensor):
    recordings = make_recordings(sizes, sensor)
    samples = recordings.samples(sensor, "some")
    tokens, gaps = plain_samples(recordings, sensor)
    np.testing.assert_array_equal(samples.inputs, tokens)
    np.testing.assert_allclose(samples.dt, gaps, rtol=1e-6)
    np.testing.assert_array_equal(samples.lengths, sizes)
    np.testing.assert_array_equal(samples.targets, np.arange(len(sizes)))
    assert samples.inputs.dtype == np.min_scalar_type(sensor.tokens - 1)


@settings(max_examples=20)
@given(st.lists(st.integers(1, 6), min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_chosen_recordings_are_as_they_stand_among_all(sizes, random):
    recordings = make_recordings(sizes)
    chosen = np.array(random.sample(range(len(sizes)), random.randint(1, len(sizes))))
    every = recordings.samples(SENSOR, "some")
    assert recordings.samples(SENSOR, "some", chosen).digest() == every.take(chosen).digest()
    parts = [recordings.take(chosen[:1]), recordings.take(chosen[1:])]
    assert samples_of(parts, SENSOR, "some").digest() == every.take(chosen).digest()
    mask = np.isin(np.arange(len(sizes)), chosen)
    assert recordings.samples(SENSOR, "some", mask).digest() == every.take(np.flatnonzero(mask)).digest()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("x", 34, "event 1 has x=34, outside of 0 to 33"),
        ("y", -1, "event 1 has y=-1, outside of 0 to 33"),
        ("p", 2, "event 1 has p=2, outside of 0 to 1"),
        ("t", -5.0, r"time goes back at event 1, from .* to -5 ms; tasks with repair=True sort the events"),
    ],
)
def test_an_invalid_event_is_rejected_with_its_recording(column, value, message):
    recordings = make_recordings([3, 4, 5])
    getattr(recordings.events, column)[4] = value
    with pytest.raises(ValueError, match=f"^some: recording 1: {message}$"):
        recordings.samples(SENSOR, "some")
    # Numbers are those of all recordings, whichever are chosen.
    with pytest.raises(ValueError, match=f"^some: recording 1: {message}$"):
        recordings.samples(SENSOR, "some", np.array([2, 1]))
    named = replace(recordings, sources=["a", "b", "c"])
    with pytest.raises(ValueError, match=f"^some: b: {message}$"):
        named.samples(SENSOR, "some")
    assert len(recordings.samples(SENSOR, "some", np.array([0, 2]))) == 2


def test_an_empty_recording_is_rejected():
    with pytest.raises(ValueError, match=r"^some: recording 1 is empty; leave it out, as tasks with repair=True do"):
        make_recordings([2, 0, 3]).samples(SENSOR, "some")
    with pytest.raises(ValueError, match="some: there are no recordings"):
        samples_of([make_recordings([2]).take(np.array([False]))], SENSOR, "some")


def test_a_time_that_is_not_a_number_is_rejected():
    recordings = make_recordings([2, 3])
    recordings.events.t[3] = np.nan
    with pytest.raises(ValueError, match=r"^some: dt of sequence 1, event 1 is not finite \(nan\)$"):
        recordings.samples(SENSOR, "some")


@settings(max_examples=25)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any), st.integers(0, 99))
def test_repaired_recordings_have_the_same_events_in_order(sizes, seed):
    recordings = make_recordings(sizes, seed=seed)
    shuffled = Recording(*(q.copy() for q in recordings.events))
    for n, size in enumerate(sizes):
        at = slice(recordings.offsets[n], recordings.offsets[n + 1])
        order = np.random.default_rng(seed + n).permutation(size)
        for q in shuffled:
            q[at] = q[at][order]
    found = Recordings(shuffled, recordings.offsets, recordings.labels).repaired()
    kept = np.flatnonzero(sizes)
    np.testing.assert_array_equal(found.labels, kept)
    assert [found.source(n) for n in range(len(found))] == [f"recording {n}" for n in kept]
    assert found.samples(SENSOR, "some").digest() == recordings.samples(SENSOR, "some", kept).digest()


def test_repair_keeps_the_order_of_simultaneous_events():
    order = np.array([0, 1, 2, 3])
    events = Recording(order, order, order * 0, np.array([2.0, 1.0, 2.0, 1.0]))
    assert recordings_of([events], np.array([0])).repaired().events.x.tolist() == [1, 3, 0, 2]


ARRAYS = {
    **dict(zip("xypt", some_events(6, 34), strict=True)),
    "offsets": np.array([0, 4, 6]),
    "label": np.array([7, 1]),
}


def test_arrays_are_recordings():
    recordings = recordings_in(ARRAYS, "some.npz")
    assert_recording(recordings.events, *(ARRAYS[name] for name in "xypt"))
    assert recordings.labels.tolist() == [7, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": ARRAYS["x"] * 1.0}, "x, y, p, t, offsets and label must be rows of whole numbers"),
        ({"y": ARRAYS["y"][:-1]}, "expected as many x, y and p as t"),
        ({"label": np.array([1])}, "one more offset than labels"),
        ({"offsets": np.array([0, 4, 5])}, "offsets must rise from 0 to the number of events, 6"),
        ({"offsets": np.array([0, 7, 6])}, "offsets must rise from 0 to the number of events, 6"),
    ],
    ids=["fractions", "a y short", "a label short", "an event left over", "offsets fall"],
)
def test_invalid_arrays_of_recordings_are_rejected(changes, message):
    with pytest.raises(ValueError, match=rf"^some\.npz: .*{message}"):
        recordings_in(ARRAYS | changes, "some.npz")


# N-MNIST.


BINS = {f"{label}/{n:05d}.bin": some_events(20 + n, 34, n) for n, label in enumerate([5, 0, 4, 5, 1], 1)}


def write_bins(path, zipped, bins=BINS):
    """A folder or an archive Train of N-MNIST."""
    contents = {name: bin_bytes(*events) for name, events in bins.items()}
    if not zipped:
        for name, content in contents.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        return path
    path = path.with_name(f"{path.name}.zip")
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/Train/5/._00001.bin", b"of a Mac")
        for name, content in contents.items():
            archive.writestr(f"{path.stem}/{name}", content)
    return path


@pytest.mark.parametrize("zipped", [False, True], ids=["folder", "archive"])
def test_bin_files_are_sorted_by_name(zipped, tmp_path, monkeypatch):
    monkeypatch.setattr(nmnist_bin, "AT_A_TIME", 2)
    bins = find_bins(write_bins(tmp_path / "Train", zipped))
    assert bins.labels.tolist() == [5, 0, 4, 5, 1]
    parts = list(bins.parts(np.array([0, 3, 4])))
    assert [len(part) for part in parts] == [2, 1]
    assert [label for part in parts for label in part.labels] == [5, 5, 1]
    wanted = list(BINS.values())
    found = [part.recording(n) for part in parts for n in range(len(part))]
    for events, expected in zip(found, (0, 3, 4), strict=True):
        assert_recording(events, *wanted[expected])


def test_folder_and_archive_are_the_same(tmp_path):
    digests = set()
    for zipped in (False, True):
        bins = find_bins(write_bins(tmp_path / "Train", zipped))
        digests.add(samples_of(bins.parts(np.arange(5)), SENSOR, "train").digest())
    assert len(digests) == 1


@pytest.mark.parametrize("zipped", [False, True], ids=["folder", "archive"])
@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([[]] * 4, "4/00009.bin is empty"),
        (([1, 40], [2, 2], [0, 1], [5, 6]), "4/00009.bin: event 1 has x=40, outside of 0 to 33"),
        (([1, 2], [2, 2], [0, 1], [7, 6]), "4/00009.bin: time goes back at event 1, from 0.007 to 0.006 ms"),
    ],
    ids=["empty", "outside", "back"],
)
def test_an_invalid_bin_file_is_rejected(events, message, zipped, tmp_path):
    columns = [np.array(q, int) for q in events]
    path = write_bins(tmp_path / "Train", zipped, BINS | {"4/00009.bin": columns})
    with pytest.raises(ValueError, match=f"^train: {path}/(Train/)?{message}"):
        samples_of(find_bins(path).parts(np.arange(6)), SENSOR, "train")


def test_damaged_archives_are_rejected(tmp_path):
    path = write_bins(tmp_path / "Train", zipped=True)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(ValueError, match=rf"^{path}: damaged, or not a \.zip archive .*get it again$"):
        find_bins(path)
    place = whole.index(b"5/00001.bin") + 40
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
    with pytest.raises(ValueError, match=rf"^{path}/Train/5/00001\.bin: damaged .*get the archive again$"):
        list(find_bins(path).parts(np.arange(5)))
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match=r"none: holds no \.bin files in folders named by class"):
        find_bins(tmp_path / "none")


# HDF5.


SPIKES = {
    "times": [[0.5, 0.75], [], [0.25, 1.25, 1.25]],
    "units": [[3, 699], [], [0, 1, 2]],
    "labels": [4, 5, 6],
}


@needs_h5py
@pytest.mark.parametrize("at_a_time", [1, 2, 100])
def test_spikes_are_read_in_milliseconds(at_a_time, tmp_path, monkeypatch):
    monkeypatch.setattr(spike_hdf5, "AT_A_TIME", at_a_time)
    path = tmp_path / "some.h5"
    write_spikes(path, **SPIKES, speakers=[1, 2, 1], names=["zero", "fünf"])
    with open_spikes(path) as spikes:
        assert spikes.speakers.tolist() == [1, 2, 1]
        assert spikes.names == ("zero", "fünf")
        found = [part.recording(n) for part in spikes.parts() for n in range(len(part))]
        chosen = [label for part in spikes.parts(np.array([True, False, True])) for label in part.labels]
    assert [events.t.tolist() for events in found] == [[500, 750], [], [250, 1250, 1250]]
    assert [events.x.tolist() for events in found] == SPIKES["units"]
    assert chosen == [4, 6]


@needs_h5py
def test_half_precision_is_widened_before_it_is_scaled(tmp_path):
    # In half precision 70 s are too many milliseconds, and 1.2 s are not a whole number of half a millisecond.
    times = np.array([0.001, 1.2, 70], np.float16)
    write_spikes(tmp_path / "some.h5", [times], [[1, 2, 3]], [0])
    with open_spikes(tmp_path / "some.h5") as spikes:
        (part,) = spikes.parts()
    np.testing.assert_array_equal(part.events.t, [1000 * float(t) for t in times])
    samples = part.samples(Sensor(700, 1, 1), "train")
    np.testing.assert_allclose(samples.dt, [0, 1199.2188, 68799.805], rtol=1e-3)


@needs_h5py
def test_a_compressed_file_is_read_directly(tmp_path):
    write_spikes(tmp_path / "some.h5", **SPIKES)
    path = tmp_path / "some.h5.gz"
    path.write_bytes(gzip.compress((tmp_path / "some.h5").read_bytes()))
    with open_spikes(path) as spikes:
        assert spikes.labels.tolist() == [4, 5, 6]
        assert spikes.names == ()
        assert sum(len(part) for part in spikes.parts()) == 3
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=rf"^{path}: damaged, or not a \.gz file .*get it again$"), open_spikes(path):
        pass


@needs_h5py
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"times": None}, "has no array spikes/times; it has labels, spikes/units$"),
        ({"units": None}, "has no array spikes/units; it has labels, spikes/times$"),
        ({"labels": None}, "has no array labels; it has spikes/times, spikes/units$"),
        ({"labels": [1]}, "1 labels but 3 recordings in spikes/times$"),
        ({"units": [[3], [], [0, 1, 2]]}, "recording 0 has 2 times but 1 units$"),
    ],
    ids=["no times", "no units", "no labels", "labels short", "units short"],
)
def test_an_invalid_file_of_spikes_is_rejected(changes, message, tmp_path):
    path = tmp_path / "some.h5"
    write_spikes(path, **(SPIKES | changes))
    with pytest.raises(ValueError, match=f"^{path}: {message}"), open_spikes(path) as spikes:
        list(spikes.parts())


@needs_h5py
def test_a_file_without_speakers_is_rejected(tmp_path):
    path = tmp_path / "some.h5"
    write_spikes(path, **SPIKES)
    with pytest.raises(ValueError, match=f"^{path}: has no array extra/speaker"), open_spikes(path) as spikes:
        _ = spikes.speakers


@needs_h5py
@pytest.mark.parametrize("content", [b"", b"no HDF5 at all", None], ids=["empty", "text", "cut"])
def test_other_files_are_rejected_as_hdf5(content, tmp_path):
    path = tmp_path / "some.h5"
    write_spikes(path, **SPIKES)
    path.write_bytes(path.read_bytes()[:-500] if content is None else content)
    with (
        pytest.raises(ValueError, match=rf"^{path}: damaged, or not an HDF5 file \(.*\); get it again$"),
        open_spikes(path),
    ):
        pass


@needs_h5py
def test_arrays_of_the_invalid_type_are_rejected(tmp_path):
    import h5py

    path = tmp_path / "some.h5"
    with h5py.File(path, "w") as file:
        file["spikes/times"] = np.array([[1, 2]])
        file["spikes/units"] = np.array([[1, 2]])
        file["labels"] = np.array([0])
    with pytest.raises(ValueError, match="hold int64 and int64, expected seconds and whole"), open_spikes(path) as file:
        list(file.parts())
    with h5py.File(path, "a") as file:
        del file["labels"]
        file["labels"] = np.array([0.5])
    with pytest.raises(ValueError, match="labels must be a row of whole numbers"), open_spikes(path) as spikes:
        list(spikes.parts())


def test_without_h5py_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with (
        pytest.raises(ModuleNotFoundError, match=r"needs h5py, which is missing; pip install 's7-ssm\[events\]'$"),
        open_spikes(tmp_path / "some.h5"),
    ):
        pass


def test_spikes_of_the_official_converter_fit_the_sensor():
    times, units = np.load(real_file("event_files/spoken_digit_700ch_spikes.npz"))["arr_0"]
    events = Recording(units.astype(np.uint16), *np.zeros((2, len(units)), np.uint8), times * 1000)
    samples = recordings_of([events], np.array([0])).samples(Sensor(700, 1, 1), "digit")
    np.testing.assert_array_equal(samples.inputs, units)
    assert samples.dt.sum() == pytest.approx(790.625, rel=1e-4)


@needs_h5py
def test_a_damaged_hdf5_file_gives_one_line_with_its_name(tmp_path):
    path = tmp_path / "some.h5"
    write_spikes(path, **SPIKES, speakers=[1, 2, 1], names=["zero", "fünf"])
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    messages = set()
    for _ in range(240):
        content = bytearray(whole)
        for place in rng.integers(len(whole), size=rng.integers(1, 4)):
            content[place] = rng.integers(256)
        path.write_bytes(content)
        try:
            with open_spikes(path) as spikes:
                _ = spikes.labels, spikes.speakers, spikes.names, list(spikes.parts())
        except ValueError as error:
            messages.add(str(error))
    assert len(messages) > 20
    assert all(message.startswith(f"{path}: ") and "\n" not in message for message in messages)
