"""When predictions are due."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from s7.live.inputs import Batch
from s7.live.schedule import Every, Schedule

TIMES = st.lists(st.floats(0, 50), min_size=1, max_size=60).map(sorted)


def batch(times) -> Batch:
    return Batch(np.arange(len(times), dtype=np.int32), np.asarray(times, np.float64), lambda k: f"event {k}")


def due(schedule: Schedule, *batches: Batch) -> list[int]:
    """The numbers of events after which predictions are due."""
    places, seen = [], 0
    for one in batches:
        for part, is_due in schedule.parts(one):
            seen += len(part)
            if is_due:
                places.append(seen)
    return places


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("1000", Every(events=1000)),
        ("10ms", Every(seconds=0.01)),
        ("2.5 s", Every(seconds=2.5)),
        ("5µs", Every(seconds=5e-6)),
    ],
)
def test_intervals_are_events_or_times(text, every):
    parsed = Every.parse(text)
    assert parsed.events == every.events
    assert parsed.seconds == pytest.approx(every.seconds) if every.seconds else parsed.seconds is None


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "10 parsecs", "0ms", "ms", "1e400s", "nan"])
def test_other_intervals_are_errors(text):
    with pytest.raises(ValueError, match="neither a number of events, such as 1000, nor a time, such as 10ms"):
        Every.parse(text)


@given(times=TIMES, cut=st.integers(0, 60), size=st.integers(1, 20))
def test_every_n_events_however_they_are_divided(times, cut, size):
    whole = batch(times)
    expected = list(range(size, len(times) + 1, size))
    assert due(Schedule(Every(events=size), 1.0), whole) == expected
    assert due(Schedule(Every(events=size), 1.0), whole.part(0, cut), whole.part(cut, len(whole))) == expected


@given(times=TIMES, cut=st.integers(0, 60), interval=st.sampled_from([0.5, 3.0, 1e-12, 100.0]))
def test_every_interval_with_events_however_they_are_divided(times, cut, interval):
    whole, every = batch(times), Every(seconds=interval)
    places = due(Schedule(every, 1.0), whole)
    assert places == due(Schedule(every, 1.0), whole.part(0, cut), whole.part(cut, len(whole)))
    assert places == sorted(set(places))
    numbers = np.floor((np.array(times) - times[0]) / interval)
    if interval >= 0.5:
        assert places == (np.flatnonzero(np.diff(numbers)) + 1).tolist()


def test_an_interval_closes_without_a_later_event():
    schedule = Schedule(Every(seconds=1.0), 1.0)
    schedule.parts(batch([0.0, 0.5]))
    assert not schedule.closes(0.9)
    assert schedule.closes(1.0)
    assert not schedule.closes(5.0)


def test_models_without_times_need_numbers_of_events():
    with pytest.raises(ValueError, match="the model has no times"):
        Schedule(Every(seconds=1.0), 1.0).parts(Batch(np.zeros(1, np.int32), None, str))
