"""Writers of the official event formats, in microseconds, and the location of real data."""

import struct
from importlib.util import find_spec

import numpy as np
import pytest

AEDAT_HEADER = b"#!AER-DAT3.1\r\n#Format: RAW\r\n#Source 1: DVS128\r\n#Start-Time: 2016-04-01\r\n#!END-HEADER\r\n"

needs_h5py = pytest.mark.skipif(find_spec("h5py") is None, reason="h5py is missing; pip install 's7-ssm[events]'")


def some_events(count, side, seed=0, end=300_000):
    """Columns x, y, p and t in the order of time."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, side, (2, count))
    return x, y, rng.integers(0, 2, count), np.sort(rng.integers(0, end, count))


def bin_bytes(x, y, p, t):
    """A .bin file of N-MNIST."""
    raw = np.stack([x, y, p << 7 | t >> 16, t >> 8 & 255, t & 255], 1)
    return raw.astype(np.uint8).tobytes()


def packet(data, t, kind=1, overflow=0, valid=None, size=8):
    """A packet of AEDAT 3.1 with words of data and timestamps."""
    count = len(t)
    valid = count if valid is None else valid
    header = struct.pack("<hhiiiiii", kind, 1, size, 4, overflow, count, count, valid)
    return header + np.stack([data, t], 1).astype("<u4").tobytes()


def polarity_words(x, y, p, valid=1):
    """The data word of pixels and polarities in AEDAT 3.1."""
    return np.asarray(x) << 17 | np.asarray(y) << 2 | np.asarray(p) << 1 | valid


def aedat_bytes(x, y, p, t, at_a_time=100):
    """An AEDAT 3.1 file with this number of events per packet."""
    words = polarity_words(x, y, p)
    cuts = [slice(n, n + at_a_time) for n in range(0, len(t), at_a_time)]
    return AEDAT_HEADER + b"".join(packet(words[cut], t[cut] & 0x7FFFFFFF, overflow=t[cut][0] >> 31) for cut in cuts)


def write_spikes(path, times, units, labels=None, speakers=None, names=None):
    """A file of SHD or SSC; arrays that are None are omitted."""
    import h5py

    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = {"times": np.float16, "units": np.uint16}
    with h5py.File(path, "w") as file:
        for name, rows in (("times", times), ("units", units)):
            if rows is None:
                continue
            dataset = file.create_dataset(f"spikes/{name}", (len(rows),), h5py.vlen_dtype(kinds[name]))
            for n, row in enumerate(rows):
                dataset[n] = np.asarray(row, kinds[name])
        for key, values in (("labels", labels), ("extra/speaker", speakers)):
            if values is not None:
                file[key] = np.asarray(values, np.uint16)
        if names is not None:
            file["extra/keys"] = np.array([name.encode() for name in names])
