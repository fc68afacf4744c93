"""Messages."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from s7.live.protocol import Closing, dumps, frame, read_command, read_frame, short_reason


@given(text=st.text(max_size=400))
def test_reasons_fit_into_a_close_frame(text):
    reason = short_reason(text)
    assert len(reason.encode()) <= 123
    assert "\n" not in reason


@given(text=st.text(max_size=80).map(lambda text: "{" + text))
def test_anything_else_than_a_command_closes_the_connection(text):
    code = 1007
    try:
        read_command(text)
    except Closing as closing:
        code = closing.code
    assert code == 1007


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ({"type": "fly"}, "type 'fly' is not one of play, pause, replay, reset, speed, repeat, upload, subscribe"),
        ({"type": []}, "type [] is not one of play, pause, replay, reset, speed, repeat, upload, subscribe"),
        ({"type": "speed"} | {"speed": 0}, "speed: speed must be a number from 0.01 to 100, or null"),
        ({"type": "speed"} | {"speed": True}, "speed: speed must be a number from 0.01 to 100, or null"),
        ({"type": "upload", "name": "a", "size": -1}, "upload: size must be a number of bytes"),
        ({"type": "upload", "name": "", "size": 1}, "upload: name must be a file name"),
        ({"type": "repeat"}, "repeat: repeat must be true or false"),
    ],
)
def test_commands_are_checked(command, reason):
    with pytest.raises(Closing) as closing:
        read_command(json.dumps(command))
    assert closing.value.reason == reason


def test_frames_hold_json_and_events():
    events = np.arange(9, dtype=np.uint16).reshape(3, 3)
    about, back = read_frame(frame({"name": "é", "bad": float("nan")}, events))
    assert about == {"name": "é", "bad": None}
    np.testing.assert_array_equal(back, events)
    assert dumps([1.5, (float("inf"),)]) == "[1.5,[null]]"
