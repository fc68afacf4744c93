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
from s7.dropout import Dropout
from s7.eager import compiled
from s7.forms import Form, Full
from s7.gating import end_block, tail
from s7.initialization import constant, draw, split
from s7.layer import S7Layer
from s7.norm import Moments, Norm, Normalizer, NormName, make_norm
from s7.pooling import Ends, Pending, Pool, windows
from s7.ranges import Choice, Range, searched
from s7.recomputation import recomputed
from s7.sequence_layer import LayerKind, SequenceLayer
from s7.sequence_parts import sequence_axis
from s7.signal import MOST_ROWS, Rows, Signal, Timing
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
    """The weights of an affine map W u + c of each event."""

    W: Float[Array, "N H"]
    c: Float[Array, " N"]

    def __init__(self, width: int, out: int, *, key: PRNGKeyArray, dtype: DTypeLike):
        self.W = draw({"W": ((out, width), 1 / math.sqrt(width))}, key=key, dtype=dtype)["W"]
        self.c = constant(0, out, dtype)


class BlockState(NamedTuple):
    """The state of a block between events: the layer's state, and the unfinished window of a block with a stride."""

    x: Any
    pending: Pending | None


class LayerInputs(NamedTuple):
    """What the layers of a block read, before the norm.

    Attributes:
        events: The inputs at each event, or the table that they are rows of.
        timing: Gaps, padding and starts of sequences, for each event.
        ends: What is read at the end of each window.
    """

    events: Float[Array, "L H"] | Rows
    timing: Timing
    ends: Ends

    @property
    def length(self) -> int:
        """The number of events."""
        return (self.events.token if isinstance(self.events, Rows) else self.events).shape[0]


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

    @compiled
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
            read, above = LayerInputs(events, signal.timing, Ends()), signal.timing
        else:
            cut = windows(signal, self.stride, self.pool, pending, flush)
            read, above, pending = LayerInputs(cut.events, cut.timing, cut.ends), cut.above, cut.pending
        x = None if state is None else state.x
        out, x, moments = self._transform(signal, read, above, x, key, batch_axis)
        return out, None if state is None else BlockState(x, pending), moments

    @compiled
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
        ends, above = Ends(), signal.timing
        pending = state.pending
        full: Any = True
        if pending is not None:
            window = pending.push(signal.values[0], signal.gaps()[0], self.pool)
            ends = Ends(pooled=(signal.values, window.value(self.pool)))
            above = Timing(None if signal.dt is None else window.dt[None])
            full = window.events == self.stride
            pending = jax.tree.map(lambda q: jnp.where(full, jnp.zeros_like(q), q), window)
        read = LayerInputs(signal.values, signal.timing, ends)
        out, x, _ = self._transform(signal, read, above, state.x, None, None)
        after = BlockState(x, pending)
        if complete is not True:
            after = jax.tree.map(lambda new, old: jnp.where(complete, new, old), after, state)
        return out, after, full if complete is True else complete & full

    def _transform(
        self, signal: Signal, read: LayerInputs, above: Timing, x: Any, key, batch_axis
    ) -> tuple[Signal, Any, Moments | None]:
        """Norm, layers, gate, dropout, skip and projection. `above` is the timing of the output.

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
        gate, project = (None if map is None else {"W": map.W, "c": map.c} for map in (self.gate, self.project))
        around = fused.Around(normalise, gate, dropout, self.config.skip)
        run = self._fused if self._is_fused(read) else self._parts
        if before or self.norm.moments is None:
            after = Normalizer() if before else self.norm.prepare(signal.values, signal.mask, None)[0]
            z, x = run(read, x, around._replace(after=after, project=project))
        else:  # the statistics of the outputs must be known before the norm is applied to them
            z, x = run(read, x, around)
            after, moments = self.norm.prepare(z, above.mask, batch_axis)
            z = tail(z, after, project)
        return Signal(z, *above), x, moments

    def _is_fused(self, read: LayerInputs) -> bool:
        """Whether the backend computes the block in one call."""
        # A subclass may compute something that the kernel does not.
        if type(self.layer) is not S7Layer:
            return False
        if isinstance(read.events, Rows) and read.events.table.shape[0] > MOST_ROWS:
            return False
        return fused.is_fused(self.layer.transition, self.layer.form, read.length)

    def _fused(self, read: LayerInputs, x: Any, around: fused.Around) -> tuple[Array, Any]:
        assert isinstance(self.layer, S7Layer)
        directions = [self.layer.direction(read.timing, x, reverse=False)]
        if self.backward is not None:
            assert isinstance(self.backward, S7Layer)
            directions.append(self.backward.direction(read.timing, None, reverse=True))
        kind = self.layer.transition, self.layer.form
        if not isinstance(read.events, Rows) and read.ends.of_each_event:
            z, finals = fused.run(*kind, read.events, directions, around=around)
        else:
            z, finals = fused.run_windows(*kind, read.events, read.ends, directions, around=around)
        return z, finals[0]

    def _parts(self, read: LayerInputs, x: Any, around: fused.Around) -> tuple[Array, Any]:
        """The same from the parts of the block."""
        ends, skip = read.ends.values(read.events)
        events, at_ends = self._normalised(read.events, ends, around.norm)
        stride = read.ends.stride
        z, final = self.layer.apply(events, read.timing, x, ends=at_ends, stride=stride)
        if self.backward is not None:
            z = z + self.backward.apply(events, read.timing, ends=at_ends, stride=stride, reverse=True)[0]
        z = end_block(z, around.gate, around.dropout, skip if around.skip else None)
        return tail(z, around.after, around.project), final

    @staticmethod
    def _normalised(events, ends, norm: Normalizer):
        """The norm of the events and of the inputs where outputs are read, once if they are the same."""
        if isinstance(events, Rows):
            return events._replace(table=norm(events.table)), norm(ends)
        normalised = norm(events)
        return normalised, normalised if ends is events else norm(ends)
