"""CSV and text."""

import numpy as np
import pytest

import s7
from s7.events.formats.text import Text, TextDecoder
from tests.events.streams import assert_events, decoded

X, Y, P, T = [3, 5, 0], [7, 9, 1], [1, 0, 1], [1000, 2500, 700_000]


def lines(order, separator=",", times=T):
    columns = {"x": X, "y": Y, "p": P, "t": times}
    return "".join(separator.join(str(columns[name][n]) for name in order) + "\n" for n in range(3)).encode()


@pytest.mark.parametrize("piece", [None, 1, 13])
@pytest.mark.parametrize(
    "data",
    [
        b"x,y,t,p\n" + lines("xytp"),
        b"timestamp polarity x y\n" + lines("tpxy", " "),
        b"# made by hand\nX;Y;p;T_us\n" + lines("xypt", ";"),
        b"t [ns],x,y,p\n" + lines("txyp", times=[1000 * t for t in T]),
        b"t,x,y,p\n" + lines("txyp", times=[f"{t / 1e6:.6f}" for t in T]),
        lines("txyp", " ", times=[t / 1e6 for t in T]),
        lines("txyp", "\t"),
        lines("xytp"),
        lines("xypt").replace(b"\n", b"\r\n\r\n"),
        lines("xypt").rstrip(),
        lines("txyp", times=["1e3", "2.5e3", "7e5"]),
    ],
)
def test_columns_are_found(data, piece):
    assert Text().resembles(data)
    assert_events(decoded(TextDecoder("a.csv"), data, piece), X, Y, P, T)


def test_polarities_may_be_signed():
    found = decoded(TextDecoder("a.csv"), b"x,y,t,p\n1,2,3,-1\n1,2,4,1\n1,2,5,0\n")
    assert found.p.tolist() == [0, 1, 0]


@pytest.mark.parametrize("start", [b"%geometry:640,480\n", b"# sensor 640x480\n", b"640 480\n"])
def test_the_sensor_is_read(start):
    found = decoded(TextDecoder("a.csv"), start + lines("xypt"))
    assert found.sensor == (640, 480)
    assert len(found) == 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x,y,t,p\n1,2,3,1\n1,2,x,1\n", "byte 16: not a number in the line '1,2,x,1'"),
        (b"x,y,t,p\n1,2,3,1\n1,2,3\n", "byte 16: 3 columns, expected 4 in the line '1,2,3'"),
        (b"x,y,t,p\n1,2,3,1\n\n1,-2,3,0\n", "byte 17: y is -2, expected a whole number from 0 to 65535"),
        (b"x,y,t,p\n1.5,2,3,1\n", "byte 8: x is 1.5, expected a whole number"),
        (b"x,y,t,p\n1,2,nan,1\n", "byte 8: t is nan, expected a time"),
        (b"x,y,t,p\n1,2,3,7\n", "byte 8: p is 7, expected 0, 1 or -1"),
        (b"# sensor 4x4\nx,y,t,p\n1,4,3,1\n", "byte 21: y is 4, expected a whole number from 0 to 3"),
        (b"x,y,t\n1,2,3\n", "byte 0: no column p among x, y, t"),
        (b"1,2,3\n", "byte 0: 3 columns without names; expected 4"),
        (b"5,5,5,5\n3,3,3,3\n", "byte 0: the columns are not those of events; name them"),
        (b"x,y,t,p\n" + b"1" * 5000, "byte 8: "),
        (b"x,y,t,p\n1,2,3,\xff\n", "byte 8: not a number"),
    ],
)
def test_damaged_text_is_rejected_with_its_position(data, message):
    with pytest.raises(ValueError, match=rf"^a\.csv: {message}") as caught:
        decoded(TextDecoder("a.csv"), data)
    assert "\n" not in str(caught.value)


def test_a_line_without_end_is_rejected_before_it_fills_the_memory():
    decoder = TextDecoder("a.csv")
    decoder.feed(b"x,y,t,p\n1,2,3,1\n")
    with pytest.raises(ValueError, match="byte 16: a line of more than 4,096 bytes"):
        decoder.feed(b"1" * 5000)


def test_other_text_is_not_taken_for_events():
    for text in (b"", b"hello world\n", b"# only\n", b"\x00\x01", b"a,b,c,d\n1,2,3,4\n"):
        assert not Text().resembles(text)


def test_lines_are_returned_as_they_arrive():
    decoder = TextDecoder("stream")
    assert len(decoder.feed(b"x,y,t,p\n")) == 0
    assert len(decoder.feed(b"1,2,3,1\n4,5,")) == 1
    assert decoder.feed(b"6,0\n").t.tolist() == [6]
    assert len(decoder.finish()) == 0


def test_a_large_file_is_read_in_blocks(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 640, (2, 30_000))
    events = s7.Events(x, y, np.cumsum(x), y % 2)
    np.testing.assert_array_equal(s7.read_events(s7.write_events(tmp_path / "a.csv", events)).t, events.t)
