"""Feed decoders in pieces, and compare events."""

import numpy as np

from s7.events.container import Events


def decoded(decoder, data, piece=None):
    """All events of a stream that arrives in pieces of this many bytes; by default at once."""
    cuts = range(0, len(data), piece or max(len(data), 1))
    parts = [decoder.feed(data[at : at + (piece or len(data))]) for at in cuts]
    return Events.concatenate([*parts, decoder.finish()])


def assert_events(found, x, y, p, t):
    """The events are these."""
    for name, expected in (("x", x), ("y", y), ("p", p), ("t", t)):
        np.testing.assert_array_equal(getattr(found, name), expected, name)
    assert [getattr(found, name).dtype for name in "xytp"] == [np.uint16, np.uint16, np.int64, np.uint8]


def assert_same(found, expected):
    """The events are the same, and so is the sensor."""
    assert_events(found, expected.x, expected.y, expected.p, expected.t)
    assert found.sensor == expected.sensor
