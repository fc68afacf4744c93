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
        ones = mask.astype(values.dtype)
        weights = jnp.where(mask, weights, 0)
        weight, number = weights.sum(-1), ones.sum(-1)
        used = jnp.where(weight[..., None] > 0, weights, ones)
        total = jnp.maximum(used.sum(-1), jnp.finfo(values.dtype).tiny)
        return cls(jnp.einsum("...nh,...n->...h", values, used / total[..., None]), weight, number)

    def merge(self, other: "Average") -> "Average":
        """The average of the values of both."""
        weight, number = self.weight + other.weight, self.number + other.number
        share = jnp.where(
            weight > 0,
            other.weight / jnp.where(weight > 0, weight, 1),
            other.number / jnp.maximum(number, 1),
        )
        return Average(self.mean + (other.mean - self.mean) * share[..., None], weight, number)


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

    def signal(self, pool: Pool, *, timed: bool) -> Signal:
        """The window as one event for the next block, as if it ended here."""
        value = self.last if pool == "last" else self.average.mean
        return Signal(value[None], self.dt[None] if timed else None)


class Windows(NamedTuple):
    """A signal divided into windows, in which padding follows the events.

    Attributes:
        events: The values at each position, or the table of which they are rows.
        last: The value at the last event of each window.
        timing: The gaps, padding and starts of sequences, for each position.
        signal: The pooled signal: one value (for the skip connection), gap, mask and start per window.
        pending: The unfinished window, if the signal is part of a stream.
    """

    events: Float[Array, "N H"] | Rows
    last: Float[Array, "M H"]
    timing: Timing
    signal: Signal
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
    values, length = signal.values, signal.length
    if pending is None:
        places = -(-length // stride) * stride
        offset = None
    else:
        places = (length + stride - 1 + stride - 1) // stride * stride
        offset = pending.events
    padded = signal.mask is not None or places != length
    mask = _place(signal.valid(), places, offset, False).reshape(-1, stride)
    gaps = _place(signal.gaps(), places, offset, 0).reshape(-1, stride)
    dt = jnp.where(mask, gaps, 0).sum(1)
    counts = mask.sum(1)

    events = laid_out = _place(values, places, offset, 0)
    if pending is not None:
        carried = pending.events > 0
        before = jnp.where(carried, pending.events - 1, places)
        laid_out = laid_out.at[before].set(pending.last, mode="drop")
        dt = dt.at[0].add(jnp.where(carried, pending.dt, 0))
        counts = counts.at[0].add(pending.events)
    if padded or pending is not None:
        ends = jnp.arange(0, places, stride) + jnp.maximum(counts, 1) - 1
        last = laid_out[ends]
    else:
        last = laid_out[stride - 1 :: stride]

    average = None
    if pool != "last":
        weights = gaps if pool == "time" else jnp.ones_like(gaps)
        average = Average.over(laid_out.reshape(-1, stride, values.shape[1]), weights, mask)
        if pending is not None:
            first = jax.tree.map(lambda q: q[0], average)
            merged = jax.tree.map(lambda new, old: jnp.where(carried, new, old), pending.average.merge(first), first)
            average = jax.tree.map(lambda q, m: q.at[0].set(m), average, merged)
    skip = last if average is None else average.mean

    full = counts == stride
    present = counts > 0 if flush else full
    reset = None if signal.reset is None else _place(signal.reset, places, offset, False)
    place_mask = None if not padded and pending is None else mask.reshape(-1)
    return Windows(
        events=events if signal.rows is None else Rows(signal.rows.table, _place(signal.rows.token, places, offset, 0)),
        last=last,
        timing=Timing(None if signal.dt is None else gaps.reshape(-1), place_mask, reset),
        signal=Signal(
            skip,
            None if signal.dt is None else dt,
            present if padded or pending is not None else None,
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
