"""ECF, the compression of Prophesee's HDF5 files, against an encoder that handles one event at a time."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import s7
from s7.events.container import Events
from s7.events.formats import ecf
from tests.events.streams import assert_same
from tests.events.writers import needs_h5py


def runs(values):
    """Values and how often each is repeated."""
    found = []
    for value in values:
        if found and found[-1][0] == value:
            found[-1][1] += 1
        else:
            found.append([value, 1])
    return found


def encoded(events, way):
    """A chunk in which positions are stored in one of three ways: "packed", "x packed" or "masked"."""
    flags = {"packed": 2, "x packed": 1, "masked": 0}[way]
    data = (len(events) << 2 | flags).to_bytes(4, "little") + int(events["t"][0]).to_bytes(8, "little")
    now = int(events["t"][0])
    for t, number in runs(events["t"].tolist()):
        step = t - now
        if step >= 15:
            while step:
                data += bytes([0xF0 | step & 15])
                step >>= 4
        now = t
        data += bytes([step << 4 | min(number, 15)]) + (number.to_bytes(2, "little") if number >= 15 else b"")
    x, y, p = (events[name].astype(int).tolist() for name in "xyp")
    if way == "packed":
        return data + four_in_three([b << 12 | a << 1 | c for a, b, c in zip(x, y, p, strict=True)], 8, "<u4")
    for row, number in runs(y):
        data += (row << 5 | min(number, 31)).to_bytes(2, "little")
        data += number.to_bytes(2, "little") if number >= 31 else b""
    if way == "x packed":
        return data + four_in_three([a << 1 | c for a, c in zip(x, p, strict=True)], 4, "<u2")
    n = 0
    while n < len(x):
        first, mask = x[n], 0
        n += 1
        for j in range(5):
            if n < len(x) and x[n] == first + j + 1:
                mask |= 1 << (4 - j)
                n += 1
        data += (first << 5 | mask).to_bytes(2, "little")
    for polarity, number in runs(p):
        data += bytes([polarity << 7 | min(number, 127)]) + (number.to_bytes(2, "little") if number >= 127 else b"")
    return data


def four_in_three(values, part, kind):
    values = values + [0] * (-len(values) % 4)
    words = []
    for a, b, c, d in zip(*(values[n::4] for n in range(4)), strict=True):
        low, middle = 2**part - 1, 2 ** (2 * part) - 1
        words += [a << part | b & low, b >> part << 2 * part | c & middle, c >> 2 * part << 3 * part | d]
    return np.array(words, kind).tobytes()


def some_events(count, seed, quick):
    """Events of which many have the same time, row, column or polarity."""
    rng = np.random.default_rng(seed)
    events = np.zeros(count, ecf.DTYPE)
    events["t"] = 10**6 + np.cumsum(rng.choice([0, 0, 0, 1, 14, 15, 16, 300, 70_000], count) // (1 + 20 * quick))
    events["x"] = np.cumsum(rng.integers(0, 3, count)) % 1280
    events["y"] = np.cumsum(rng.random(count) < 0.1) % 720
    events["p"] = np.cumsum(rng.random(count) < 0.02) % 2
    return events


@settings(max_examples=60)
@given(st.integers(1, 600), st.integers(0, 999), st.booleans(), st.sampled_from(["packed", "x packed", "masked"]))
def test_chunks_are_decoded(count, seed, quick, way):
    events = some_events(count, seed, quick)
    found = ecf.decode(encoded(events, way))
    for name in "xytp":
        np.testing.assert_array_equal(found[name], events[name], name)


def write_ecf(path, events, size, way):
    """An HDF5 file as Prophesee writes them. The last chunk is filled with zeros."""
    import h5py

    with h5py.File(path, "w") as file:
        file.attrs["geometry"] = "1280x720"
        group = file.create_group("CD")
        space = h5py.h5s.create_simple((len(events),))
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((size,))
        creation.set_filter(ecf.FILTER, h5py.h5z.FLAG_OPTIONAL)
        array = h5py.h5d.create(group.id, b"events", h5py.h5t.py_create(ecf.DTYPE), space, creation)
        for at in range(0, len(events), size):
            array.write_direct_chunk((at,), encoded(events[at : at + size], way))
    return path


@needs_h5py
@pytest.mark.parametrize("way", ["packed", "x packed", "masked"])
def test_a_file_is_read(way, tmp_path):
    events = some_events(1000, 0, quick=False)
    path = write_ecf(tmp_path / "a.h5", events, 300, way)
    expected = Events(events["x"], events["y"], events["t"], events["p"], (1280, 720))
    assert_same(s7.read_events(path), expected)
    assert_same(Events.concatenate(list(s7.read_events(path, chunks=170))), expected)


@needs_h5py
def test_a_damaged_chunk_is_rejected_with_its_position(tmp_path):
    events = some_events(1000, 0, quick=False)
    path = write_ecf(tmp_path / "a.h5", events, 300, "masked")
    whole = path.read_bytes()
    chunk = encoded(events[300:600], "masked")
    at = whole.index(chunk)
    path.write_bytes(whole[: at + 12] + bytes(len(chunk) - 12) + whole[at + len(chunk) :])
    with pytest.raises(ValueError, match=rf"^{path}: byte {at}: damaged \(runs that do not add up to 300 events\)"):
        s7.read_events(path)


@settings(max_examples=150)
@given(st.integers(0, 10**6))
def test_damaged_chunks_are_decoded_or_rejected(seed):
    rng = np.random.default_rng(seed)
    way = ["packed", "x packed", "masked"][seed % 3]
    data = bytearray(encoded(some_events(100, seed, quick=seed % 2 == 0), way))
    for place in rng.integers(0, len(data), 3):
        data[place] = rng.integers(256)
    with suppress(ecf.DamagedChunk):
        assert len(ecf.decode(bytes(data[: rng.integers(len(data))] if seed % 5 == 0 else data))) < 2**16
