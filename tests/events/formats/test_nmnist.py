"""The .bin files of N-MNIST."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s7.events.formats.nmnist import NMnist, NMnistDecoder
from tests.events.streams import assert_events, decoded
from tests.events.writers import bin_bytes, some_events
from tests.real_data import real_file


def plain_bin(data):
    """As the published readers do it, event by event."""
    found, late = [], 0
    for n in range(0, len(data), 5):
        x, y, high, middle, low = data[n : n + 5]
        if y == 240:
            late += 2**13
        else:
            found.append((x, y, high >> 7, ((high & 127) << 16 | middle << 8 | low) + late))
    return zip(*found, strict=True) if found else [[]] * 4


BYTE = st.integers(0, 255)


@settings(max_examples=40)
@given(st.lists(st.tuples(BYTE, BYTE | st.just(240), BYTE, BYTE, BYTE), max_size=12))
def test_a_bin_file_is_read_as_published_readers_do(entries):
    data = bytes(byte for entry in entries for byte in entry)
    assert_events(decoded(NMnistDecoder("some.bin"), data, 7), *map(list, plain_bin(data)))


def test_overflow_entries_of_bin_files_advance_the_clock():
    x, y, p, t = (
        np.array(q) for q in ([1, 0, 2, 0, 3, 4], [4, 240, 5, 240, 6, 7], [1, 0, 0, 0, 1, 1], [9, 0, 8, 0, 7, 7])
    )
    wanted = [1, 2, 3, 4], [4, 5, 6, 7], [1, 0, 1, 1], [9, 8 + 8192, 7 + 2 * 8192, 7 + 2 * 8192]
    assert_events(decoded(NMnistDecoder("some.bin"), bin_bytes(x, y, p, t)), *wanted)


def test_a_truncated_bin_file_is_rejected():
    with pytest.raises(ValueError, match=r"^some\.bin: byte 14: cut off inside of an event; get it again$"):
        decoded(NMnistDecoder("some.bin"), bytes(14))


def test_a_real_recording_is_read():
    path = real_file("event_files/sample_nmnist.bin")
    data = path.read_bytes()
    events = NMnist().read(path)
    assert len(events.t) == 4325
    assert events.x.max() == events.y.max() == 33
    assert (events.t[0], events.t[-1]) == (654, 311175)
    assert 0.4 < events.p.mean() < 0.6
    assert_events(events, *map(list, plain_bin(data)))


def test_a_stream_without_a_name_is_recognized_by_its_order():
    x, y, p, t = some_events(100, 34)
    assert NMnist().resembles(bin_bytes(x, y, p, t))
    assert not NMnist().resembles(bin_bytes(x, y, p, t[::-1]))
    assert not NMnist().resembles(bytes(1000))
    assert not NMnist().resembles(b"")
