"""What a block runs along its sequence: the one interface of S7 and of its peers.

A layer is taken apart so that a block can put it together in its own way. `drive` is all that depends on an event
alone, so that events which are rows of a table share it; `states` runs along the sequence and gives what stands at the
end of each window of events; `output` is read from that at the window's last event.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, DTypeLike, Float, PRNGKeyArray

from s7 import checks
from s7.registry import Registered
from s7.signal import REGULAR, Rows, Timing


class SequenceLayer(eqx.Module):
    """A layer on one sequence, width numbers in and width out at each event; `jax.vmap` batches.

    `dt` is the gap assumed where a call gives none; None is regular time. A state is any tree of arrays.
    """

    width: eqx.AbstractVar[int]
    dt: eqx.AbstractVar[float | None]

    @property
    @abstractmethod
    def dtype(self) -> jnp.dtype:
        """Of the parameters and of everything computed."""

    @abstractmethod
    def init_state(self) -> Any:
        """The state before the first event."""

    @abstractmethod
    def drive(self, u: Float[Array, "L H"]) -> Any:
        """What depends on each event alone: a tree of arrays with the events in front."""

    @abstractmethod
    def states(
        self,
        drive: Any,
        dt: Float[Array, " L"] | None = None,
        mask: Bool[Array, " L"] | None = None,
        reset: Bool[Array, " L"] | None = None,
        state: Any = None,
        *,
        stride: int = 1,
        reverse: bool = False,
    ) -> tuple[Any, Any]:
        """What the output is read from, at the end of every window of `stride` events, and the final state.

        With `reverse` the layer comes from the end, a gap lies between an event and the next, and a window ends
        at its first event.
        """

    @abstractmethod
    def output(self, x: Any, u: Float[Array, "M H"]) -> Float[Array, "M H"]:
        """The output where `states` left x and the input is u."""

    def apply(
        self,
        events: Float[Array, "L H"] | Rows,
        timing: Timing = REGULAR,
        state: Any = None,
        *,
        ends: Float[Array, "M H"] | None = None,
        stride: int = 1,
        reverse: bool = False,
    ) -> tuple[Float[Array, "M H"], Any]:
        """The outputs at the end of every window of `stride` events, and the final state.

        Every call of a layer goes through this method: whole sequences, pooled ones and tokens. A layer overrides it
        where a backend computes all of it at once.

        Args:
            events: The inputs at each event, or the table that they are rows of.
            timing: Gaps, padding and starts of sequences, all of length L.
            state: The state before the first event; None is `init_state()`.
            ends: The inputs where outputs are read, one for each window; None: at each event (stride 1).
            stride: Events per window. It divides L.
            reverse: Run from the last event to the first.
        """
        if isinstance(events, Rows):
            x, final = self.token_states(events, timing, state, stride=stride, reverse=reverse)
        else:
            x, final = self.states(self.drive(events), *timing, state, stride=stride, reverse=reverse)
        if ends is None:
            ends = events.table[events.token] if isinstance(events, Rows) else events
        return self.output(x, ends), final

    def token_states(self, rows: Rows, timing: Timing, state: Any, *, stride: int, reverse: bool) -> tuple[Any, Any]:
        """As `states`, from events that are rows of a table: the drive is computed once per row."""
        drive = jax.tree.map(lambda q: q[rows.token], self.drive(rows.table))
        return self.states(drive, *timing, state, stride=stride, reverse=reverse)

    def __call__(
        self,
        u: Float[ArrayLike, "L H"],
        dt: Float[ArrayLike, " L"] | None = None,
        mask: Bool[ArrayLike, " L"] | None = None,
        state: Any = None,
        *,
        reset: Bool[ArrayLike, " L"] | None = None,
    ) -> tuple[Float[Array, "L H"], Any]:
        """The outputs and the state after the last event.

        Where `mask` is False there is no event, whatever u and dt hold there. `reset` marks the events that
        start a new sequence, so that several can be packed end to end.
        """
        events, *timing = self.validate(u, dt, mask, reset)
        return self.apply(events, Timing(*timing), state)

    def step(
        self, u: Float[ArrayLike, " H"], state: Any, dt: ArrayLike | None = None
    ) -> tuple[Float[Array, " H"], Any]:
        """One event: its output and the state after it. The same numbers as a call over the sequence."""
        gap = None if dt is None else jnp.asarray(dt, self.dtype)[None]
        y, state = self(jnp.asarray(u, self.dtype)[None], gap, state=state)
        return y[0], state

    def validate(self, u, dt, mask, reset) -> tuple[Array, Array | None, Array | None, Array | None]:
        """The arguments as arrays of the layer's own type, checked, with nothing left in the padding."""
        name = type(self).__name__
        u = jnp.asarray(u, self.dtype)
        if u.ndim != 2 or u.shape[1] != self.width:
            raise ValueError(f"{name}: u has shape {u.shape}, expected (length, {self.width}); jax.vmap batches")
        if u.shape[0] == 0:
            raise ValueError(f"{name}: u has no events")
        if dt is None and self.dt is not None:
            dt = jnp.full(u.shape[0], self.dt, self.dtype)
        dt = None if dt is None else jnp.asarray(dt, self.dtype)
        mask, reset = (None if q is None else jnp.asarray(q, bool) for q in (mask, reset))
        for what, q in (("dt", dt), ("mask", mask), ("reset", reset)):
            if q is not None and q.shape != u.shape[:1]:
                raise ValueError(f"{name}: {what} has shape {q.shape}, expected {u.shape[:1]} as u has")
        u = checks.finite(u, "u", mask)
        dt = None if dt is None else checks.gaps(dt, mask)
        if mask is not None:
            u = jnp.where(mask[:, None], u, 0)
            dt = None if dt is None else jnp.where(mask, dt, 0)
        return u, dt, mask, reset


@dataclass(frozen=True)
class LayerKind(Registered, ABC, kind="layer", package="s7.baselines"):
    """Settings of a layer that stands in the place of S7. `reads_gaps` says whether time means anything to it."""

    reads_gaps: ClassVar[bool] = False

    @abstractmethod
    def layer(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> SequenceLayer:
        """A layer with these settings; `state` is the size of its state, for those that can choose it."""


def reverse_gaps(
    dt: Float[Array, " L"] | None, mask: Bool[Array, " L"] | None, reset: Bool[Array, " L"] | None
) -> tuple[Float[Array, " L"] | None, Bool[Array, " L"] | None]:
    """Gaps and starts, which lie before an event, as they lie after it; after a sequence's last event there is none."""
    if reset is not None:
        reset = jnp.concatenate([reset[1:], jnp.zeros(1, bool)])
    if dt is not None:
        dt = dt if mask is None else jnp.where(mask, dt, 0)
        dt = jnp.concatenate([dt[1:], jnp.zeros(1, dt.dtype)])
        dt = dt if reset is None else jnp.where(reset, 0, dt)
    return dt, reset
