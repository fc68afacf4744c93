"""Structured arrays of events."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s7.events.recordings import Recording, Sensor
from s7.events.structured import from_structured
from tests.events.streams import assert_events
from tests.events.writers import some_events


@settings(max_examples=30)
@given(st.permutations(["x", "y", "t", "p"]), st.sampled_from([np.int8, np.int64, bool]))
def test_structured_arrays_are_read_with_fields_in_any_order(order, polarity):
    x, y, p, t = some_events(10, 34)
    kinds = {"x": np.int16, "y": np.uint8, "t": np.int64, "p": polarity}
    array = np.zeros(10, [(name, kinds[name]) for name in order])
    signs = p if polarity is bool else 2 * p - 1
    for name, values in (("x", x), ("y", y), ("t", t), ("p", signs)):
        array[name] = values
    assert_events(from_structured(array), x, y, p, t)


def test_a_row_of_channels_has_neither_y_nor_polarity():
    array = np.array([(3, 2500, 1), (699, 3000, 1)], [("x", "<i8"), ("t", "<i8"), ("p", "<i8")])
    found = from_structured(array)
    assert_events(found, [3, 699], [0, 0], [0, 0], [2500, 3000])
    Sensor(700, 1, 1).check(Recording.of(found), "some")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([("x", int), ("y", int), ("t", int)], "no field p; it has x, y, t$"),
        ([("x", int), ("p", int)], "no field t; it has x, p$"),
        (float, "no field x, t; it holds float64$"),
        ([("x", float), ("t", int)], "the field x .* holds float64, expected"),
    ],
)
def test_invalid_structured_arrays_are_rejected(fields, message):
    with pytest.raises(ValueError, match=message):
        from_structured(np.zeros(3, fields))
