"""Files are read in chunks without holding them in memory. `make memory` reads files of 1 GB."""

import tracemalloc

import numpy as np
import pytest

import s7
from s7.bench.files import FILES, simulate


@pytest.mark.parametrize("name", ["evt3", "evt3 vectors", "dat", "npz", "npy", "text"])
def test_chunks_need_little_memory(name, tmp_path):
    path = FILES[name](tmp_path, simulate(600_000))
    s7.read_events(path, chunks=1000)  # imports
    tracemalloc.start()
    count = sum(len(chunk) for chunk in s7.read_events(path, chunks=10_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count > 500_000
    # All events at once take 7.8 MB and, while they are concatenated, twice that.
    assert peak < {"evt3 vectors": 40e6, "text": 30e6}.get(name, 14e6), f"{peak / 1e6:.1f} MB"


def test_a_long_file_needs_no_more_memory_than_a_short_one(tmp_path):
    peaks = []
    for size in (200_000, 1_600_000):
        path = FILES["dat"](tmp_path, simulate(size))
        tracemalloc.start()
        assert sum(np.size(chunk.t) for chunk in s7.read_events(path, chunks=10_000)) == size
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]
