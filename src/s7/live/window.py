"""What a viewer sees between two frames: events, answers and the openness of states, thinned."""

from collections import deque
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped, UInt16

from s7.live.inputs import Batch, Inputs
from s7.live.selection import Selection

# The largest numbers of events and answers in a frame, of events per answer whose openness is computed, and of
# features of a row of numbers.
EVENTS = 3000
POINTS = 24
SAMPLE = 4
CHANNELS = 8
# Events whose openness is computed for a frame.
SAMPLED = POINTS * SAMPLE


class _Point(NamedTuple):
    time: float | None
    events: int
    scores: Float[np.ndarray, " O"]
    sample: Shaped[np.ndarray, "n ..."]


class Window:
    """Collects what happened since the last frame, in bounded memory.

    Args:
        inputs: What the model reads.
        selection: Computes the openness of states.
    """

    def __init__(self, inputs: Inputs, selection: Selection):
        self._inputs, self._selection = inputs, selection
        self._events: deque[np.ndarray] = deque(maxlen=POINTS)
        self._points: deque[_Point] = deque(maxlen=POINTS)

    def add(self, batch: Batch, events: int, scores: Float[np.ndarray, " O"]) -> None:
        """Note events that were pushed, the number of events so far and the scores after them."""
        if not len(batch):
            return
        if self._inputs.kind != "numbers":
            self._events.append(batch.events[:: -(-len(batch) // EVENTS)])
        time = None if batch.times is None else float(batch.times[-1]) * self._inputs.seconds
        places = np.linspace(0, len(batch) - 1, SAMPLE).astype(int)
        self._points.append(_Point(time, events, scores, batch.events[places]))

    def take(self) -> tuple[dict[str, Any], UInt16[np.ndarray, "n 3"]]:
        """The points, and the events as x, y and polarity. Clears the window."""
        points = list(self._points)
        about: dict[str, Any] = {
            "points": [[_rounded(p.time), p.events, [_rounded(s) for s in p.scores.tolist()]] for p in points]
        }
        if points and self._selection.states:
            about["open"] = self._openness(points)
        if self._inputs.kind == "numbers":
            about["values"] = [[_rounded(v) for v in p.sample[-1].ravel()[:CHANNELS].tolist()] for p in points]
        pixels = self._pixels()
        self.clear()
        return about, pixels

    def clear(self) -> None:
        """Remove all points and events."""
        self._events.clear()
        self._points.clear()

    def _openness(self, points: list[_Point]) -> list[list[float]]:
        """One row for each sampled event. The number of events is always the same, so that it compiles once."""
        samples = np.concatenate([point.sample for point in points])
        padded = samples[np.minimum(np.arange(SAMPLED), len(samples) - 1)]
        found = self._selection.openness(padded)[: len(samples)]
        return np.round(found, 2).tolist()

    def _pixels(self) -> UInt16[np.ndarray, "n 3"]:
        if not self._events:
            return np.empty((0, 3), np.uint16)
        tokens = np.concatenate(self._events)
        tokens = tokens[:: -(-len(tokens) // EVENTS)]
        return np.stack(self._inputs.pixels(tokens), 1).astype(np.uint16)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.7g}")
