"""The block around a layer: norm, S7, gate, dropout, skip; and event pooling.

    z = S7(norm(u))        out = u + dropout(z * sigmoid(W gelu(z)))

With norm "after" instead of "before", out = norm(u + dropout(...)) and S7 reads u itself. Gate and skip can be left
out, and another layer can stand in the place of S7. A pooling block does all that follows the state once per window:
see pooling.py.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from s7.contractions import linear
from s7.forms import Form, Full
from s7.initialization import constant, draw, split
from s7.layer import S7Layer
from s7.norm import Moments, Norm, NormName, make_norm
from s7.pooling import Pending, Pool, windows
from s7.sequence_layer import LayerKind, SequenceLayer
from s7.signal import Signal
from s7.transitions import Stable, Transition


@dataclass(frozen=True)
class BlockConfig:
    """How the blocks of a model are built. `blocks` is the paper's J, of the transition's initial spectrum.

    With a `layer`, that one stands in the place of S7, and transition, form and blocks say nothing.
    """

    transition: Transition = Stable()
    form: Form = Full()
    blocks: int = 1
    norm: NormName = "layer"
    norm_place: Literal["before", "after"] = "before"
    dropout: float = 0.0
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
    """W u + c, on each event."""

    W: Float[Array, "N H"]
    c: Float[Array, " N"]

    def __init__(self, width: int, out: int, *, key: PRNGKeyArray, dtype: DTypeLike):
        self.W = draw({"W": ((out, width), 1 / math.sqrt(width))}, key=key, dtype=dtype)["W"]
        self.c = constant(0, out, dtype)

    def __call__(self, u: Float[Array, "L H"]) -> Float[Array, "L N"]:
        """W u_k + c."""
        return linear(self.W, u) + self.c


class BlockState(NamedTuple):
    """What a block carries from event to event: the layer's state, and the window under way if it pools."""

    x: Any
    pending: Pending | None


class Block(eqx.Module):
    """One block: width in, width (or `out`) out, one output for every `stride` events."""

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
        """The state before the first event. A bidirectional block has none: it must see the end first."""
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
        """The signal above this block, the state after it (if one was given), and the norm's new statistics.

        `flush` says that the signal ends here, so that an unfinished window comes out too. A `key` turns dropout
        on, `batch_axis` batch statistics: both are for training.
        """
        before = self.config.norm_place == "before"
        moments = None
        normalise: Callable[[Array], Array] = lambda u: u  # noqa: E731
        if before:
            normalise, moments = self.norm.prepare(signal.values, signal.mask, batch_axis)

        pending = None if state is None else state.pending
        if self.stride > 1:
            z, x, above, pending = self._pooled(signal, state, pending, normalise, flush)
        else:
            u = normalise(signal.values)
            if signal.rows is None:
                z, x = self._run(u, signal, state)
            else:
                z, x = self._layers(u, self._drives(signal, normalise, u), signal, state, 1)
            above = signal._replace(rows=None)

        if self.gate is not None:
            z = _gated(self.gate, z)
        z = _dropout(z, self.config.dropout, key)
        if self.config.skip:
            z = above.values + z
        if not before:
            normalise, moments = self.norm.prepare(z, above.mask, batch_axis)
            z = normalise(z)
        if self.project is not None:
            z = self.project(z)
        return above._replace(values=z), None if state is None else BlockState(x, pending), moments

    def _pooled(self, signal: Signal, state, pending, normalise, flush: bool):
        """The layer over every event, its output at the last event of each window."""
        cut = windows(signal, self.stride, self.pool, pending, flush)
        drives = self._drives(signal, normalise, normalise(signal.values))
        drives = jax.tree.map(partial(cut.place, filling=0), drives)
        everywhere = cut.places == signal.length and signal.mask is None and pending is None
        laid_out = Signal(
            cut.last,
            None if signal.dt is None else cut.place(signal.dt, 0),
            None if everywhere else cut.place(signal.valid(), False),
            None if signal.reset is None else cut.place(signal.reset, False),
        )
        z, x = self._layers(normalise(cut.last), drives, laid_out, state, self.stride)
        return z, x, Signal(cut.skip, cut.dt, cut.mask, cut.reset), cut.pending

    def _drives(self, signal: Signal, normalise, u) -> list[Any]:
        """What each event brings to each layer; if events are rows of a table, computed once per row."""
        layers = [self.layer] if self.backward is None else [self.layer, self.backward]
        if signal.rows is None:
            return [layer.drive(u) for layer in layers]
        table = normalise(signal.rows.table)
        token = signal.rows.token
        return [jax.tree.map(lambda q: q[token], layer.drive(table)) for layer in layers]

    def _run(self, u, signal: Signal, state: BlockState | None):
        """Both layers, each as a whole."""
        when = signal.dt, signal.mask, signal.reset
        z, final = self.layer.run(u, *when, None if state is None else state.x)
        if self.backward is not None:
            z = z + self.backward.run(u, *when, reverse=True)[0]
        return z, final

    def _layers(self, u, drives: list[Any], signal: Signal, state: BlockState | None, stride: int):
        """Both layers in parts, from what each event brings."""
        initial = None if state is None else state.x
        when = signal.dt, signal.mask, signal.reset
        x, final = self.layer.states(drives[0], *when, initial, stride=stride)
        z = self.layer.output(x, u)
        if self.backward is not None:
            x, _ = self.backward.states(drives[1], *when, stride=stride, reverse=True)
            z = z + self.backward.output(x, u)
        return z, final


@jax.checkpoint  # on long sequences the intermediates would take more memory than all the rest
def _gated(gate: Linear, z: Array) -> Array:
    return z * jax.nn.sigmoid(gate(jax.nn.gelu(z)))


def _dropout(z: Array, rate: float, key: PRNGKeyArray | None) -> Array:
    if key is None or rate == 0:
        return z
    return jnp.where(jax.random.bernoulli(key, 1 - rate, z.shape), z / (1 - rate), 0)
