"""One stream of a server, on a clock that the tests set."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from s7.live.limits import Limits
from s7.live.metrics import Metrics
from s7.live.protocol import Closing, read_frame
from s7.live.session import Session
from s7.live.window import POINTS
from s7.stream import Stream

from .conftest import make_lines, make_records
from .test_pacing import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def session(served, clock) -> Session:
    return Session("id", served, Limits(), Metrics(), clock)


def play(session: Session, clock: Clock, seconds: float, step: float = 0.01) -> None:
    end = clock.now + seconds
    while clock.now < end:
        session.tick()
        clock.now += step


def test_text_and_binary_messages_give_the_answer_of_a_stream(session, model, served):
    records = make_records(300)
    session.push(records[:100].tobytes(), 0.0)
    lines = "\n".join(f"{r['t']} {r['x']} {r['y']} {r['p']}" for r in records[100:])
    answer = session.push(lines, 0.0)
    batch = served.inputs.of_records(records, str)
    stream = Stream(model)
    stream.push(batch.events, np.diff(batch.times, prepend=batch.times[0]).astype(np.float32))
    expected = served.outputs.describe(stream.answer())
    assert answer["events"] == 300
    assert answer["label"] == expected["label"]
    np.testing.assert_allclose(answer["scores"], expected["scores"], atol=1e-5)


def test_events_that_are_far_apart_do_not_cost_an_answer_each(session):
    records = make_records(1000)
    records["t"] = np.arange(1000) * 1_000_000
    assert session.push(records.tobytes(), 0.0)["events"] == 1000
    assert session._metrics.answers == POINTS
    about, _ = read_frame(session.frame())
    assert [events for _, events, _ in about["points"]][-1] == 1000


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"123", "message 1: 3 bytes are not whole records of 13 bytes"),
        ("hello", "message 1: line 1 is 'hello', expected 4 numbers: t x y p"),
        (
            make_records(3, start=-1)[::-1].tobytes(),
            "message 1, event 1: time goes back from 0.099 to 0.049 ms; sort the events",
        ),
        ("0 1 2 1\n5 99 0 1", "message 1: line 2: x=99 is outside of 0 to 11, the model's sensor is 12×9"),
    ],
)
def test_bad_messages_close_the_connection(session, message, reason):
    with pytest.raises(Closing) as closing:
        session.push(message, 0.0)
    assert (closing.value.code, closing.value.reason) == (1007, reason)
    assert session.live.events == 0


@given(messages=st.lists(st.binary(max_size=80) | st.text("0123456789 .,-#\nex", max_size=80), max_size=5))
def test_any_message_is_answered_or_closes_the_connection(served, messages):
    session = Session("id", served, Limits(), Metrics(), Clock())
    for message in messages:
        before = session.live.events
        try:
            assert session.push(message, 0.0)["events"] >= before
        except Closing:
            assert session.live.events == before
    assert len(session.served.outputs.scores(session.live.stream.answer())) == 3


def test_more_events_than_allowed_are_dropped(served, clock):
    session = Session("id", served, Limits(rate=100), Metrics(), clock)
    assert session.push(make_records(150).tobytes(), 0.0)["dropped"] == 50
    clock.now += 0.5
    answer = session.push(make_records(80, start=10**6).tobytes(), 0.0)
    assert (answer["events"], answer["dropped"]) == (150, 80)


def test_a_recording_plays_at_its_pace(session, clock, recording):
    session.open(str(recording), "waving", speed=1.0)
    play(session, clock, 0.03)
    assert session.live.events == 0
    session.playback.play()
    play(session, clock, 0.05)
    half = session.live.events
    assert 600 < half < 1400
    session.playback.pause()
    play(session, clock, 5)
    assert session.live.events == half
    session.playback.play()
    session.playback.speed = 0.1
    play(session, clock, 0.05)
    assert half < session.live.events < half + 300
    session.playback.speed = None
    play(session, clock, 0.05)
    assert session.live.events == 2000
    assert session.playback.is_over
    about, events = read_frame(session.frame())
    assert about["events"] == 2000
    assert about["dropped"] == 0
    assert about["playback"] == {"name": "waving", "playing": False, "over": True, "speed": None, "repeat": False}
    assert len(about["open"]) == 4 * len(about["points"])
    assert {len(row) for row in about["open"]} == {session.served.selection.states}
    assert len(events) > 100
    assert events.max(0).tolist() <= [11, 8, 1]
    session.replay()
    again, events = read_frame(session.frame())
    assert again["run"] == about["run"] + 1
    assert (again["points"], again["events"], len(events)) == ([], 0, 0)
    play(session, clock, 0.05)
    assert session.live.events == 2000


def test_late_events_are_dropped_and_repeats_start_anew(session, clock, recording):
    session.open(str(recording), "waving", speed=1.0)
    session.playback.play()
    session.playback.repeats = True
    session.tick()
    clock.now += 0.15
    session.tick()
    about, _ = read_frame(session.frame())
    assert about["dropped"] > 500
    assert about["dropped"] + about["events"] == 2000
    assert session.tick() == 0.5  # the end: it starts again, with a new state
    assert session.live.events == 0
    assert session.playback.is_playing


def test_a_damaged_recording_is_reported_and_stops(session, clock, tmp_path):
    path = tmp_path / "broken.txt"
    path.write_text("\n".join([*make_lines(5), "oops"]))
    session.open(str(path), "client.txt", speed=None)
    session.playback.play()
    session.tick()
    error = json.loads(session.take_error())
    assert error["type"] == "error"
    assert error["message"].startswith("client.txt: byte ")
    assert session.take_error() is None
    assert not session.playback.is_playing


def test_frames_are_bounded(session):
    start = 0
    for n in range(40):
        session.push(make_records(500, start=start, seed=n).tobytes(), 0.0)
        start += 25_000
    message = session.frame()
    about, events = read_frame(message)
    assert len(about["points"]) <= 24
    assert len(events) <= 3000
    assert len(message) < 100_000
    assert read_frame(session.frame())[0]["points"] == []
