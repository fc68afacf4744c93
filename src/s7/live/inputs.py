"""What a model reads on a live stream: events of a sensor, tokens, or rows of numbers, with or without times."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Integer, Shaped

from s7.config import ModelConfig
from s7.data.gaps import SECONDS
from s7.encoders import EventEncoder
from s7.tokens import from_token, to_token

Kind = Literal["events", "tokens", "numbers"]
# Cameras count microseconds. The quotients of the seconds are not exact.
MICROSECONDS = {unit: round(seconds * 1e9) / 1e3 for unit, seconds in SECONDS.items()}


@dataclass(frozen=True, eq=False)
class Batch:
    """Events in the order of their arrival.

    Attributes:
        events: Tokens, (n,), or rows of numbers, (n, ...).
        times: The time of each event in the unit of the model's gaps; None for models of regular sequences.
        where: Describes the position of the k-th event in its source, for error messages.
    """

    events: Shaped[np.ndarray, "n ..."]
    times: Float[np.ndarray, " n"] | None
    where: Callable[[int], str]

    def __len__(self) -> int:
        return len(self.events)

    def part(self, start: int, end: int) -> "Batch":
        """Events `start` to `end`, exclusive."""
        times = None if self.times is None else self.times[start:end]
        return Batch(self.events[start:end], times, lambda k: self.where(start + k))


@dataclass(frozen=True)
class Inputs:
    """What a model reads.

    Attributes:
        kind: "events" of a sensor, "tokens", or "numbers".
        shape: The shape of one event; () for tokens.
        tokens: The number of tokens; 0 for numbers.
        sensor: (width, height) in pixels; None if the model does not read the events of a camera.
        timed: Whether every event has a time.
        unit: The unit of the gaps that the model was trained with, a key of `SECONDS`.
    """

    kind: Kind
    shape: tuple[int, ...]
    tokens: int
    sensor: tuple[int, int] | None
    timed: bool
    unit: str

    @classmethod
    def of(cls, config: ModelConfig, unit: str | None = None) -> "Inputs":
        """What a model with this configuration reads.

        Args:
            config: The configuration. A model has times if training set its unit of time, or if it reads the events
                of a sensor.
            unit: The unit of the gaps in training. By default milliseconds, which the event tasks of this package use,
                and seconds for models of numbers.
        """
        encoder: Any = config.encoder
        tokens = int(getattr(encoder, "size", 0))
        sensor = encoder.sensor if isinstance(encoder, EventEncoder) else None
        kind: Kind = "events" if sensor else "tokens" if tokens else "numbers"
        timed = config.reads_gaps and (config.time_unit is not None or kind == "events")
        unit = unit or ("s" if kind == "numbers" else "ms")
        if unit not in SECONDS:
            raise ValueError(f"unit={unit!r} is not one of {', '.join(SECONDS)}")
        return cls(kind, tuple(encoder.event_shape), tokens, sensor, timed, unit)

    @property
    def seconds(self) -> float:
        """The length of the unit of time."""
        return SECONDS[self.unit]

    @property
    def columns(self) -> tuple[str, ...]:
        """The numbers of a line of the line protocol, by name."""
        if self.kind == "events":
            return ("t", "x", "y", "p")
        time = ("t",) if self.timed else ()
        if self.kind == "tokens":
            return (*time, "token")
        return (*time, *(f"v{n}" for n in range(1, math.prod(self.shape) + 1)))

    @property
    def line(self) -> str:
        """The form of a line, for error messages and help."""
        names = self.columns
        return " ".join(names if len(names) < 8 else (*names[: 1 + self.timed], "…", names[-1]))

    @cached_property
    def record(self) -> np.dtype:
        """The type of a binary record: little endian, without padding. Times are microseconds."""
        if self.kind == "events":
            return np.dtype([("t", "<i8"), ("x", "<u2"), ("y", "<u2"), ("p", "u1")])
        time: list[Any] = [("t", "<i8")] if self.timed else []
        return np.dtype([*time, ("token", "<i4") if self.kind == "tokens" else ("values", "<f4", self.shape)])

    def of_records(self, records: Shaped[np.ndarray, " n"], where: Callable[[int], str]) -> Batch:
        """Check records and convert them."""
        if self.kind == "events":
            return self.of_columns(records["x"], records["y"], records["t"], records["p"], where)
        times = self._from_microseconds(records["t"]) if self.timed else None
        if self.kind == "numbers":
            return self._numbers(records["values"], times, where)
        return self._tokens(records["token"], times, where)

    def of_rows(self, rows: Float[np.ndarray, "n columns"], where: Callable[[int], str]) -> Batch:
        """Check the numbers of lines and convert them. Times of events are microseconds, others are in `unit`."""
        _require(np.isfinite(rows).all(1), where, lambda k: "is not finite")
        if self.kind == "events":
            with np.errstate(invalid="ignore"):  # what is too large for an integer differs from it below
                whole = rows[:, 1:].astype(np.int64)
            _require((whole == rows[:, 1:]).all(1), where, lambda k: "x, y and p must be whole numbers")
            return self.of_columns(whole[:, 0], whole[:, 1], rows[:, 0], whole[:, 2], where)
        times = np.ascontiguousarray(rows[:, 0]) if self.timed else None
        values = rows[:, int(self.timed) :]
        if self.kind == "numbers":
            return self._numbers(values.reshape(len(rows), *self.shape), times, where)
        _require(values[:, 0] == np.floor(values[:, 0]), where, lambda k: "a token must be a whole number")
        return self._tokens(values[:, 0], times, where)

    def of_columns(
        self,
        x: Integer[np.ndarray, " n"],
        y: Integer[np.ndarray, " n"],
        t: Shaped[np.ndarray, " n"],
        p: Shaped[np.ndarray, " n"],
        where: Callable[[int], str],
    ) -> Batch:
        """Check events of a camera, with times in microseconds, and convert them.

        A model of tokens reads them as the channels of a sensor of height 1 without polarity.
        """
        if self.kind == "numbers":
            raise ValueError(f"the model reads lines of numbers ({self.line}), not events")
        width, height = self.sensor or (self.tokens, 1)
        size = f"the model's sensor is {width}×{height}"
        _require((x >= 0) & (x < width), where, lambda k: f"x={x[k]} is outside of 0 to {width - 1}, {size}")
        _require((y >= 0) & (y < height), where, lambda k: f"y={y[k]} is outside of 0 to {height - 1}, {size}")
        _require((p >= -1) & (p <= 1), where, lambda k: f"p={p[k]} is not a polarity: -1, 0 or 1")
        brighter = (p > 0).astype(np.int32) if self.sensor else 0
        tokens = to_token(x.astype(np.int32), y.astype(np.int32), brighter, height, 2 if self.sensor else 1)
        return Batch(tokens.astype(np.int32), self._from_microseconds(t) if self.timed else None, where)

    def pixels(self, tokens: Integer[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, y and polarity (0 or 1) of tokens; the tokens of other models are columns of one row."""
        if self.sensor:
            return from_token(tokens, self.sensor[1])
        return from_token(tokens, 1, 1)

    def _from_microseconds(self, t: Shaped[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return t / MICROSECONDS[self.unit]

    def _tokens(self, tokens: np.ndarray, times: np.ndarray | None, where: Callable[[int], str]) -> Batch:
        _require(
            (tokens >= 0) & (tokens < self.tokens),
            where,
            lambda k: f"{tokens[k]:.0f} is not a token: 0 to {self.tokens - 1}",
        )
        return Batch(tokens.astype(np.int32), times, where)

    def _numbers(self, values: np.ndarray, times: np.ndarray | None, where: Callable[[int], str]) -> Batch:
        with np.errstate(over="ignore"):  # it becomes infinite, which is refused below
            values = np.ascontiguousarray(values, np.float32)
        finite = np.isfinite(values.reshape(len(values), -1)).all(1)
        _require(finite, where, lambda k: "a number is not finite or too large for float32")
        return Batch(values, times, where)


def _require(good: np.ndarray, where: Callable[[int], str], why: Callable[[int], str]) -> None:
    if not good.all():
        k = int(np.argmin(good))
        raise ValueError(f"{where(k)}: {why(k)}")
