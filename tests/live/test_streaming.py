"""The loop of `s7 stream`, as fast as possible and paced."""

import time

import numpy as np
import pytest

from s7.live.feed import Feed
from s7.live.inputs import Batch
from s7.live.pacing import Pacer
from s7.live.runner import LiveStream
from s7.live.schedule import Every, Schedule
from s7.live.streaming import Streaming
from s7.stream import Stream


def batches(count: int, size: int, gap: float = 0.1):
    random = np.random.default_rng(0)
    tokens, times = random.integers(0, 200, count).astype(np.int32), gap * np.arange(count)
    for start in range(0, count, size):
        part = slice(start, start + size)
        yield Batch(tokens[part], times[part], "in: event {}".format)


def streaming(model, inputs, source, every, **options) -> Streaming:
    return Streaming(
        LiveStream(Stream(model), inputs), Feed(source), Schedule(Every.parse(every), inputs.seconds), **options
    )


@pytest.mark.parametrize("every", ["10", "2ms"])
def test_predictions_do_not_depend_on_the_size_of_batches(model, inputs, every):
    found = []
    for size in (1, 7, 1000):
        one = streaming(model, inputs, batches(95, size), every)
        found.append([(p.events, p.answer) for p in one.predictions()])
        assert one.statistics.events == 95
        assert one.statistics.predictions == len(found[-1]) == len(one.statistics.latency)
    for predictions in found:
        assert [events for events, _ in predictions] == [events for events, _ in found[0]]
        np.testing.assert_allclose([a for _, a in predictions], [a for _, a in found[0]], atol=1e-6)
    assert found[0][-1][0] == 95


def test_paced_predictions_take_the_time_of_the_recording(model, inputs):
    one = streaming(model, inputs, batches(1000, 100), "10ms")
    start = time.perf_counter()
    predictions = list(one.paced(Pacer(inputs.seconds), max_lag=30.0))
    assert time.perf_counter() - start >= 0.0999
    assert predictions[-1].events == 1000
    assert one.statistics.dropped == 0
    assert all(prediction.lag >= 0 for prediction in predictions)
    assert set(one.statistics.summary()["lag_ms"]) == {"p50", "p95", "p99", "p99.9", "max"}


def test_late_events_are_dropped(model, inputs):
    def slow():
        for k, batch in enumerate(batches(1000, 500)):
            if k:
                time.sleep(0.3)
            yield batch

    one = streaming(model, inputs, slow(), "10ms")
    list(one.paced(Pacer(inputs.seconds), max_lag=0.1))
    assert one.statistics.dropped + one.statistics.events == 1000
    assert one.statistics.dropped >= 500


def test_an_error_of_the_source_comes_after_its_events(model, inputs):
    def broken():
        yield from batches(50, 10)
        raise ValueError("in: byte 7: broken")

    one = streaming(model, inputs, broken(), "10")
    with pytest.raises(ValueError, match=r"^in: byte 7: broken$"):
        list(one.predictions())
    assert one.statistics.events == 50
    assert one.statistics.predictions == 5


def test_a_stop_ends_the_loop(model, inputs):
    def endless():
        while True:
            yield from batches(10, 10, gap=0.0)

    asked = []
    one = streaming(model, inputs, endless(), "10", stop=lambda: len(asked) > 5)
    for prediction in one.predictions():
        asked.append(prediction)
    assert one.statistics.events == 60


def test_another_recording_restarts_the_clock_of_a_restored_state(model, inputs):
    one = streaming(model, inputs, batches(20, 20), "10")
    one.live.time = 1e6
    assert [prediction.events for prediction in one.predictions()] == [10, 20]
