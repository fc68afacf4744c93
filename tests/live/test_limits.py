"""The budget of events of a connection."""

from hypothesis import given
from hypothesis import strategies as st

from s7.live.limits import Allowance

from .test_pacing import Clock


@given(steps=st.lists(st.tuples(st.floats(0, 3), st.integers(0, 500)), max_size=40))
def test_no_second_has_more_events_than_allowed(steps):
    clock = Clock()
    allowance, start, taken = Allowance(100, clock), clock.now, 0
    for seconds, events in steps:
        clock.now += seconds
        allowed = allowance.take(events)
        assert 0 <= allowed <= min(events, 100)
        taken += allowed
        assert taken <= 100 + 100 * (clock.now - start) + 1e-6


def test_the_budget_refills():
    clock = Clock()
    allowance = Allowance(100, clock)
    assert allowance.take(150) == 100
    assert allowance.take(1) == 0
    assert allowance.wait(50) == 0.5
    clock.now += 0.5
    assert allowance.take(100) == 50
