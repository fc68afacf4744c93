"""The line protocol."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import s7
from s7.live.inputs import Inputs
from s7.live.lines import LONGEST, Lines

from .conftest import SENSOR, make_lines, make_model

LINES = ["# comment", *make_lines(20), "", "2000, 1,2 ,0", "  3000\t3 4 -1  "]
TEXT = ("\n".join(LINES) + "\r\n").encode()


def read(inputs: Inputs, *parts: bytes):
    lines = Lines(inputs, "in")
    batches = [lines.feed(part) for part in parts] + [lines.end()]
    return [batch for batch in batches if batch is not None]


@given(cuts=st.lists(st.integers(0, len(TEXT)), max_size=6))
def test_lines_may_arrive_in_any_parts(inputs, cuts):
    places = [0, *sorted(cuts), len(TEXT)]
    batches = read(inputs, *(TEXT[a:b] for a, b in pairwise(places)))
    whole = read(inputs, TEXT)[0]
    np.testing.assert_array_equal(np.concatenate([batch.events for batch in batches]), whole.events)
    np.testing.assert_array_equal(np.concatenate([batch.times for batch in batches]), whole.times)


def test_events_are_tokens_and_times_are_milliseconds(inputs):
    batch = read(inputs, b"1500 3 4 1\n2500,0,0,-1")
    tokens = np.concatenate([part.events for part in batch])
    np.testing.assert_array_equal(tokens, s7.tokenize([3, 0], [4, 0], [1, -1], sensor=SENSOR))
    assert [time for part in batch for time in part.times] == [1.5, 2.5]


def test_models_of_numbers_and_tokens():
    linear = s7.LinearEncoder(2)
    timed = Inputs.of(make_model(linear).config)
    assert (timed.line, timed.unit) == ("t v1 v2", "s")
    batch = read(timed, b"0.5 1 2\n0.75 3 4\n")[0]
    np.testing.assert_array_equal(batch.events, np.array([[1, 2], [3, 4]], np.float32))
    np.testing.assert_array_equal(batch.times, [0.5, 0.75])
    regular = Inputs.of(make_model(linear, time_unit=None).config)
    assert regular.line == "v1 v2"
    assert read(regular, b"1 2\n")[0].times is None
    tokens = Inputs.of(make_model(s7.TokenEncoder(7), time_unit=None).config)
    np.testing.assert_array_equal(read(tokens, b"6\n0\n")[0].events, [6, 0])
    with pytest.raises(ValueError, match=r"^in: line 2: 7 is not a token: 0 to 6$"):
        read(tokens, b"6\n7\n")
    with pytest.raises(ValueError, match=r"^in: line 1: a token must be a whole number$"):
        read(tokens, b"1.5\n")
    with pytest.raises(ValueError, match=r"^in: line 1: a number is not finite or too large for float32$"):
        read(regular, b"1e300 0\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"7 1 2", "line 4 is '7 1 2', expected 4 numbers: t x y p"),
        (b"7 1 2 1 5", "line 4 is '7 1 2 1 5', expected 4 numbers: t x y p"),
        (b"7 one 2 1", "line 4 is '7 one 2 1', expected 4 numbers: t x y p"),
        (b"\xff\x01", r"line 4 is '\\xff\x01', expected 4 numbers: t x y p"),
        (b"x" * 90, f"line 4 is '{'x' * 40}…', expected 4 numbers: t x y p"),
        (b"7 %065d 2 1" % 1, f"line 4 is '7 {'0' * 38}…', expected 4 numbers: t x y p"),
        (b"7 1e300 2 1", "line 4: x, y and p must be whole numbers"),
        (b"7 1.5 2 1", "line 4: x, y and p must be whole numbers"),
        (b"nan 1 2 1", "line 4: is not finite"),
        (b"7 12 2 1", "line 4: x=12 is outside of 0 to 11, the model's sensor is 12×9"),
        (b"7 1 -1 1", "line 4: y=-1 is outside of 0 to 8, the model's sensor is 12×9"),
        (b"7 1 1 2", "line 4: p=2 is not a polarity: -1, 0 or 1"),
    ],
)
def test_errors_name_the_line(inputs, line, message):
    with pytest.raises(ValueError, match="line") as error:
        read(inputs, b"# head\n\n0 1 2 1\n" + line + b"\n")
    assert str(error.value) == f"in: {message}"


def test_an_empty_line_that_arrives_alone_counts(inputs):
    with pytest.raises(ValueError, match=r"^in: line 2 is 'no'"):
        read(inputs, b"\n", b"no\n")


def test_one_long_word_does_not_fill_the_memory(inputs):
    """As an array, these 400,000 words would have 200 GB."""
    text = b"0 1 2 1\n" * 100_000 + b"0 %0500000d 2 1\n" % 1
    with pytest.raises(ValueError, match=r"^in: line 100001 is '0 0000.*, expected 4 numbers: t x y p$"):
        read(inputs, text)


@given(data=st.binary(max_size=60))
def test_garbage_is_an_error_of_one_line(inputs, data):
    message = "in: line 1"
    try:
        read(inputs, data)
    except ValueError as error:
        message = str(error)
    assert message.startswith("in: line ")
    assert "\n" not in message


def test_endless_lines_do_not_fill_the_memory(inputs):
    lines = Lines(inputs, "in")
    lines.feed(b"1" * LONGEST)
    with pytest.raises(ValueError, match=r"^in: line 1 is longer than 1,048,576 bytes$"):
        lines.feed(b"1")
