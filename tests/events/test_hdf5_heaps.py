"""Heaps of HDF5 files, whose damage would make the HDF5 library hang."""

import numpy as np
import pytest

import s7
from s7.events.hdf5_heaps import SIGNATURE, damaged_heap
from s7.events.spike_hdf5 import open_spikes
from tests.events.writers import needs_h5py, write_spikes


@needs_h5py
def test_good_heaps_pass_and_damaged_ones_are_found(tmp_path):
    path = tmp_path / "a.h5"
    write_spikes(path, [np.linspace(0, 1, n + 1) for n in range(40)], [np.arange(n + 1) for n in range(40)], range(40))
    whole = path.read_bytes()
    assert whole.count(SIGNATURE) > 0
    assert damaged_heap(whole) is None
    first = whole.index(SIGNATURE) + 16
    # An object of index 0 and size 0 is followed by itself.
    path.write_bytes(whole[:first] + bytes(16) + whole[first + 16 :])
    with pytest.raises(ValueError, match=rf"^{path}: byte {first}: damaged \(the size of an object in a heap\)"):
        s7.read_events(path, recording=0)
    assert damaged_heap(whole[: first + 8] + b"\xff" * 8 + whole[first + 16 :]) == first
    assert damaged_heap(b"") is None


@needs_h5py
def test_a_row_that_is_longer_than_the_file_is_rejected(tmp_path):
    import h5py

    path = tmp_path / "a.h5"
    write_spikes(path, [[0.5], [0.5, 0.6]], [[3], [4, 5]], [0, 1])
    with h5py.File(path) as file:
        at = file["spikes/units"].id.get_offset() + 16
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + (3 * 10**9).to_bytes(4, "little") + whole[at + 4 :])
    message = rf"^{path}: byte {at}: damaged \(a row that is longer than the file\)"
    with pytest.raises(ValueError, match=message):
        s7.read_events(path, recording=1)
    with pytest.raises(ValueError, match=message), open_spikes(path) as spikes:
        list(spikes.parts())
