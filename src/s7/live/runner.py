"""A stream of a model that reads batches with times, and what its answers mean."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from s7 import native
from s7.config import ModelConfig
from s7.files import load
from s7.live.inputs import Batch, Inputs
from s7.model import S7Model
from s7.storage import read_arrays
from s7.stream import Stream


def load_model(path: Path) -> S7Model:
    """Load a model that can stream.

    Args:
        path: A model file or a run folder.

    Raises:
        ValueError: The model is of another kind, or s7 was installed without its native kernels.
    """
    model = load(path)
    if not isinstance(model, S7Model):
        raise ValueError(f"{path}: a {type(model).__name__}, which cannot stream; an S7Model can")
    if not native.available():
        raise ValueError("streams need the native kernels; install s7 again where there is a C++ compiler")
    return model


class LiveStream:
    """An `s7.Stream` with a clock that turns the times of events into gaps.

    Args:
        stream: The stream.
        inputs: What its model reads.
        time: The time of the last event of the stream; None before the first.
    """

    def __init__(self, stream: Stream, inputs: Inputs, time: float | None = None):
        self.stream, self.inputs, self.time = stream, inputs, time

    @classmethod
    def restore(cls, model: S7Model, inputs: Inputs, path: Path) -> "LiveStream":
        """Continue from a file that `save` wrote."""
        stream = Stream.restore(model, path)
        saved = read_arrays(path, "stream")[0].get("time")
        return cls(stream, inputs, None if saved is None or not saved.size else float(saved.ravel()[0]))

    def save(self, path: Path) -> None:
        """Write the state and the time of the last event to a file."""
        self.stream.save(path, {} if self.time is None else {"time": np.array([self.time])})

    @property
    def events(self) -> int:
        """How many events were pushed so far."""
        return self.stream.events

    def restart_clock(self) -> None:
        """Forget the time of the last event: the gap before the next one is 0."""
        self.time = None

    def reset(self) -> None:
        """Go back to the state before the first event."""
        self.stream.reset()
        self.restart_clock()

    def require_order(self, batch: Batch, last: float | None = None) -> None:
        """Raise an error that names the first event that is earlier than the one before it.

        Args:
            batch: The events.
            last: The time of the event before them; by default that of the last event that was pushed.
        """
        self._gaps(batch, self.time if last is None else last)

    def push(self, batch: Batch) -> None:
        """Feed events.

        Raises:
            ValueError: Time goes back, or an event is invalid. The stream is then unchanged.
        """
        if not len(batch):
            return
        gaps = self._gaps(batch, self.time)
        try:
            self.stream.push(batch.events, gaps)
        except ValueError as error:
            raise ValueError(f"{batch.where(0)} and later: {error}") from None
        if batch.times is not None:
            self.time = float(batch.times[-1])

    def _gaps(self, batch: Batch, last: float | None) -> Float[np.ndarray, " n"] | None:
        if batch.times is None or not len(batch):
            return None
        gaps = np.diff(batch.times, prepend=batch.times[0] if last is None else last)
        if not (gaps >= 0).all():
            k = int(np.argmin(gaps >= 0))
            before = last if k == 0 else batch.times[k - 1]
            unit = self.inputs.unit
            raise ValueError(
                f"{batch.where(k)}: time goes back from {before:.10g} to {batch.times[k]:.10g} {unit}; sort the events"
            )
        with np.errstate(over="ignore"):  # it becomes infinite, which the stream refuses
            return gaps.astype(np.float32)


class Outputs:
    """What the numbers of an answer stand for.

    Attributes:
        names: A name for each output.
        is_classifier: Whether the outputs are the logits of classes.
    """

    def __init__(self, config: ModelConfig):
        self.is_classifier = bool(config.classes)
        outputs = config.head.outputs
        self.names: Sequence[str] = [str(label) for label in config.classes] or [f"y{n + 1}" for n in range(outputs)]
        self._labels: Sequence[Any] = config.classes

    def scores(self, answer: Float[np.ndarray, " O"]) -> Float[np.ndarray, " O"]:
        """The probabilities of the classes, or the answer itself."""
        if not self.is_classifier:
            return answer
        odds = np.exp(answer - answer.max())
        return odds / odds.sum()

    def describe(self, answer: Float[np.ndarray, " O"]) -> dict[str, Any]:
        """The answer as JSON values: the scores, and for a classifier the most probable label."""
        scores = [_rounded(score) for score in self.scores(answer).tolist()]
        if not self.is_classifier:
            return {"outputs": scores}
        best = int(np.argmax(answer))
        return {"label": self._labels[best], "probability": scores[best], "scores": scores}


def _rounded(value: float) -> float:
    """Six significant digits, which is what float32 holds."""
    return float(f"{value:.6g}") if math.isfinite(value) else value
