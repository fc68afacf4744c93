"""The model: an encoder, stages of blocks, a head; over a whole sequence or event by event.

Both are one computation. A call runs the blocks over the sequence and flushes the windows left unfinished at its end;
a stream runs them over chunks, carries the unfinished windows on, and flushes a copy of them whenever it is asked for
its answer. So after any events, in whatever chunks, the stream's answer is the call's on those events.
"""

import math
from collections.abc import Iterable
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Bool, Float, Integer, PRNGKeyArray, Shaped

from s7 import checks
from s7.block import Block, BlockState
from s7.config import ModelConfig, config_from
from s7.heads import Steps
from s7.initialization import Parameters, split
from s7.norm import Moments
from s7.signal import Rows, Signal

# Selective quantities are computed once per token, not per event, while the vocabulary is at most this many times
# as long as the sequence: a batch shares the table, so it pays well before the sequence is as long.
TABLE_PER_EVENT = 4


class ModelState(NamedTuple):
    """What a stream carries from event to event."""

    blocks: tuple[BlockState, ...]
    memory: Any
    timed: Bool[Array, "*documents"]


class S7Model(eqx.Module):
    """A model built from `ModelConfig`, or from its fields as keywords; `depth=n` is short for one stage of n blocks.

    It acts on one sequence (on a pair, with the `Retrieval` head); `jax.vmap` batches.
    """

    encoder: Parameters
    blocks: tuple[Block, ...]
    head: Parameters
    config: ModelConfig = eqx.field(static=True)

    @property
    def groups(self) -> dict[str, str]:
        """The optimizer groups that the encoder and the head declare for their parameters."""
        encoder = {f"encoder.{name}": group for name, group in self.config.encoder.groups.items()}
        return encoder | {f"head.{name}": group for name, group in self.config.head.groups.items()}

    def __init__(self, config: ModelConfig | None = None, *, key: PRNGKeyArray, **settings: Any):
        if config is None:
            config = config_from(settings)
        elif settings:
            raise ValueError(f"S7Model takes a config or settings, not both: {', '.join(settings)}")
        dtype = jnp.dtype(config.dtype)
        if jnp.zeros((), dtype).dtype != dtype:
            raise ValueError('dtype="float64" needs jax.config.update("jax_enable_x64", True) first')
        encoder_key, head_key, *keys = split(key, 2 + sum(stage.depth for stage in config.stages))
        blocks: list[Block] = []
        width = config.width
        for stage in config.stages:
            for place in range(stage.depth):
                first = place == 0
                out = (stage.width or width) if first else width
                stride = stage.stride if first else 1
                block_key = keys[len(blocks)]
                blocks.append(
                    Block(
                        width,
                        config.state,
                        config,
                        out=out,
                        stride=stride,
                        pool=stage.pool,
                        key=block_key,
                        dtype=dtype,
                    )
                )
                width = out
        self.encoder = config.encoder.init(config.width, key=encoder_key, dtype=dtype)
        self.blocks = tuple(blocks)
        self.head = config.head.init(width, key=head_key, dtype=dtype)
        self.config = config

    @property
    def stride(self) -> int:
        """Events per step of the last block."""
        return math.prod(block.stride for block in self.blocks)

    @property
    def out_width(self) -> int:
        """The width that the head reads."""
        return self.head["W"].shape[1]

    @property
    def parameter_count(self) -> int:
        """How many numbers training adjusts."""
        moments = sum(q.size for q in jax.tree.leaves(self.moments))
        return sum(q.size for q in jax.tree.leaves(eqx.filter(self, eqx.is_inexact_array))) - moments

    def with_time_unit(self, unit: float | None) -> "S7Model":
        """The model with another unit of time, the same parameters and so other time constants in seconds."""
        return self._with_config(replace(self.config, time_unit=unit))

    def with_classes(self, labels: Iterable[str | bool | int]) -> "S7Model":
        """Returns the model as a classifier with these labels, one for each output; they are stored in its file."""
        return self._with_config(replace(self.config, classes=tuple(labels)))

    def _with_config(self, config: ModelConfig) -> "S7Model":
        changed = object.__new__(type(self))
        for field in fields(self):
            object.__setattr__(changed, field.name, config if field.name == "config" else getattr(self, field.name))
        return changed

    # Over a whole sequence.

    def __call__(
        self,
        inputs: Shaped[ArrayLike, "..."],
        dt: Float[ArrayLike, "..."] | None = None,
        length: Integer[ArrayLike, "..."] | int | None = None,
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "..."]:
        """The output, (outputs,) or with the `PerStep` head (ceil(L / stride), outputs).

        dt_k is the gap before event k; None is regular time. Only the first `length` events count, whatever stands
        behind them. A `key` turns dropout on. The `Retrieval` head reads inputs, dt and length of two documents.
        """
        return self.training(inputs, dt, length, key=key, batch_axis=None)[0]

    def training(
        self,
        inputs: Shaped[ArrayLike, "..."],
        dt: Float[ArrayLike, "..."] | None = None,
        length: Integer[ArrayLike, "..."] | int | None = None,
        *,
        key: PRNGKeyArray | None,
        batch_axis: str | None,
    ) -> tuple[Float[Array, "..."], tuple[Moments | None, ...]]:
        """As a call, with batch statistics taken across `batch_axis`; also the norms' new running statistics.

        `batch_axis` is the axis name given to jax.vmap. Put the statistics back with `with_moments`.
        """
        head = self.config.head

        def run(inputs, dt, length, key, axis=batch_axis):
            signal, moments = self._trunk(self.encode(inputs, dt, length), key, axis)
            return (signal if head.per_step else head.absorb(self._memory(), signal)), moments

        if head.documents == 1:
            seen, moments = run(inputs, dt, length, key)
            if head.per_step:
                return head.decode(self.head, seen.values), moments
            return head.read(self.head, seen), moments

        axis: Any = None if batch_axis is None else (batch_axis, "document")
        keys = None if key is None else jax.random.split(key, head.documents)
        each: Any = jax.vmap(partial(run, axis=axis), axis_name="document")
        seen, moments = each(*self._documents(inputs, dt, length), keys)
        return head.read(self.head, seen), jax.tree.map(lambda q: q[0], moments)

    def packed(
        self,
        inputs: Shaped[ArrayLike, "L ..."],
        segments: Integer[ArrayLike, " L"],
        sequences: int,
        dt: Float[ArrayLike, " L"] | None = None,
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "N O"]:
        """The outputs of several sequences laid end to end, as if each were alone.

        `segments` numbers the sequence that each event belongs to, from 0, and is -1 on padding. In a model that
        pools, each sequence starts at a multiple of `stride` (`s7.pack` does that). With the `PerStep` head
        the outputs are those of all steps, in place.
        """
        head = self.config.head
        if head.documents > 1:
            raise ValueError("packed: the Retrieval head reads pairs, which cannot be packed")
        numbers: Array = jnp.asarray(segments)
        why = f"is not a segment: segments are -1 (padding) or 0 to {sequences - 1}"
        numbers = checks.require(numbers, lambda n: (n < -1) | (n >= sequences), "segments", why)
        self._check_starts(numbers)
        reset = (numbers >= 0) & (numbers != jnp.concatenate([jnp.full(1, -1, numbers.dtype), numbers[:-1]]))
        signal = self.encode(inputs, dt, None, mask=numbers >= 0)._replace(reset=reset)
        signal, _ = self._trunk(signal, key, None)
        if head.per_step:
            return head.decode(self.head, signal.values)
        numbers = numbers[:: self.stride]

        def answer(n):
            one = signal._replace(mask=signal.valid() & (numbers == n))
            return head.read(self.head, head.absorb(self._memory(), one))

        return jax.vmap(answer)(jnp.arange(sequences))

    # Event by event.

    def init_state(self) -> ModelState:
        """The state before the first event."""
        state = ModelState(tuple(block.init_state() for block in self.blocks), self._memory(), jnp.zeros((), bool))
        if self.config.head.documents == 1:
            return state
        return jax.tree.map(lambda q: jnp.stack([q] * self.config.head.documents), state)

    def step(
        self, event: Shaped[ArrayLike, "..."], state: ModelState, dt: ArrayLike | None = None
    ) -> tuple[Float[Array, " O"], ModelState]:
        """One event (one for each of two documents): the answer after it and the state."""
        head = self.config.head
        axis = 0 if head.documents == 1 else 1
        inputs = jnp.expand_dims(jnp.asarray(event), axis)
        gap = None if dt is None else jnp.expand_dims(jnp.asarray(dt, self._dtype), axis)

        def run(inputs, dt, length, state: ModelState):
            signal = self.encode(inputs, dt, length)._replace(rows=None)
            # Whether the event reaches a block for good, or only as the window that the block below has begun.
            complete: Any = True
            states: list[Any] = []
            for block, before in zip(self.blocks, state.blocks, strict=True):
                signal, after, complete = block.step(signal, before, complete)
                states.append(after)
            seen = head.absorb(state.memory, signal)
            memory = seen
            if complete is not True:
                memory = jax.tree.map(lambda new, old: jnp.where(complete, new, old), seen, state.memory)
            return seen, ModelState(tuple(states), memory, jnp.full_like(state.timed, signal.dt is not None))

        arguments = inputs, gap, None
        if head.documents > 1:
            seen, state = jax.vmap(run)(*self._documents(*arguments), state)
        else:
            seen, state = run(*arguments, state)
        return head.read(self.head, seen), state

    def chunk(
        self,
        inputs: Shaped[ArrayLike, "..."],
        state: ModelState,
        dt: Float[ArrayLike, "..."] | None = None,
        length: Integer[ArrayLike, "..."] | int | None = None,
    ) -> tuple[Float[Array, " O"] | Steps, ModelState]:
        """Many events at once: the answer after them and the state.

        With the `PerStep` head, the outputs of all windows that were completed, as `Steps`; `readout` gives the one
        under way.
        """
        if np.shape(inputs)[self.config.head.documents - 1] == 0:
            if not self.config.head.per_step:
                return self.readout(state), state
            signal = Signal(jnp.zeros((0, self.out_width), self._dtype))
        else:
            signal, state = self.advance(inputs, state, dt, length)
        if self.config.head.per_step:
            return Steps(self.config.head.decode(self.head, signal.values), signal.valid()), state
        return self._answer(state, signal), state

    def advance(
        self,
        inputs: Shaped[ArrayLike, "..."],
        state: ModelState,
        dt: Float[ArrayLike, "..."] | None = None,
        length: Integer[ArrayLike, "..."] | int | None = None,
    ) -> tuple[Signal, ModelState]:
        """The last block's signal and the state after some events, without an answer: cheaper than `chunk`."""

        def run(inputs, dt, length, state: ModelState):
            signal = self.encode(inputs, dt, length)
            states: list[Any] = []
            for block, before in zip(self.blocks, state.blocks, strict=True):
                signal, after, _ = block(signal, before, flush=False)
                states.append(after)
            memory = self.config.head.absorb(state.memory, signal)
            return signal, ModelState(tuple(states), memory, jnp.full_like(state.timed, signal.dt is not None))

        if self.config.head.documents == 1:
            return run(inputs, dt, length, state)
        return jax.vmap(run)(*self._documents(inputs, dt, length), state)

    def readout(self, state: ModelState) -> Float[Array, " O"]:
        """The answer so far: what a call on all events up to now gives (its last row, with `PerStep`)."""
        if self.stride == 1:
            return self.config.head.read(self.head, state.memory)
        # Only the state knows whether the stream has gaps; a scan must be able to carry it, so it is an array.
        timed = state.timed if self.config.head.documents == 1 else state.timed[0]
        return lax.cond(timed, partial(self._read_flushed, timed=True), partial(self._read_flushed, timed=False), state)

    def _answer(self, state: ModelState, signal: Signal) -> Float[Array, " O"]:
        """As `readout`, where it is known whether the stream has gaps."""
        return self._read_flushed(state, timed=signal.dt is not None)

    def _read_flushed(self, state: ModelState, *, timed: bool) -> Float[Array, " O"]:
        flush = partial(self._flushed, timed=timed)
        head = self.config.head
        return head.read(self.head, flush(state) if head.documents == 1 else jax.vmap(flush)(state))

    def _flushed(self, state: ModelState, *, timed: bool) -> Any:
        """The head's memory if the stream ended here: with what the windows under way hold so far."""
        signal = None
        for block, before in zip(self.blocks, state.blocks, strict=True):
            if signal is None and before.pending is not None:
                nothing = jnp.zeros((1, block.layer.width), self._dtype)
                signal = Signal(nothing, jnp.zeros(1, self._dtype) if timed else None, jnp.zeros(1, bool))
            if signal is not None:
                signal, _, _ = block(signal, before, flush=True)
        return state.memory if signal is None else self.config.head.absorb(state.memory, signal)

    # Running statistics of batch norms.

    @property
    def moments(self) -> tuple[Moments | None, ...]:
        """The running statistics of each block's norm."""
        return tuple(block.norm.moments for block in self.blocks)

    def with_moments(self, moments: tuple[Moments | None, ...]) -> "S7Model":
        """The model with these running statistics."""
        return eqx.tree_at(_running, self, [m for m in moments if m is not None], is_leaf=lambda q: q is None)

    # Inside.

    @property
    def _dtype(self):
        return self.head["W"].dtype

    def _memory(self) -> Any:
        return self.config.head.start(self.out_width, self._dtype)

    def _documents(self, inputs, dt, length) -> tuple[Any, Any, Any]:
        """The arguments with the documents in front, to be mapped over."""
        if np.shape(inputs)[0] != self.config.head.documents:
            raise ValueError(f"the Retrieval head reads 2 documents, inputs have shape {np.shape(inputs)}")
        return jnp.asarray(inputs), dt, None if length is None else jnp.asarray(length)

    def encode(self, inputs, dt, length, mask=None) -> Signal:
        """What the first block reads."""
        encoder = self.config.encoder
        events = np.shape(inputs)[0]
        if events == 0:
            raise ValueError("the sequence has no events")
        if length is not None:
            mask = jnp.arange(events) < checks.length(jnp.asarray(length), events)
        inputs = encoder.validate(inputs, self._dtype, mask)
        dt = self._gaps(dt, events, mask)
        values = encoder(self.encoder, inputs)
        rows = None
        size = getattr(encoder, "size", None)
        if size is not None and size <= TABLE_PER_EVENT * events:
            rows = Rows(encoder.table(self.encoder), inputs)  # type: ignore[arg-type]
        return Signal(values, dt, mask, rows=rows)

    def _gaps(self, dt, events: int, mask):
        if dt is None or self.config.gaps == "ignored":
            if self.config.dt is None:
                return None
            dt = jnp.full(events, self.config.dt)
        dt = jnp.asarray(dt, self._dtype)
        if dt.shape != (events,):
            raise ValueError(f"dt has shape {dt.shape}, expected ({events},) as the inputs have")
        dt = checks.gaps(dt, mask)
        if self.config.time_unit is not None:
            dt = dt / self.config.time_unit
        return dt if mask is None else jnp.where(mask, dt, 0)

    def _trunk(self, signal: Signal, key, batch_axis) -> tuple[Signal, tuple[Moments | None, ...]]:
        keys = [None] * len(self.blocks) if key is None else jax.random.split(key, len(self.blocks))
        moments = []
        for block, block_key in zip(self.blocks, keys, strict=True):
            signal, _, updated = block(signal, key=block_key, batch_axis=batch_axis)
            moments.append(updated)
        return signal, tuple(moments)

    def _check_starts(self, segments: Array) -> None:
        if isinstance(segments, Tracer):
            return
        numbers = np.asarray(segments)
        starts = np.flatnonzero((numbers >= 0) & (numbers != np.concatenate([[-1], numbers[:-1]])))
        crooked = starts[starts % self.stride != 0]
        if crooked.size:
            at = crooked[0]
            raise ValueError(
                f"packed: sequence {numbers[at]} starts at {at}, which is not a multiple of the stride {self.stride}"
            )


def _running(model: S7Model) -> list[Moments]:
    return [block.norm.running for block in model.blocks if block.norm.moments is not None]  # type: ignore[attr-defined]
