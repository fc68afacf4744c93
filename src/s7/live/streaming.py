"""The loop of `s7 stream`: predictions while events arrive, as fast as possible or paced by their times."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from s7.live.feed import Feed
from s7.live.inputs import Batch
from s7.live.latency import Latencies
from s7.live.pacing import Pacer
from s7.live.runner import LiveStream
from s7.live.schedule import Schedule

# Seconds that the loop sleeps at most, before it looks whether it should stop, and at least, while it is paced.
NAP = 0.05
TICK = 0.001


class Prediction(NamedTuple):
    """The answer after `events` events, the last of them at `time`; and if playback is paced, its lag in seconds."""

    events: int
    time: float | None
    answer: Float[np.ndarray, " O"]
    lag: float | None


@dataclass
class Statistics:
    """What a stream did.

    Attributes:
        events: Events that were pushed.
        dropped: Events that were left out because they were too late.
        predictions: Answers that were read.
        seconds: The duration.
        latency: From the moment events are taken until the answer is there.
        lag: From the time when an event was due until it was pushed, at most over the events of a prediction, and the
            time of the answer.
    """

    events: int = 0
    dropped: int = 0
    predictions: int = 0
    seconds: float = 0.0
    busy: float = 0.0
    latency: Latencies = field(default_factory=Latencies)
    lag: Latencies = field(default_factory=Latencies)

    def summary(self) -> dict[str, Any]:
        """The statistics as JSON values."""
        rate = self.events / self.busy if self.busy > 0 else 0.0
        about: dict[str, Any] = {"events": self.events, "dropped": self.dropped, "predictions": self.predictions}
        about |= {"seconds": round(self.seconds, 6), "events_per_busy_second": round(rate)}
        about |= {"latency_ms": self.latency.summary()}
        return about | ({"lag_ms": self.lag.summary()} if len(self.lag) else {})


class Streaming:
    """Feeds a stream and reads its answers.

    Args:
        live: The stream.
        feed: Where batches come from.
        schedule: When answers are read.
        stop: Whether to stop, asked between batches.
    """

    def __init__(self, live: LiveStream, feed: Feed, schedule: Schedule, stop: Callable[[], bool] = lambda: False):
        self.live, self.feed, self.schedule, self.stop = live, feed, schedule, stop
        self.statistics = Statistics()
        self._read_to: float | None = None
        self._began: float | None = None
        # Since the last answer: the time that the model took, and the largest lag of events.
        self._unread = self._lag = 0.0

    def predictions(self) -> Iterator[Prediction]:
        """Predictions as fast as events arrive."""
        for batch in self._batches():
            yield from self._advance(batch, None)
        yield from self._last(None)

    def paced(self, pacer: Pacer, max_lag: float) -> Iterator[Prediction]:
        """Predictions at the pace of the events' times.

        Args:
            pacer: Maps the times to the clock.
            max_lag: Events that are later than this, in seconds, are dropped.
        """
        waiting: Batch | None = None
        while not self.stop():
            if waiting is None:
                waiting = self._batch(self._patience(pacer))
            if waiting is not None and waiting.times is not None:
                if not pacer.is_running:
                    pacer.start(float(waiting.times[0]))
                due = int(np.searchsorted(waiting.times, pacer.position, "right"))
                late = int(np.searchsorted(waiting.times[:due], pacer.position_before(max_lag), "left"))
                self.statistics.dropped += late
                yield from self._advance(waiting.part(late, due), pacer)
                waiting = waiting.part(due, len(waiting)) if due < len(waiting) else None
            if pacer.is_running and self.schedule.closes(pacer.position):
                yield self._answer(pacer)
            if waiting is not None and waiting.times is not None:
                time.sleep(min(max(pacer.wait(float(waiting.times[0])), TICK), NAP))
            elif self.feed.is_over:
                break
        yield from self._last(pacer)

    def _patience(self, pacer: Pacer) -> float:
        """Seconds to wait for events: the end of an interval with events may come first."""
        end = self.schedule.end
        return NAP if end is None else min(max(pacer.wait(end), TICK), NAP)

    def _batches(self) -> Iterator[Batch]:
        while not self.stop() and not self.feed.is_over:
            if batch := self._batch(NAP):
                yield batch

    def _batch(self, timeout: float) -> Batch | None:
        batch = self.feed.get(timeout)
        if batch is None or not len(batch):
            return None
        self._began = self._began or time.perf_counter()
        if batch.times is not None:
            self._check_order(batch, batch.times)
        return batch

    def _check_order(self, batch: Batch, times: Float[np.ndarray, " n"]) -> None:
        if self._read_to is None and self.live.time is not None and times[0] < self.live.time:
            self.live.restart_clock()  # another recording than that of the restored state
        self.live.require_order(batch, self._read_to)
        self._read_to = float(times[-1])

    def _advance(self, batch: Batch, pacer: Pacer | None) -> Iterator[Prediction]:
        if not len(batch):
            return
        for part, is_due in self.schedule.parts(batch):
            start = time.perf_counter()
            self.live.push(part)
            self.statistics.events += len(part)
            self._unread += time.perf_counter() - start
            if pacer is not None and part.times is not None and len(part):
                self._lag = max(self._lag, pacer.lag(float(part.times[0])))
            if is_due:
                yield self._answer(pacer)
                if self.stop():
                    break
        self.statistics.seconds = time.perf_counter() - (self._began or 0.0)

    def _last(self, pacer: Pacer | None) -> Iterator[Prediction]:
        """The prediction for events after the last interval."""
        if self.schedule.pending:
            self.schedule.pending = 0
            yield self._answer(pacer)
        if self._began is not None:
            self.statistics.seconds = time.perf_counter() - self._began
        self.feed.close()

    def _answer(self, pacer: Pacer | None) -> Prediction:
        start = time.perf_counter()
        answer = self.live.stream.answer()
        took = time.perf_counter() - start + self._unread
        self._unread = 0.0
        lag = None if pacer is None else self._lag + time.perf_counter() - start
        self._lag = 0.0
        self.statistics.predictions += 1
        self.statistics.busy += took
        self.statistics.latency.add(took)
        if lag is not None:
            self.statistics.lag.add(lag)
        return Prediction(self.live.events, self.live.time, answer, lag)
