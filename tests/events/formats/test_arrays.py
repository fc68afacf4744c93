"""Events in NumPy's files and in HDF5."""

import numpy as np
import pytest

import s7
from s7.events.container import Events
from s7.events.formats import decoder_for, tables
from tests.events.streams import assert_events, assert_same, decoded
from tests.events.writers import needs_h5py, some_events, write_spikes
from tests.real_data import real_file

X, Y, P, T = some_events(50, 30)
EVENTS = Events(X, Y, T, P)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(tables, "AT_A_TIME", 16)


def structured(kind=np.int64):
    array = np.zeros(50, [("t", kind), ("x", "<u2"), ("y", "<u2"), ("p", "i1")])
    array["x"], array["y"], array["t"], array["p"] = X, Y, T, 2 * P - 1
    return array


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_read(tmp_path, order):
    for number, array in enumerate(
        (structured(), structured(np.float64), np.stack([T, X, Y, P], 1), np.stack([X, Y, T / 1e6, P], 1))
    ):
        path = tmp_path / f"{number}.npy"
        np.save(path, np.asarray(array, order=order))
        assert_same(s7.read_events(path), EVENTS)
        assert_same(decoded(decoder_for(path.read_bytes()[:100]), path.read_bytes(), 99), EVENTS)


def test_damaged_arrays_are_rejected(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, structured())
    whole = path.read_bytes()
    for content, message in [
        (whole[:-5], f"byte {len(whole) - 5}: cut off; the array ends at byte {len(whole)}"),
        (whole[:40], "byte 10: the header of the array is damaged"),
        (whole[:7], "byte 0: not the start of a NumPy array"),
        (whole.replace(b"'x'", b"'q'"), r"holds .*, expected the fields x, y, t, p or four columns"),
        (whole[:8] + b"\xff\xff" + whole[10:], "byte 10: the header of the array is damaged"),
    ]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"^{path}: {message}"):
            s7.read_events(path)
    np.save(path, np.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match="holds object, expected numbers"):
        s7.read_events(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_are_read(tmp_path, save):
    save(tmp_path / "a.npz", x=X, y=Y, t=T, p=P, sensor=np.array([30, 40]))
    assert_same(s7.read_events(tmp_path / "a.npz"), Events(X, Y, T, P, (30, 40)))
    save(tmp_path / "b.npz", event_data=structured())
    assert_same(s7.read_events(tmp_path / "b.npz"), EVENTS)
    save(tmp_path / "c.npz", x=X, y=Y, t=T)
    with pytest.raises(ValueError, match=r"c\.npz: has no arrays x, y, t and p; it has x, y, t$"):
        s7.read_events(tmp_path / "c.npz")
    save(tmp_path / "d.npz", x=X, y=Y[1:], t=T, p=P)
    with pytest.raises(ValueError, match="the columns must be rows of the same length, not x"):
        s7.read_events(tmp_path / "d.npz")


def test_one_of_several_recordings_is_read(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=X, y=Y, t=T, p=P, offsets=np.array([0, 20, 20, 50]), label=np.array([1, 2, 3]))
    with pytest.raises(ValueError, match=rf"^{path}: holds 3 recordings; choose one from 0 to 2$"):
        s7.read_events(path)
    assert_same(s7.read_events(path, recording=2), EVENTS[20:])
    assert len(s7.read_events(path, recording=1)) == 0
    with pytest.raises(ValueError, match="holds 3 recordings; there is no recording 3"):
        s7.read_events(path, recording=3)


def test_a_damaged_archive_is_rejected(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=X, y=Y, t=T, p=P)
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(ValueError, match=rf"^{path}: byte {len(whole) - 10}: the archive is cut off or damaged"):
        s7.read_events(path)
    path.write_bytes(whole[:250] + bytes(100) + whole[350:])
    with pytest.raises(ValueError, match=rf"^{path}.*(damaged|cut off)"):
        s7.read_events(path)


def test_real_spikes_are_read():
    path = real_file("event_files/spoken_digit_700ch_spikes.npz")
    times, units = np.load(path)["arr_0"]
    found = s7.read_events(path)
    assert_events(found, units, units * 0, units * 0, np.rint(times * 1e6))
    assert found.sensor == (700, 1)


@needs_h5py
def test_hdf5_layouts_are_read(tmp_path):
    import h5py

    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:  # Prophesee
        file["CD/events"] = structured()
        file["CD/indexes"] = np.zeros(3, [("id", "<u8"), ("ts", "<i8")])
        file.attrs["geometry"] = "640x480"
    assert_same(s7.read_events(path), Events(X, Y, T, P, (640, 480)))
    with h5py.File(path, "w") as file:  # DSEC
        for name, column in zip("xypt", (X, Y, P, T), strict=True):
            file.create_dataset(f"events/{name}", data=column.astype("<u4"), chunks=(16,), compression="gzip")
        file["ms_to_idx"] = np.arange(3)
        file["t_offset"] = np.int64(2**40)
    assert_same(s7.read_events(path), Events(X, Y, T + 2**40, P))
    with h5py.File(path, "w") as file:
        for name, column in zip(("xs", "ys", "ps", "ts"), (X, Y, P, T / 1e6), strict=True):
            file[name] = column
    assert_same(s7.read_events(path), EVENTS)
    assert_same(decoded(decoder_for(path.read_bytes()[:100]), path.read_bytes()), EVENTS)
    with h5py.File(path, "w") as file:
        file["frames"] = np.zeros((3, 4))
    with pytest.raises(ValueError, match="has no arrays of events that are known; it has frames"):
        s7.read_events(path)


@needs_h5py
def test_spikes_of_hdf5_are_read_by_recording(tmp_path):
    path = tmp_path / "shd.h5"
    write_spikes(path, [[0.5, 0.75], [0.25]], [[3, 699], [5]], [1, 2])
    with pytest.raises(ValueError, match="holds 2 recordings; choose one from 0 to 1"):
        s7.read_events(path)
    found = s7.read_events(path, recording=0)
    assert_events(found, [3, 699], [0, 0], [0, 0], [500_000, 750_000])
    assert found.sensor == (700, 1)


@needs_h5py
def test_a_filter_that_is_missing_is_named(tmp_path):
    import h5py

    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple((50,))
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((50,))
        creation.set_filter(32015, h5py.h5z.FLAG_OPTIONAL)
        group = file.create_group("CD")
        h5py.h5d.create(group.id, b"events", h5py.h5t.py_create(structured().dtype), space, creation)
    with pytest.raises(ValueError, match=r"CD/events is compressed by the filter 32015 \(Zstandard\); pip install"):
        s7.read_events(path)
