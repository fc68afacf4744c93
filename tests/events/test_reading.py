"""Reading whole files and chunks, and timestamps that decrease."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import s7
from s7.events.container import Events
from s7.events.order import Order
from s7.events.reading import regrouped
from tests.events.streams import assert_same


def some(count, t=None):
    x = np.arange(count)
    return Events(x, x + 1, x if t is None else t, x % 2, (999, 999))


@settings(max_examples=50)
@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 12))
def test_blocks_are_regrouped(sizes, size):
    whole = some(sum(sizes))
    ends = np.cumsum([0, *sizes])
    chunks = list(regrouped([whole[a:b] for a, b in pairwise(ends)], size))
    assert [len(chunk) for chunk in chunks[:-1]] == [size] * (len(chunks) - 1)
    assert sum(map(len, chunks)) == len(whole)
    if chunks:
        assert_same(Events.concatenate(chunks), whole)


def test_times_that_go_back_are_reported_or_rejected(tmp_path):
    path = s7.write_events(tmp_path / "a.csv", some(5, [5, 6, 4, 9, 8]))
    message = rf"^{path}: time goes back 2 times, first at event 2, from 6 to 4 µs$"
    with pytest.warns(UserWarning, match=message):
        found = s7.read_events(path)
    assert found.jumps_back().tolist() == [2, 4]
    assert found.sorted().t.tolist() == [4, 5, 6, 8, 9]
    assert found.sorted().x.tolist() == [2, 0, 1, 4, 3]
    with pytest.warns(UserWarning, match=message):
        assert len(list(s7.read_events(path, chunks=2))) == 3
    with pytest.raises(ValueError, match=rf"^{path}: time goes back at event 2, from 6 to 4 µs$"):
        s7.read_events(path, unordered="reject")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s7.read_events(path, unordered="ignore")


def test_decreases_between_blocks_count():
    order = Order("a")
    for t in ([3, 4], [], [2], [2, 1]):
        order.watch(some(len(t), np.array(t, int)))
    assert order.report() == "a: time goes back 2 times, first at event 2, from 4 to 2 µs"


@pytest.mark.usefixtures("as_users_see_it")
def test_invalid_arguments_are_rejected(tmp_path):
    path = s7.write_events(tmp_path / "a.dat", some(5))
    with pytest.raises(ValueError, match="chunks must be at least 1, not 0"):
        s7.read_events(path, chunks=0)
    with pytest.raises(ValueError, match="unordered must be 'warn', 'reject' or 'ignore', not 'sort'"):
        s7.read_events(path, unordered="sort")
    with pytest.raises(ValueError, match="no event format 'evt33'; did you mean 'evt3'"):
        s7.read_events(path, format="evt33")
    with pytest.raises(ValueError, match="holds 1 recording; there is no recording 1"):
        s7.read_events(path, recording=1)
    with pytest.raises(FileNotFoundError, match="none"):
        s7.read_events(tmp_path / "none")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ValueError, match=r"empty: empty; there are no events in it"):
        s7.read_events(tmp_path / "empty")


def test_the_format_can_be_given(tmp_path):
    path = s7.write_events(tmp_path / "a.raw", some(5))
    words = path.read_bytes().partition(b"% end\n")[2]
    (tmp_path / "b").write_bytes(words)
    assert s7.read_events(tmp_path / "b", format="evt3").x.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("as_users_see_it")
def test_events_are_checked_and_described():
    assert repr(some(1200)) == "Events(1,200 events, 999×999 pixels, t = 0 to 1199 µs)"
    assert repr(Events.empty()) == "Events(0 events, sensor unknown)"
    with pytest.raises(ValueError, match="the columns differ in length: 1 x, 2 y, 1 t, 1 p"):
        Events([1], [1, 2], [1], [1])
    with pytest.raises(ValueError, match="event 1 has x=-1, outside of 0 to 65535"):
        Events([1, -1], [1, 2], [1, 2], [1, 1])
    with pytest.raises(ValueError, match=r"t must be a row of whole numbers, not float64\[1\]"):
        Events([1], [1], [1.5], [1])
    events = Events([1], [2], [3], [-1])
    assert (events.x.dtype, events.t.dtype, events.p.tolist()) == (np.uint16, np.int64, [0])
    with pytest.raises(AttributeError):
        events.x = events.y
