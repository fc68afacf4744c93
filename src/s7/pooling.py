"""Event pooling: one output for every `stride` events, and averages that can be updated.

The state of a pooling block is updated by every event; the next block receives one event per window. Windows are never
dropped. If a sequence ends inside a window, that window is shorter. If a chunk of a stream ends inside a window,
`Pending` carries the window to the next chunk.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from s7.backend_selection import current_backend, find_backend
from s7.sequence_parts import sequence_axis
from s7.signal import Rows, Signal, Timing

Pool = Literal["last", "mean", "time"]


class Average(NamedTuple):
    """A weighted mean that can be merged with another one. If all weights are zero, it is the unweighted mean.

    Weights are floating-point numbers. In a stream of days they saturate: the mean then slowly forgets old values, and
    the weights do not overflow.
    """

    mean: Float[Array, "*batch H"]
    weight: Float[Array, "*batch"]
    number: Float[Array, "*batch"]

    @classmethod
    def empty(cls, width: int, dtype) -> "Average":
        """An empty average."""
        return cls(jnp.zeros(width, dtype), jnp.zeros((), dtype), jnp.zeros((), dtype))

    @classmethod
    def over(
        cls,
        values: Float[Array, "*batch N H"],
        weights: Float[Array, "*batch N"],
        mask: Bool[Array, "*batch N"],
    ) -> "Average":
        """The average over the axis N of the values where the mask is True."""
        mean = jnp.einsum("...nh,...n->...h", values, shares(weights, mask))
        return cls(mean, jnp.where(mask, weights, 0).sum(-1), mask.astype(values.dtype).sum(-1))

    def whole(self) -> "Average":
        """The average over all parts of a sequence that is divided over devices."""
        axis = sequence_axis()
        if axis is None:
            return self
        weight, number = lax.psum((self.weight, self.number), axis)
        timed = weight > 0
        share = jnp.where(timed, self.weight / jnp.where(timed, weight, 1), self.number / jnp.maximum(number, 1))
        return Average(lax.psum(self.mean * share[..., None], axis), weight, number)

    def merge(self, other: "Average") -> "Average":
        """The average of the values of both."""
        weight, number = self.weight + other.weight, self.number + other.number
        share = jnp.where(
            weight > 0,
            other.weight / jnp.where(weight > 0, weight, 1),
            other.number / jnp.maximum(number, 1),
        )
        return Average(self.mean + (other.mean - self.mean) * share[..., None], weight, number)


def shares(weights: Float[Array, "*batch N"], mask: Bool[Array, "*batch N"]) -> Float[Array, "*batch N"]:
    """The weights over the axis N as parts of their sum. If all are zero, the parts are equal."""
    weights = jnp.where(mask, weights, 0)
    used = jnp.where(weights.sum(-1, keepdims=True) > 0, weights, mask.astype(weights.dtype))
    return used / jnp.maximum(used.sum(-1, keepdims=True), jnp.finfo(weights.dtype).tiny)


class Pending(NamedTuple):
    """An unfinished window at the end of a chunk: the number of its events, their average, total gap and last value."""

    events: Int[Array, ""]
    average: Average
    dt: Float[Array, ""]
    last: Float[Array, " H"]

    @classmethod
    def empty(cls, width: int, dtype) -> "Pending":
        """A window without events."""
        zero = jnp.zeros((), jnp.int32)
        return cls(zero, Average.empty(width, dtype), jnp.zeros((), dtype), jnp.zeros(width, dtype))

    def push(self, value: Float[Array, " H"], gap: Float[Array, ""], pool: Pool) -> "Pending":
        """The window after one more event."""
        average = self.average
        if pool != "last":
            weight = gap if pool == "time" else jnp.ones_like(gap)
            average = average.merge(Average(value, weight, jnp.ones_like(gap)))
        return Pending(self.events + 1, average, self.dt + gap, value)

    def value(self, pool: Pool) -> Float[Array, "1 H"]:
        """What the skip adds, if the window ended here."""
        return (self.last if pool == "last" else self.average.mean)[None]


class Ends(NamedTuple):
    """What a block reads at the end of each window besides the state: the last value, and what the skip adds.

    Attributes:
        stride: The number of positions in a window.
        share: The weight of each position in the mean of its window, which the skip adds; None: the skip adds the last
            value.
        last: The position of the last event in each window; None if all windows are full.
        pooled: The last values and what the skip adds, if they do not follow from the events alone: in a stream, a
            window can start in an earlier chunk.
    """

    stride: int = 1
    share: Float[Array, " N"] | None = None
    last: Int[Array, " M"] | None = None
    pooled: tuple[Float[Array, "M H"], Float[Array, "M H"]] | None = None

    @property
    def of_each_event(self) -> bool:
        """Whether every event is read, and the skip adds the event itself."""
        return self.stride == 1 and self.pooled is None

    def values(self, events: Float[Array, "N H"] | Rows) -> tuple[Float[Array, "M H"], Float[Array, "M H"]]:
        """The last values and what the skip adds, for these events or rows of a table."""
        if self.pooled is not None:
            return self.pooled
        if self.of_each_event:
            values = events.values() if isinstance(events, Rows) else events
            return values, values
        mean, ends = self._pool(events)
        return ends, ends if mean is None else mean

    def _pool(self, events: Float[Array, "N H"] | Rows) -> tuple[Float[Array, "M H"] | None, Float[Array, "M H"]]:
        table, token = events if isinstance(events, Rows) else (events, None)
        backend = find_backend(current_backend(table.shape[0] if token is None else token.shape[0]))
        if backend.has_pooling:
            return backend.pool(table, token, self.share, self.last, self.stride)
        values = events.values() if isinstance(events, Rows) else events
        last = self.stride - 1 if self.last is None else self.last
        ends = values[jnp.arange(0, values.shape[0], self.stride) + last]
        windows = values.reshape(-1, self.stride, values.shape[1])
        share = None if self.share is None else self.share.reshape(-1, self.stride)
        return None if share is None else jnp.einsum("mnh,mn->mh", windows, share), ends


class Windows(NamedTuple):
    """A signal divided into windows, in which padding follows the events.

    Attributes:
        events: The values at each position, or the table of which they are rows.
        timing: The gaps, padding and starts of sequences, for each position.
        ends: What is read at the end of each window.
        above: The gap, padding and start of each window, as the next block reads them.
        pending: The unfinished window, if the signal is part of a stream.
    """

    events: Float[Array, "N H"] | Rows
    timing: Timing
    ends: Ends
    above: Timing
    pending: Pending | None


def windows(signal: Signal, stride: int, pool: Pool, pending: Pending | None, flush: bool) -> Windows:
    """Divide a signal into windows of `stride` events.

    Args:
        signal: The signal of a sequence or of a chunk.
        stride: The number of events per window.
        pool: The skip connection: "mean", "time" or "last".
        pending: The unfinished window of the previous chunk, which this signal continues.
        flush: Whether the last window is complete even if it has fewer events. Otherwise it is masked and returned as
            `pending`.
    """
    length = signal.length
    if sequence_axis() is not None and length % stride:
        raise ValueError(
            f"a device holds {length} events of a sequence, which is not a multiple of the stride {stride}"
        )
    if pending is None:
        places = -(-length // stride) * stride
        offset = None
    else:
        places = (length + stride - 1 + stride - 1) // stride * stride
        offset = pending.events
    padded = signal.mask is not None or places != length or pending is not None
    mask = _place(signal.valid(), places, offset, False).reshape(-1, stride)
    gaps = _place(signal.gaps(), places, offset, 0).reshape(-1, stride)
    dt = jnp.where(mask, gaps, 0).sum(1)
    counts = mask.sum(1)
    events: Array | Rows
    if signal.rows is None:
        events = _place(signal.values, places, offset, 0)
    else:
        events = Rows(signal.rows.table, _place(signal.rows.token, places, offset, 0))

    weights = None if pool == "last" else gaps if pool == "time" else jnp.ones_like(gaps)
    average = last = None
    if pending is None:
        share = None if weights is None else shares(weights, mask).reshape(-1)
        ends = Ends(stride, share, jnp.maximum(counts, 1) - 1 if padded else None)
    else:
        carried = pending.events > 0
        laid_out = _place(signal.values, places, offset, 0)
        before = jnp.where(carried, pending.events - 1, places)
        laid_out = laid_out.at[before].set(pending.last, mode="drop")
        dt = dt.at[0].add(jnp.where(carried, pending.dt, 0))
        counts = counts.at[0].add(pending.events)
        last = laid_out[jnp.arange(0, places, stride) + jnp.maximum(counts, 1) - 1]
        if weights is not None:
            average = Average.over(laid_out.reshape(*mask.shape, -1), weights, mask)
            first = jax.tree.map(lambda q: q[0], average)
            merged = jax.tree.map(lambda new, old: jnp.where(carried, new, old), pending.average.merge(first), first)
            average = jax.tree.map(lambda q, m: q.at[0].set(m), average, merged)
        ends = Ends(stride, pooled=(last, last if average is None else average.mean))

    full = counts == stride
    present = counts > 0 if flush else full
    reset = None if signal.reset is None else _place(signal.reset, places, offset, False)
    return Windows(
        events=events,
        timing=Timing(None if signal.dt is None else gaps.reshape(-1), mask.reshape(-1) if padded else None, reset),
        ends=ends,
        above=Timing(
            None if signal.dt is None else dt,
            present if padded else None,
            None if reset is None else reset.reshape(-1, stride)[:, 0],
        ),
        pending=None if pending is None else _still_pending(pending, counts, full, average, dt, last),
    )


def _still_pending(pending: Pending, counts, full, average: Average | None, dt, last) -> Pending:
    """The window after the last full one; empty if it has no events."""
    at = jnp.minimum(full.sum(), counts.shape[0] - 1)
    count = jnp.where(full[at], 0, counts[at])
    average = pending.average if average is None else jax.tree.map(lambda q: q[at], average)
    fresh = Pending(count.astype(jnp.int32), average, dt[at], last[at])
    empty = jax.tree.map(jnp.zeros_like, fresh)
    return jax.tree.map(lambda some, none: jnp.where(count > 0, some, none), fresh, empty)


def _place(events: Array, places: int, offset: Array | None, filling) -> Array:
    if offset is None:
        extra = places - events.shape[0]
        if extra == 0:
            return events
        return jnp.pad(events, ((0, extra), *((0, 0),) * (events.ndim - 1)), constant_values=filling)
    space = jnp.full((places, *events.shape[1:]), filling, events.dtype)
    return lax.dynamic_update_slice_in_dim(space, events, offset, 0)
