"""Event Stream against a state machine that handles one byte at a time."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from s7.events.formats.es import EventStreamDecoder
from tests.events.streams import assert_events, decoded


def header(kind=1, sensor=(65535, 65535), version=2):
    return b"Event Stream" + bytes([version, 0, 0, kind]) + np.array(sensor, "<u2").tobytes()


def plain(stream, atis):
    """The events of a stream, byte by byte, whether it ends between events, and all values of x and y."""
    found, t, record, places = [], 0, b"", set()
    for byte in stream:
        if not record and atis and byte >= 0xFC:
            t += 63 * (byte & 3)
        elif not record and not atis and byte >= 0xFE:
            t += 127 * (byte & 1)
        else:
            record += bytes([byte])
        if len(record) == 5:
            t += record[0] >> (2 if atis else 1)
            x, y = np.frombuffer(record[1:], "<u2").tolist()
            places.update((x, y))
            if not atis:
                found.append((x, y, record[0] & 1, t))
            elif not record[0] & 1:
                found.append((x, y, record[0] >> 1 & 1, t))
            record = b""
    columns = [list(column) for column in zip(*found, strict=True)] if found else [[]] * 4
    return columns, not record, places


BYTE = st.integers(0, 255) | st.sampled_from([0xFC, 0xFD, 0xFE, 0xFF]) | st.integers(0, 3)


@settings(max_examples=150)
@given(st.lists(BYTE, max_size=120), st.booleans(), st.sampled_from([None, 1, 3, 17]))
def test_streams_are_decoded_byte_by_byte(stream, atis, piece):
    columns, whole, places = plain(stream, atis)
    assume(65535 not in places)  # outside of every sensor
    decoder = EventStreamDecoder("a.es")
    data = header(2 if atis else 1) + bytes(stream)
    if whole:
        assert_events(decoded(decoder, data, piece), *columns)
    else:
        with pytest.raises(ValueError, match="cut off inside of an event"):
            decoded(decoder, data, piece)


def test_many_overflows_are_decoded():
    rng = np.random.default_rng(0)
    stream = b"".join(b"\xff" * rng.integers(0, 9) + rng.integers(0, 254, 5, np.uint8).tobytes() for _ in range(3000))
    columns, *_ = plain(stream, atis=False)
    assert_events(decoded(EventStreamDecoder("a.es"), header() + stream, 1000), *columns)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"Event Strea", "byte 11: cut off in the header"),
        (b"Event Stuff", "byte 0: not an Event Stream"),
        (header(version=1), "byte 12: version 1 of Event Stream"),
        (header(0), "byte 15: holds generic events"),
        (header(sensor=(0, 5)), "byte 16: the size of the sensor is 0×5"),
        (header() + bytes(7), "byte 27: cut off inside of an event"),
        (
            header(sensor=(4, 4)) + b"\xff\x00\x01\x00\x01\x00\xff\xff\x00\x04\x00\x01\x00",
            "byte 28: an event at x=4, y=1 is outside of the sensor of 4×4 pixels",
        ),
    ],
)
def test_damaged_streams_are_rejected(data, message):
    for piece in (None, 1):
        with pytest.raises(ValueError, match=rf"^a\.es: {message}"):
            decoded(EventStreamDecoder("a.es"), data, piece)
