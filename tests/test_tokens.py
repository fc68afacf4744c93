"""Tokens are one-to-one, and invalid events are rejected."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import s7
from s7 import reference
from s7.tokens import vocabulary

sensors = st.tuples(st.integers(1, 40), st.integers(1, 40))


@given(sensor=sensors)
def test_all_events_of_a_sensor_have_all_tokens_once(sensor):
    x, y, p = (q.ravel() for q in np.meshgrid(np.arange(sensor[0]), np.arange(sensor[1]), [-1, 1], indexing="ij"))
    tokens = s7.tokenize(x, y, p, sensor=sensor)
    np.testing.assert_array_equal(np.sort(tokens), np.arange(vocabulary(sensor)))
    for back, original in zip(s7.detokenize(tokens, sensor=sensor), (x, y, p), strict=True):
        np.testing.assert_array_equal(back, original)


@given(sensor=sensors, data=st.data())
def test_tokens_are_those_of_the_reference_and_polarity_may_be_0_1_or_boolean(sensor, data):
    x, y = (data.draw(st.integers(0, size - 1)) for size in sensor)
    brighter = data.draw(st.booleans())
    expected = reference.token(x, y, brighter, sensor)
    for p in (brighter, int(brighter), 1 if brighter else -1):
        assert s7.tokenize([x], [y], [p], sensor=sensor)[0] == expected


def test_a_large_sensor_does_not_overflow():
    sensor = (60_000, 40_000)
    token = s7.tokenize([59_999], [39_999], [1], sensor=sensor)
    assert token[0] == vocabulary(sensor) - 1
    assert [int(q[0]) for q in s7.detokenize(token, sensor=sensor)] == [59_999, 39_999, 1]
    assert s7.tokenize([1], [1], [1], sensor=(346, 260)).dtype == np.int32


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("events", "error", "message"),
    [
        (([0, 346, 400], [0, 0, 0], [1, 1, 1]), ValueError, r"x\[1\] = 346 is outside of 0 to 345, a sensor 346 wide"),
        (([0, 0], [0, -1], [1, 1]), ValueError, r"y\[1\] = -1 is outside of 0 to 259, a sensor 260 high"),
        (([0, 0], [0, 0], [1, 2]), ValueError, r"p\[1\] = 2 is not a polarity"),
        (([0.5], [0], [1]), TypeError, "x holds float64, expected integers"),
        (([0], [0], [0.5]), TypeError, "p holds float64"),
        (([0, 1], [0], [1]), ValueError, "x, y and p differ in shape"),
    ],
)
def test_an_invalid_event_is_rejected(events, error, message):
    with pytest.raises(error, match=message):
        s7.tokenize(*events, sensor=(346, 260))


@pytest.mark.usefixtures("as_users_see_it")
def test_an_invalid_token_is_rejected():
    with pytest.raises(ValueError, match=r"tokens\[1\] = 8 is outside of 0 to 7, a sensor of 2×2"):
        s7.detokenize([0, 8], sensor=(2, 2))
    with pytest.raises(ValueError, match=r"sensor=\(0, 3\) must be \(width, height\)"):
        s7.tokenize([0], [0], [1], sensor=(0, 3))
