"""The interface of sequence layers, S7 and baselines alike.

A layer has three parts. `drive` computes everything that depends on single events, so that events with the same token
share it. `states` runs along the sequence and returns the state at the end of each window of events. `output` computes
the output from that state and the last event of the window.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, DTypeLike, Float, PRNGKeyArray

from s7 import checks
from s7.eager import compiled
from s7.registry import Registered
from s7.sequence_parts import shifted
from s7.signal import REGULAR, Rows, Timing


class SequenceLayer(eqx.Module):
    """The base class of layers, which map a sequence (L, width) to a sequence of the same shape.

    A layer acts on one sequence; use `jax.vmap` for batches. Its state is any tree of arrays.

    Attributes:
        width: The number of features of inputs and outputs.
        dt: The gap to use in calls without gaps; None for regular time.
    """

    width: eqx.AbstractVar[int]
    dt: eqx.AbstractVar[float | None]

    @property
    @abstractmethod
    def dtype(self) -> jnp.dtype:
        """The type of parameters, states and outputs."""

    @abstractmethod
    def init_state(self) -> Any:
        """The state before the first event."""

    @abstractmethod
    def drive(self, u: Float[Array, "L H"]) -> Any:
        """Compute what depends on single events: a tree of arrays whose first axis is L."""

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
        """Run along the sequence.

        Args:
            drive: The result of `drive` for each event.
            dt: The gap before each event; None for regular time.
            mask: False on padding; None if there is none.
            reset: True at the first event of each of several packed sequences; None for one sequence.
            state: The state before the first event; None for `init_state()`.
            stride: The number of events per window. It divides L.
            reverse: Run from the last event to the first. Gaps then separate an event from the next one, and a window
                ends at its first event.

        Returns:
            What `output` reads, at the end of each window, and the final state.
        """

    @abstractmethod
    def output(self, x: Any, u: Float[Array, "M H"]) -> Float[Array, "M H"]:
        """Compute the outputs from the states x at the ends of M windows and the inputs u there."""

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
        """Run the layer. Every call, on whole sequences, windows or tokens, goes through this method.

        A layer overrides it if a backend can compute everything at once.

        Args:
            events: The inputs, or the table of which they are rows.
            timing: Gaps, padding and starts of sequences, all of length L.
            state: The state before the first event; None for `init_state()`.
            ends: The inputs at the ends of windows; None for all events (stride 1).
            stride: The number of events per window. It divides L.
            reverse: Run from the last event to the first.

        Returns:
            The outputs at the ends of windows, and the final state.
        """
        if isinstance(events, Rows):
            x, final = self.token_states(events, timing, state, stride=stride, reverse=reverse)
        else:
            x, final = self.states(self.drive(events), *timing, state, stride=stride, reverse=reverse)
        if ends is None:
            ends = events.values() if isinstance(events, Rows) else events
        return self.output(x, ends), final

    def token_states(self, rows: Rows, timing: Timing, state: Any, *, stride: int, reverse: bool) -> tuple[Any, Any]:
        """As `states`, for events that are rows of a table: the drive is computed once per row."""
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
        """Run the layer on a sequence.

        Args:
            u: The inputs.
            dt: The gap before each event; None for regular time.
            mask: False on padding, where the values of u and dt have no effect.
            state: The state before the first event; None for `init_state()`.
            reset: True at the first event of each of several packed sequences.

        Returns:
            The outputs, and the state after the last event.
        """
        events, *timing = self.validate(u, dt, mask, reset)
        return _apply(self, events, Timing(*timing), state)

    def step(
        self, u: Float[ArrayLike, " H"], state: Any, dt: ArrayLike | None = None
    ) -> tuple[Float[Array, " H"], Any]:
        """Run the layer on one event.

        Args:
            u: The input.
            state: The state before the event.
            dt: The gap before the event; None for regular time.

        Returns:
            The output and the state after the event, the same as those of a call on the sequence.
        """
        gap = None if dt is None else checks.gap_array(dt, self.dtype)[None]
        y, state = self(jnp.asarray(u, self.dtype)[None], gap, state=state)
        return y[0], state

    def validate(self, u, dt, mask, reset) -> tuple[Array, Array | None, Array | None, Array | None]:
        """Check the arguments of a call, convert them to the layer's type, and set padding to zero."""
        name = type(self).__name__
        u = jnp.asarray(u, self.dtype)
        if u.ndim != 2 or u.shape[1] != self.width:
            raise ValueError(f"{name}: u has shape {u.shape}, expected (length, {self.width}); jax.vmap batches")
        if u.shape[0] == 0:
            raise ValueError(f"{name}: u has no events")
        if dt is None and self.dt is not None:
            dt = jnp.full(u.shape[0], self.dt, self.dtype)
        dt = None if dt is None else checks.gap_array(dt, self.dtype)
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


@compiled
def _apply(layer: SequenceLayer, events: Array, timing: Timing, state: Any) -> tuple[Array, Any]:
    return layer.apply(events, timing, state)


@dataclass(frozen=True)
class LayerKind(Registered, ABC, kind="layer", package="s7.baselines"):
    """The settings of a layer that replaces S7 in each block.

    Attributes:
        reads_gaps: Whether the layer uses time gaps.
    """

    reads_gaps: ClassVar[bool] = False

    @abstractmethod
    def layer(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> SequenceLayer:
        """Make a layer with these settings.

        Args:
            width: The number of features of inputs and outputs.
            state: The size of the state, for layers in which it can be chosen.
            key: A JAX random key for the initial parameters.
            dtype: The type of the parameters.
        """

    def attention_scores(self, events: int, outputs: int) -> int:
        """The size of the table of attention scores of one sequence; 0 if memory is linear in the length.

        Args:
            events: The number of events.
            outputs: The number of windows in which outputs are read.
        """
        return 0


def reverse_gaps(
    dt: Float[Array, " L"] | None, mask: Bool[Array, " L"] | None, reset: Bool[Array, " L"] | None
) -> tuple[Float[Array, " L"] | None, Bool[Array, " L"] | None]:
    """Shift gaps and starts, given before each event, to where a reversed scan needs them: after each event.

    The gap after the last event of a sequence is 0.
    """
    if reset is not None:
        reset = shifted(reset, jnp.zeros((), bool), later=False)
    if dt is not None:
        dt = dt if mask is None else jnp.where(mask, dt, 0)
        dt = shifted(dt, jnp.zeros((), dt.dtype), later=False)
        dt = dt if reset is None else jnp.where(reset, 0, dt)
    return dt, reset
