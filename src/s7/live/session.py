"""One stream of a server: the events of a client or of a recording go in, answers and frames come out."""

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from s7.live.inputs import Batch, Inputs
from s7.live.limits import Allowance, Limits
from s7.live.lines import Lines
from s7.live.metrics import Metrics
from s7.live.pacing import Clock
from s7.live.playback import INTERMISSION, TICK, Playback
from s7.live.protocol import INVALID, Closing, dumps, frame
from s7.live.runner import LiveStream, Outputs
from s7.live.schedule import Every, Schedule
from s7.live.selection import Selection
from s7.live.window import POINTS, SAMPLED, Window
from s7.model import S7Model
from s7.stream import Stream

# The interval between the answers of a recording: a time, or a number of events if there are no times.
INTERVAL = Every(seconds=0.005)
INTERVAL_EVENTS = Every(events=16)


@dataclass(frozen=True, eq=False)
class Served:
    """A model as a server shares it between its sessions."""

    name: str
    model: S7Model
    inputs: Inputs
    outputs: Outputs
    selection: Selection
    # Never pushed to. Copies share the packed weights.
    stream: Stream

    @classmethod
    def of(cls, model: S7Model, name: str, unit: str | None = None) -> "Served":
        """Pack a model, and compile what frames need before the first client waits for it.

        Raises:
            ValueError: The model cannot stream.
        """
        inputs = Inputs.of(model.config, unit)
        selection = Selection(model, inputs.timed)
        if selection.states:
            selection.openness(np.zeros((SAMPLED, *inputs.shape), np.int32 if inputs.tokens else np.float32))
        return cls(name, model, inputs, Outputs(model.config), selection, Stream(model))

    def describe(self) -> dict[str, Any]:
        """What a client must know of the model."""
        inputs = self.inputs
        about: dict[str, Any] = {
            "name": self.name,
            "kind": inputs.kind,
            "sensor": inputs.sensor,
            "tokens": inputs.tokens,
        }
        about |= {"shape": inputs.shape, "timed": inputs.timed, "unit": inputs.unit, "line": inputs.line}
        about |= {"names": list(self.outputs.names), "classifier": self.outputs.is_classifier}
        about |= {"states": self.selection.states, "parameters": self.model.parameter_count}
        return about | {"record": inputs.record.descr}


class Session:
    """A stream with its playback. Its methods run in worker threads, one at a time.

    Args:
        identity: What a client presents to continue the session.
        served: The model.
        limits: The limits of the server.
        metrics: The counters of the server.
        clock: The clock, in seconds.
        clip: Whether events of recordings that go back in time are taken as simultaneous with the one before.
    """

    def __init__(
        self,
        identity: str,
        served: Served,
        limits: Limits,
        metrics: Metrics,
        clock: Clock = time.monotonic,
        *,
        clip: bool = False,
    ):
        self.identity, self.served = identity, served
        self.live = LiveStream(served.stream.copy(), served.inputs)
        self.playback: Playback | None = None
        self.error = ""
        # Whether frames are made. Without them, the events of a message are one batch.
        self.has_viewer = True
        self._limits, self._metrics, self._clock, self._clip = limits, metrics, clock, clip
        self._allowance = Allowance(limits.rate, clock)
        self._window = Window(served.inputs, served.selection)
        self._schedule = self._new_schedule()
        # `_run` is the number of resets, after which viewers clear their charts.
        self._dropped = self._messages = self._run = 0
        self._lag = self._latency = 0.0
        # Event counts at the ends of the last frames, for the rate.
        self._counts: list[tuple[float, int]] = []

    # Events of a client.

    def push(self, message: bytes | str, arrived: float) -> dict[str, Any]:
        """Feed the events of a message.

        Returns:
            The answer.

        Raises:
            Closing: The message is invalid.
        """
        self._messages += 1
        try:
            batch = self._batch(message, f"message {self._messages}")
            if batch is not None:
                allowed = self._allowance.take(len(batch))
                self._drop(len(batch) - allowed)
                self._advance(batch.part(0, allowed), arrived)
        except ValueError as error:
            raise Closing(INVALID, str(error)) from None
        about = {"type": "answer", "message": self._messages, "events": self.live.events, "dropped": self._dropped}
        return about | self.served.outputs.describe(self.live.stream.answer())

    def _batch(self, message: bytes | str, where: str) -> Batch | None:
        inputs = self.served.inputs
        if isinstance(message, str):
            lines = Lines(inputs, where)
            text = message.encode() if message.endswith("\n") else message.encode() + b"\n"
            return lines.feed(text)
        size = inputs.record.itemsize
        if len(message) % size:
            raise ValueError(f"{where}: {len(message)} bytes are not whole records of {size} bytes")
        return inputs.of_records(np.frombuffer(message, inputs.record), lambda k: f"{where}, event {k}")

    # Playback.

    def open(self, path: str, name: str, *, speed: float | None, recording: int | None = None) -> None:
        """Play a file from its start."""
        self.playback = Playback(
            path,
            self.served.inputs,
            name=name,
            recording=recording,
            clip=self._clip,
            speed=speed,
            max_lag=self._limits.lag,
            clock=self._clock,
        )
        self.reset()

    def tick(self) -> float:
        """Play what is due.

        Returns:
            Seconds until there is more to do.
        """
        playback = self.playback
        if playback is None or not playback.is_playing:
            return TICK
        before = playback.dropped
        try:
            batch = playback.take(self._allowance.take)
            if batch is not None and len(batch):
                self._advance(batch, self._clock())
        except (ValueError, OSError) as error:
            self.error = " ".join(str(error).split())
            playback.pause()
            playback.rewind()
            return TICK
        self._drop(playback.dropped - before)
        self._lag = playback.lag(self.live.time)
        if not playback.is_over:
            return playback.wait() if batch is not None and len(batch) else max(TICK, playback.wait())
        if playback.repeats:
            self.replay()
            return INTERMISSION
        return TICK

    def replay(self) -> None:
        """Play the recording from its start with a new state."""
        if self.playback is not None:
            self.playback.rewind()
            self.playback.play()
        self.reset()

    def reset(self) -> None:
        """Go back to the state before the first event."""
        self.live.reset()
        self._schedule = self._new_schedule()
        self._window.clear()
        self._dropped, self._lag, self.error, self._counts = 0, 0.0, "", []
        self._run += 1

    # What a viewer sees.

    def frame(self) -> bytes:
        """A frame with everything since the last one."""
        about, events = self._window.take()
        about |= {
            "type": "frame",
            "run": self._run,
            "events": self.live.events,
            "dropped": self._dropped,
            "rate": round(self._rate()),
        }
        about |= {"lag_ms": round(self._lag * 1e3, 2), "latency_ms": round(self._latency * 1e3, 3)}
        about |= {"playback": self.describe_playback()}
        return frame(about, events)

    def describe_playback(self) -> dict[str, Any] | None:
        """The recording and how it is played; None if there is none."""
        playback = self.playback
        if playback is None:
            return None
        about = {"name": playback.name, "playing": playback.is_playing, "over": playback.is_over}
        return about | {"speed": playback.speed, "repeat": playback.repeats}

    def take_error(self) -> str | None:
        """A message about a recording that cannot be played, once."""
        error, self.error = self.error, ""
        return dumps({"type": "error", "message": error}) if error else None

    def _advance(self, batch: Batch, arrived: float) -> None:
        parts = [batch]
        if self.has_viewer:
            self.live.require_order(batch)  # before the schedule, which relies on it
            parts = _at_most([part for part, _ in self._schedule.parts(batch) if len(part)], batch)
        for part in parts:
            self.live.push(part)
            if self.has_viewer:
                scores = self.served.outputs.scores(self.live.stream.answer())
                self._window.add(part, self.live.events, scores)
        self._latency = self._clock() - arrived
        self._metrics.count(events=len(batch), answers=len(parts), latency=self._latency)

    def _drop(self, events: int) -> None:
        self._dropped += events
        self._metrics.count(dropped=events)

    def _rate(self) -> float:
        """Events per second over the last second."""
        now = self._clock()
        self._counts = [(then, count) for then, count in self._counts if now - then < 1.0]
        self._counts.append((now, self.live.events))
        then, count = self._counts[0]
        return (self.live.events - count) / (now - then) if now > then else 0.0

    def _new_schedule(self) -> Schedule:
        inputs = self.served.inputs
        return Schedule(INTERVAL if inputs.timed else INTERVAL_EVENTS, inputs.seconds)


def _at_most(parts: list[Batch], batch: Batch) -> list[Batch]:
    """The parts of a batch, or as many equal ones as a frame shows: events far apart must not cost an answer each."""
    if len(parts) <= POINTS:
        return parts
    cuts = np.linspace(0, len(batch), POINTS + 1).astype(int).tolist()
    return [batch.part(start, end) for start, end in pairwise(cuts)]
