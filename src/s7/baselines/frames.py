"""Frames of events: the layers of a first block that count events in the cells of a picture.

A frame holds the last events of a stream, up to a fixed number. After that number a new frame begins. Frames are a
recurrence over windows of events with a_k = 0 where a frame begins and 1 elsewhere, so padding, packing and chunks are
those of every other layer. `FrameEncoder` passes the tokens on to such a layer.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from s7.baselines.drawn_layer import DrawnLayer, check_sizes, event_numbers
from s7.initialization import Parameters, constant
from s7.recurrence import recurrence
from s7.sequence_layer import LayerKind


@dataclass(frozen=True)
class FrameKind(LayerKind):
    """The base class of layers that read frames. The first number of an input vector is the token of the event.

    Args:
        shape: (columns, rows, channels) of the sensor; tokens number its pixels as `s7.tokenize` does, channels first.
            A single column is a line of channels, such as those of a cochlea.
        events: The number of events in a frame. The stride of the block must divide it.
        cells: The most cells along each axis of a frame; pixels are grouped into equal squares. Four times as many
            along a line.
    """

    reads_gaps: ClassVar[bool] = False
    shape: tuple[int, int, int] = (8, 8, 2)
    events: int = 128
    cells: int = 40

    def __post_init__(self):
        if min(self.shape) < 1:
            raise ValueError(f"{type(self).__name__}: shape={self.shape} must be at least (1, 1, 1)")
        check_sizes(self, "events", "cells")

    @abstractmethod
    def init(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """Draw the parameters of `features`."""

    @abstractmethod
    def features(self, parameters: Parameters, frames: Float[Array, "M X Y C"]) -> Float[Array, "M H"]:
        """Compute a vector for each frame."""

    @cached_property
    def grid(self) -> tuple[int, int, int]:
        """(columns, rows, channels) of a frame."""
        columns, rows, channels = self.shape
        return -(-columns // self._square), -(-rows // self._square), channels

    @cached_property
    def _square(self) -> int:
        """The side of the square of pixels that a cell stands for."""
        columns, rows, _ = self.shape
        return -(-max(columns, rows) // (self.cells if columns > 1 else 4 * self.cells))

    def cell_of_token(self) -> np.ndarray:
        """The place in a flat frame of each token, (tokens,)."""
        x, y, channel = np.unravel_index(np.arange(math.prod(self.shape)), self.shape)
        return np.ravel_multi_index((x // self._square, y // self._square, channel), self.grid).astype(np.int32)

    def layer(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> "FrameLayer":
        """Make a layer. `state` is ignored: the state is the frame."""
        return FrameLayer.drawn(self, width, state, key=key, dtype=dtype)


class FrameState(NamedTuple):
    """The unfinished frame, flat, and the number of its events."""

    frame: Float[Array, " F"]
    events: Float[Array, ""]


class FrameLayer(DrawnLayer):
    """The features of the frame so far, at the end of each window of events."""

    def init_state(self) -> FrameState:
        return FrameState(constant(0, math.prod(self.kind.grid), self.dtype), constant(0, 1, self.dtype)[0])

    def drive(self, u):
        cell = self.kind.cell_of_token()
        token = jnp.clip(jnp.round(u[:, 0]), 0, len(cell) - 1).astype(int)
        return jnp.asarray(cell)[token]

    def states(self, drive, dt=None, mask=None, reset=None, state=None, *, stride=1, reverse=False):
        if reverse:
            raise ValueError("frames are collected in the order of time; a bidirectional model cannot read them")
        size = self.kind.events
        if size % stride:
            raise ValueError(f"a stride of {stride} does not divide frames of {size} events; change events or stride")
        before = self.init_state() if state is None else state
        mask = jnp.ones(len(drive), bool) if mask is None else mask
        _, number = event_numbers(mask, reset, before.events.astype(int))
        windows = len(drive) // stride
        window = jnp.repeat(jnp.arange(windows), stride)
        counts = jnp.zeros((windows, before.frame.size), self.dtype).at[window, drive].add(mask.astype(self.dtype))
        # Only the first event of a window can begin a frame, because the stride divides its size.
        begins = (mask & (number % size == 0)).reshape(windows, stride).any(1)
        keep = jnp.broadcast_to(jnp.where(begins, 0, 1).astype(self.dtype)[:, None], counts.shape)
        frames = recurrence(keep, counts, before.frame)
        return frames, FrameState(frames[-1], ((number[-1] + 1) % size).astype(self.dtype))

    def output(self, x, u):
        return self.kind.features(self.parameters, x.reshape(len(x), *self.kind.grid))
