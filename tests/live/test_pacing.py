"""Playback against the clock."""

import pytest

from s7.live.pacing import Pacer


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_time_passes_at_the_speed_and_not_in_a_pause():
    clock = Clock()
    pacer = Pacer(1e-3, clock=clock)
    pacer.start(50.0)
    clock.now += 1
    assert pacer.position == pytest.approx(1050)
    pacer.speed = 0.5
    clock.now += 1
    assert pacer.position == pytest.approx(1550)
    pacer.pause()
    clock.now += 60
    pacer.speed = 2.0
    assert pacer.position == pytest.approx(1550)
    pacer.resume()
    pacer.resume()
    clock.now += 1
    assert pacer.position == pytest.approx(3550)
    assert pacer.position_before(0.25) == pytest.approx(3050)


def test_lag_is_how_late_an_event_is():
    clock = Clock()
    pacer = Pacer(1e-3, speed=2.0, clock=clock)
    pacer.start(0.0)
    clock.now += 0.1
    assert pacer.lag(100.0) == pytest.approx(0.05)
    assert pacer.wait(300.0) == pytest.approx(0.05)
    assert pacer.lag(300.0) == 0
