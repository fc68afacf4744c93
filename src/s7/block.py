"""A block: norm, layer, gate, dropout and skip, once per event or once per window of events.

    z = layer(norm(u))        out = u + dropout(z * sigmoid(W gelu(z)))

With `norm_place="after"`, the layer reads u itself and out = norm(u + dropout(...)). Gate and skip are optional, and
any `SequenceLayer` can take the place of S7. A block with a stride computes its output and all that follows
once per window of events; see pooling.py.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, DTypeLike, Float, PRNGKeyArray

from s7 import fused
from s7.contractions import linear
from s7.dropout import Dropout
from s7.forms import Form, Full
from s7.gating import end_block
from s7.initialization import constant, draw, split
from s7.layer import Drive, S7Layer
from s7.norm import Moments, Norm, Normalizer, NormName, make_norm
from s7.pooling import Pending, Pool, windows
from s7.ranges import Choice, Range, searched
from s7.recomputation import recomputed
from s7.sequence_layer import LayerKind, SequenceLayer
from s7.sequence_parts import sequence_axis
from s7.signal import Rows, Signal, Timing
from s7.transitions import Stable, Transition


@dataclass(frozen=True)
class BlockConfig:
    """Settings of a block.

    Attributes:
        transition: How the state decays.
        form: How the input enters the state and the output leaves it.
        blocks: The paper's J, the number of blocks of states that share an initial spectrum.
        norm: "layer", "rms", "batch" or "none".
        norm_place: Whether the norm comes before the layer or after the skip.
        dropout: The probability that a value is dropped in training.
        bidirectional: Whether a second layer reads the sequence from its end.
        gate: Whether the output is multiplied by sigmoid(W gelu(z)).
        skip: Whether the input is added to the output.
        layer: A layer that replaces S7; `transition`, `form` and `blocks` then have no effect.
    """

    transition: Transition = Stable()
    form: Form = Full()
    blocks: int = searched(1, Choice((1, 2, 4, 8)))
    norm: NormName = "layer"
    norm_place: Literal["before", "after"] = "before"
    dropout: float = searched(0.0, Range(0.0, 0.35))
    bidirectional: bool = False
    gate: bool = True
    skip: bool = True
    layer: LayerKind | None = None

    def __post_init__(self):
        if self.norm_place not in ("before", "after"):
            raise ValueError(f'norm_place={self.norm_place!r} is not one of "before", "after"')
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} must be at least 0 and below 1")


class Linear(eqx.Module):
    """The affine map W u + c of each event."""

    W: Float[Array, "N H"]
    c: Float[Array, " N"]

    def __init__(self, width: int, out: int, *, key: PRNGKeyArray, dtype: DTypeLike):
        self.W = draw({"W": ((out, width), 1 / math.sqrt(width))}, key=key, dtype=dtype)["W"]
        self.c = constant(0, out, dtype)

    def __call__(self, u: Float[Array, "L H"]) -> Float[Array, "L N"]:
        """W u_k + c."""
        return linear(self.W, u) + self.c


class BlockState(NamedTuple):
    """The state of a block between events: the layer's state, and the unfinished window of a block with a stride."""

    x: Any
    pending: Pending | None


class LayerInputs(NamedTuple):
    """What the layers of a block read, before the norm.

    Attributes:
        events: The inputs at each event, or the table that they are rows of.
        ends: The inputs where outputs are read: the last event of each window.
        timing: Gaps, padding and starts of sequences, for each event.
    """

    events: Float[Array, "L H"] | Rows
    ends: Float[Array, "M H"]
    timing: Timing


class Block(eqx.Module):
    """One block: (L, width) to (ceil(L / stride), out).

    Args:
        width: The width of the input.
        state: The size of the state.
        config: The block's settings.
        out: The width of the output; None: the same as that of the input.
        stride: Events per output.
        pool: What the skip adds: the "mean", the mean over "time" or the "last" event of a window.
    """

    norm: Norm
    layer: SequenceLayer
    backward: SequenceLayer | None
    gate: Linear | None
    project: Linear | None
    stride: int = eqx.field(static=True)
    pool: Pool = eqx.field(static=True)
    config: BlockConfig = eqx.field(static=True)

    def __init__(
        self,
        width: int,
        state: int,
        config: BlockConfig,
        *,
        out: int | None = None,
        stride: int = 1,
        pool: Pool = "mean",
        key: PRNGKeyArray,
        dtype: DTypeLike = jnp.float32,
    ):
        if pool not in ("last", "mean", "time"):
            raise ValueError(f'pool={pool!r} is not one of "last", "mean", "time"')
        if stride < 1:
            raise ValueError(f"stride={stride} must be at least 1")
        layer_key, backward_key, gate_key, project_key = split(key, 4)

        def make_layer(key: PRNGKeyArray) -> SequenceLayer:
            if config.layer is not None:
                return config.layer.layer(width, state, key=key, dtype=dtype)
            kind = {"transition": config.transition, "form": config.form}
            return S7Layer(width, state, key=key, blocks=config.blocks, dtype=dtype, **kind)  # type: ignore[arg-type]

        self.norm = make_norm(config.norm, width, dtype)
        self.layer = make_layer(layer_key)
        self.backward = make_layer(backward_key) if config.bidirectional else None
        self.gate = Linear(width, width, key=gate_key, dtype=dtype) if config.gate else None
        self.project = None
        if out is not None and out != width:
            self.project = Linear(width, out, key=project_key, dtype=dtype)
        self.stride, self.pool, self.config = stride, pool, config

    def init_state(self) -> BlockState:
        """The state before the first event.

        Raises:
            ValueError: If the block is bidirectional, since it also reads the sequence from its end.
        """
        if self.backward is not None:
            raise ValueError("a bidirectional model cannot stream: it reads the sequence from its end too")
        pending = Pending.empty(self.layer.width, self.layer.dtype) if self.stride > 1 else None
        return BlockState(self.layer.init_state(), pending)

    def __call__(
        self,
        signal: Signal,
        state: BlockState | None = None,
        *,
        flush: bool = True,
        key: PRNGKeyArray | None = None,
        batch_axis: str | tuple[str, ...] | None = None,
    ) -> tuple[Signal, BlockState | None, Moments | None]:
        """Run the block along a signal.

        Args:
            signal: The input.
            state: The state to start from; None: the initial one, and no state is returned.
            flush: Whether the signal ends here, so that an unfinished window is output too.
            key: Turns dropout on, in training.
            batch_axis: The axis to take batch statistics over, in training.

        Returns:
            The output, the state after it, and the norm's new running statistics.
        """
        return recomputed(partial(self._run, flush=flush, batch_axis=batch_axis))(signal, state, key)

    def _run(
        self, signal: Signal, state: BlockState | None, key, *, flush: bool, batch_axis
    ) -> tuple[Signal, BlockState | None, Moments | None]:
        pending = None if state is None else state.pending
        if self.stride == 1:
            events = signal.values if signal.rows is None else signal.rows
            read, above = LayerInputs(events, signal.values, signal.timing), signal._replace(rows=None)
        else:
            cut = windows(signal, self.stride, self.pool, pending, flush)
            read, above, pending = LayerInputs(cut.events, cut.last, cut.timing), cut.signal, cut.pending
        x = None if state is None else state.x
        out, x, moments = self._transform(signal, read, above, x, key, batch_axis)
        return out, None if state is None else BlockState(x, pending), moments

    def step(
        self, signal: Signal, state: BlockState, complete: bool | Bool[Array, ""]
    ) -> tuple[Signal, BlockState, bool | Bool[Array, ""]]:
        """Run the block on one event, for the answer and for the state after it at once.

        Args:
            signal: The event, a signal of length 1.
            state: The state before it.
            complete: Whether the event is one that the block keeps, rather than the block below's unfinished window.

        Returns:
            The output as if the sequence ended here, the state (as it was, if the event is not complete), and
            whether the output is complete.
        """
        read, above = LayerInputs(signal.values, signal.values, signal.timing), signal
        pending = state.pending
        full: Any = True
        if pending is not None:
            window = pending.push(signal.values[0], signal.gaps()[0], self.pool)
            above = window.signal(self.pool, timed=signal.dt is not None)
            full = window.events == self.stride
            pending = jax.tree.map(lambda q: jnp.where(full, jnp.zeros_like(q), q), window)
        out, x, _ = self._transform(signal, read, above, state.x, None, None)
        after = BlockState(x, pending)
        if complete is not True:
            after = jax.tree.map(lambda new, old: jnp.where(complete, new, old), after, state)
        return out, after, full if complete is True else complete & full

    def _transform(
        self, signal: Signal, read: LayerInputs, above: Signal, x: Any, key, batch_axis
    ) -> tuple[Signal, Any, Moments | None]:
        """Norm, layers, gate, dropout, skip and projection. `above.values` are what the skip adds.

        This is the one place where blocks are computed, whole, pooled, from tokens and event by event alike.
        """
        axis = sequence_axis()
        if axis is not None:
            if not isinstance(self.layer, S7Layer):
                raise ValueError(f"{type(self.layer).__name__} cannot be divided over devices; S7 layers can")
            # Each device drops values of its own.
            key = None if key is None else jax.random.fold_in(key, jax.lax.axis_index(axis))
        before = self.config.norm_place == "before"
        normalise, moments = Normalizer(), None
        if before:
            normalise, moments = self.norm.prepare(signal.values, signal.mask, batch_axis)
        dropout = Dropout.of(key, self.config.dropout, signal.values.dtype)
        gate = None if self.gate is None else {"W": self.gate.W, "c": self.gate.c}
        around = fused.Around(normalise, gate, dropout, self.config.skip)
        if self._is_fused(read, above.values):
            z, x = self._fused(read, x, around)
        elif self._has_halves(read):
            z, x = self._halves(read, x, around, above.values)
        else:
            z, x = self._layers(read, normalise, x)
            z = end_block(z, gate, dropout, above.values if self.config.skip else None)
        if not before:
            normalise, moments = self.norm.prepare(z, above.mask, batch_axis)
            z = normalise(z)
        if self.project is not None:
            z = self.project(z)
        return above._replace(values=z), x, moments

    def _is_fused(self, read: LayerInputs, skip: Array) -> bool:
        """Whether the backend computes everything up to the skip in one call."""
        # A subclass may compute something that the kernel does not.
        if type(self.layer) is not S7Layer or read.events is not read.ends:
            return False
        # A step of a pooled block reads one event, but its skip adds the mean of the window.
        if self.config.skip and skip is not read.ends:
            return False
        return fused.is_fused(self.layer.transition, self.layer.form, read.ends.shape[0])

    def _fused(self, read: LayerInputs, x: Any, around: fused.Around) -> tuple[Array, Any]:
        assert isinstance(self.layer, S7Layer)
        directions = [self.layer.direction(read.timing, x, reverse=False)]
        if self.backward is not None:
            assert isinstance(self.backward, S7Layer)
            directions.append(self.backward.direction(read.timing, None, reverse=True))
        z, finals = fused.run(self.layer.transition, self.layer.form, read.ends, directions, around=around)
        return z, finals[0]

    def _has_halves(self, read: LayerInputs) -> bool:
        """Whether the backend computes what comes before and after the states in one call each."""
        if type(self.layer) is not S7Layer:
            return False
        backend = fused.backend_for(read.events.token.shape[0] if isinstance(read.events, Rows) else len(read.events))
        return backend.has_halves and backend.fuses(self.layer.transition, self.layer.form)

    def _halves(self, read: LayerInputs, x: Any, around: fused.Around, skip: Array) -> tuple[Array, Any]:
        """From the states at the ends of windows, or of events that share rows of a table."""
        layers = [layer for layer in (self.layer, self.backward) if isinstance(layer, S7Layer)]
        table, token = read.events if isinstance(read.events, Rows) else (read.events, None)
        length = (table if token is None else token).shape[0]
        backend, kind = fused.backend_for(length), (layers[0].transition, layers[0].form)
        weights = [{**layer.rates, **layer.maps} for layer in layers]
        drives = backend.drive(*kind, table, weights, around.norm)
        found = [
            layer.window_states(Drive(*drive), token, read.timing, start, stride=self._stride(read), reverse=n == 1)
            for n, (layer, drive, start) in enumerate(zip(layers, drives, (x, None), strict=False))
        ]
        states = [states for states, _ in found]
        z = backend.read(*kind, read.ends, states, skip if around.skip else None, weights, around)
        return z, found[0][1]

    def _layers(self, read: LayerInputs, normalise: Normalizer, x: Any) -> tuple[Array, Any]:
        """The sum of both directions' outputs, and the final state of the first."""
        events: Any
        if isinstance(read.events, Rows):
            events, ends = read.events._replace(table=normalise(read.events.table)), normalise(read.ends)
        else:
            events = normalise(read.events)
            ends = events if read.ends is read.events else normalise(read.ends)
        z, final = self.layer.apply(events, read.timing, x, ends=ends, stride=self._stride(read))
        if self.backward is not None:
            reverse = self.backward.apply(events, read.timing, ends=ends, stride=self._stride(read), reverse=True)
            z = z + reverse[0]
        return z, final

    def _stride(self, read: LayerInputs) -> int:
        events = read.events.token if isinstance(read.events, Rows) else read.events
        return events.shape[0] // read.ends.shape[0]
