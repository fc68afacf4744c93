"""AEDAT 3.1."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s7.events.formats.aedat3 import Aedat3, Aedat3Decoder
from tests.events.streams import assert_events, decoded
from tests.events.writers import AEDAT_HEADER, aedat_bytes, packet, polarity_words, some_events


@settings(max_examples=40)
@given(st.integers(0, 50), st.integers(1, 20), st.integers(0, 5))
def test_an_aedat_file_is_read_with_any_packets(count, at_a_time, overflow):
    x, y, p, t = some_events(count, 2**15, end=1000)
    t = t + (overflow << 31)
    assert_events(decoded(Aedat3Decoder("some.aedat"), aedat_bytes(x, y, p, t, at_a_time), 13), x, y, p, t)


def test_other_packets_and_invalid_events_are_skipped():
    x, y, p, t = some_events(6, 128)
    words = polarity_words(x, y, p, valid=np.array([1, 0, 1, 1, 0, 1]))
    other = packet(words[:2], t[:2], kind=0)
    data = AEDAT_HEADER + other + packet(words, t, valid=4) + other
    keep = [0, 2, 3, 5]
    assert_events(decoded(Aedat3Decoder("some.aedat"), data), x[keep], y[keep], p[keep], t[keep])
    # The header marks all events as valid.
    assert len(decoded(Aedat3Decoder("some.aedat"), AEDAT_HEADER + packet(words, t)).t) == 6


def test_a_truncated_aedat_file_is_rejected(tmp_path):
    whole = aedat_bytes(*some_events(5, 128), at_a_time=3)
    first, second = len(AEDAT_HEADER), len(AEDAT_HEADER) + 28 + 3 * 8
    path = tmp_path / "some.aedat"
    for size in {*range(0, len(whole), 5), 11, 12, first, first + 1, first + 27, first + 28, second - 1, second}:
        path.write_bytes(whole[:size])
        if size in (first, second):  # between packets nothing is missed
            assert len(Aedat3().read(path).t) == (0 if size == first else 3)
            continue
        if size < first:
            message = "byte 0: not an AEDAT 3.1 file" if size < 12 else f"byte {size}: .*header"
        else:
            start, number = (first, 0) if size < second else (second, 1)
            where = "in the header" if size < start + 28 else "inside"
            message = f"byte {size}: cut off {where} of packet {number}; get it again"
        with pytest.raises(ValueError, match=f"^{path}: {message}"):
            Aedat3().read(path)


@pytest.mark.parametrize(
    "bad", [{"kind": -32767}, {"size": 12}, {"size": 0, "kind": 3}], ids=["compressed", "size", "no size"]
)
def test_a_packet_that_cannot_be_read_is_rejected(bad):
    good = packet(np.array([1]), np.array([1]))
    data = AEDAT_HEADER + good + packet(np.array([1]), np.array([1]), **bad)
    at = len(AEDAT_HEADER) + len(good)
    with pytest.raises(ValueError, match=rf"^a\.aedat: byte {at}: packet 1 is damaged, or compressed"):
        decoded(Aedat3Decoder("a.aedat"), data)
