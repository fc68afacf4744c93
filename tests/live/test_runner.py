"""A stream with a clock."""

import numpy as np
import pytest

from s7.live.inputs import Batch
from s7.live.runner import LiveStream, Outputs
from s7.stream import Stream

from .conftest import CLASSES, make_model


def batch(count: int, start: float = 0.0, seed: int = 0) -> Batch:
    random = np.random.default_rng(seed)
    times = start + np.cumsum(random.exponential(0.5, count))
    return Batch(random.integers(0, 200, count).astype(np.int32), times, lambda k: f"in: event {k}")


def test_batches_are_one_stream_however_they_are_divided(model, inputs, tmp_path):
    events = batch(100)
    whole = LiveStream(Stream(model), inputs)
    whole.push(events)
    first = LiveStream(Stream(model), inputs)
    first.push(events.part(0, 37))
    first.push(events.part(37, 37))
    first.save(tmp_path / "state.safetensors")
    second = LiveStream.restore(model, inputs, tmp_path / "state.safetensors")
    assert (second.time, second.events) == (first.time, 37)
    second.push(events.part(37, 100))
    gaps = np.diff(events.times, prepend=events.times[0])
    plain = Stream(model)
    plain.push(events.events, gaps.astype(np.float32))
    for live in (whole, second):
        np.testing.assert_allclose(live.stream.answer(), plain.answer(), atol=1e-6)


def test_time_must_not_go_back(model, inputs):
    live = LiveStream(Stream(model), inputs)
    live.push(batch(5, start=10.0))
    with pytest.raises(ValueError, match=r"^in: event 0: time goes back from 11\.\d+ to .* ms; sort the events$"):
        live.push(batch(5))
    assert live.events == 5
    live.restart_clock()
    live.push(batch(5))
    assert live.events == 10
    live.reset()
    assert (live.events, live.time) == (0, None)


def test_a_gap_must_not_be_infinite(model, inputs):
    live = LiveStream(Stream(model), inputs)
    live.push(batch(5))
    with pytest.raises(ValueError, match=r"^in: event 0 and later: .*finite"):
        live.push(batch(1, start=1e300))
    assert live.events == 5


def test_a_state_before_the_first_event_has_no_time(model, inputs, tmp_path):
    LiveStream(Stream(model), inputs).save(tmp_path / "state.safetensors")
    assert LiveStream.restore(model, inputs, tmp_path / "state.safetensors").time is None


def test_answers_of_classifiers_are_probabilities():
    outputs = Outputs(make_model().config)
    about = outputs.describe(np.array([0.0, np.log(3.0), 0.0], np.float32))
    assert about == {"label": CLASSES[1], "probability": 0.6, "scores": [0.2, 0.6, 0.2]}
    plain = Outputs(make_model(classes=()).config)
    assert plain.describe(np.array([0.5, 2.0, -1.0], np.float32)) == {"outputs": [0.5, 2.0, -1.0]}
    assert plain.names == ["y1", "y2", "y3"]
