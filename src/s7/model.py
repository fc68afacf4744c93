"""The model: an encoder, stages of blocks and a head, on a whole sequence or event by event.

Both are the same computation. A call runs the blocks over the sequence and flushes the unfinished windows at its end. A
stream runs them over chunks, carries the unfinished windows in its state, and flushes a copy of them for each output.
The output of a stream is therefore the output of a call on all events so far, however they are divided into chunks.
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
from jaxtyping import Array, ArrayLike, Bool, Float, Integer, PRNGKeyArray, Shaped

from s7 import checks
from s7.block import Block, BlockState
from s7.config import ModelConfig, build_config
from s7.heads import Steps
from s7.initialization import Parameters, split
from s7.model_inputs import check_segments, encode, segment_starts
from s7.norm import Moments
from s7.signal import Signal
from s7.stages import init_blocks


class ModelState(NamedTuple):
    """The state of a stream: of each block, of the head, and whether the events have gaps."""

    blocks: tuple[BlockState, ...]
    memory: Any
    timed: Bool[Array, "*documents"]


class S7Model(eqx.Module):
    """A sequence model: an encoder, stages of blocks and a head.

    A model acts on one sequence, or on a pair of sequences with the `Retrieval` head. Use `jax.vmap` for batches.

    Args:
        config: The configuration; or pass the fields of `ModelConfig` as keywords. `depth=n` stands for one stage of n
            blocks.
        key: A JAX random key for the initial parameters.

    Examples:
        >>> import jax, numpy as np, s7
        >>> model = s7.S7Model(
        ...     encoder=s7.LinearEncoder(3), head=s7.Mean(outputs=2), width=8, state=4, depth=1, key=jax.random.key(0)
        ... )
        >>> model(np.zeros((20, 3)), np.ones(20)).shape
        (2,)
        >>> state = model.init_state()
        >>> output, state = model.step(np.zeros(3), state, 1.0)
        >>> output.shape
        (2,)
    """

    encoder: Parameters
    blocks: tuple[Block, ...]
    head: Parameters
    config: ModelConfig = eqx.field(static=True)

    @property
    def groups(self) -> dict[str, str]:
        """The optimizer groups of the parameters of encoder and head."""
        parts = {"encoder": self.config.encoder.groups, "head": self.config.head.groups}
        return {f"{part}.{name}": group for part, groups in parts.items() for name, group in groups.items()}

    def __init__(self, config: ModelConfig | None = None, *, key: PRNGKeyArray, **settings: Any):
        if config is None:
            for name in ("encoder", "head"):
                if name not in settings:
                    raise ValueError(f"S7Model needs {name}=, for instance s7.LinearEncoder(6) and s7.Mean(outputs=5)")
            config = build_config(settings, "S7Model")
        elif settings:
            raise ValueError(f"S7Model takes a config or settings, not both: {', '.join(settings)}")
        dtype = jnp.dtype(config.dtype)
        if jnp.zeros((), dtype).dtype != dtype:
            raise ValueError('dtype="float64" needs jax.config.update("jax_enable_x64", True) first')
        encoder_key, head_key, *keys = split(key, 2 + config.depth)
        self.encoder = config.encoder.init(config.width, key=encoder_key, dtype=dtype)
        self.blocks = init_blocks(config, keys, dtype)
        self.head = config.head.init(config.out_width, key=head_key, dtype=dtype)
        self.config = config

    @property
    def stride(self) -> int:
        """The number of events per step of the last block."""
        return math.prod(block.stride for block in self.blocks)

    @property
    def out_width(self) -> int:
        """The number of features that the head reads."""
        return self.config.out_width

    @property
    def parameter_count(self) -> int:
        """The number of trainable parameters."""
        moments = sum(q.size for q in jax.tree.leaves(self.moments))
        return sum(q.size for q in jax.tree.leaves(eqx.filter(self, eqx.is_inexact_array))) - moments

    def with_time_unit(self, unit: float | None) -> "S7Model":
        """The model with another unit of time and the same parameters: time constants scale with the unit.

        Args:
            unit: The divisor of all gaps; None to use gaps as given.
        """
        return self._with_config(replace(self.config, time_unit=unit))

    def with_classes(self, labels: Iterable[str | bool | int]) -> "S7Model":
        """The model as a classifier with these labels, one per output. They are saved in the model file."""
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
        """Run the model on a sequence.

        Args:
            inputs: The events, (L, *event_shape of the encoder); (2, L, ...) with the `Retrieval` head.
            dt: The gap before each event, (L,), or None for regular time; (2, L) with the `Retrieval` head.
            length: The number of events; later positions are padding. None for L; (2,) with the `Retrieval` head.
            key: A JAX random key that turns dropout on.

        Returns:
            The outputs, (outputs,), or (ceil(L / stride), outputs) with the `PerStep` head.

        Raises:
            ValueError: If a shape is wrong, an input or a gap is invalid or the sequence is empty. Inside `jax.jit`,
                values are checked only within `s7.checked()`.
        """
        return self.training(inputs, dt, length, key=key, batch_axis=None)[0]

    def training(
        self,
        inputs: Shaped[ArrayLike, "..."],
        dt: Float[ArrayLike, "..."] | None = None,
        length: Integer[ArrayLike, "..."] | int | None = None,
        *,
        key: PRNGKeyArray | None,
        batch_axis: str | tuple[str, ...] | None,
    ) -> tuple[Float[Array, "..."], tuple[Moments | None, ...]]:
        """Run the model in training mode.

        Args:
            inputs: As in a call.
            dt: As in a call.
            length: As in a call.
            key: As in a call.
            batch_axis: The axes over which batch norms compute their statistics, such as that of jax.vmap.

        Returns:
            The outputs, and the new running statistics of the norms for `with_moments`.
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

        axis: Any = None if batch_axis is None else (*np.atleast_1d(batch_axis).tolist(), "document")
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
        """Run the model on several sequences that are packed into one, as if each were alone.

        Args:
            inputs: The events of all sequences, (L, *event_shape of the encoder), as `s7.pack` returns them.
            segments: The number of the sequence of each event, from 0; -1 on padding, (L,). In a model that pools, each
                sequence must start at a multiple of `stride`.
            sequences: The number of sequences N.
            dt: The gap before each event, (L,), or None for regular time.
            key: A JAX random key that turns dropout on.

        Returns:
            The output of each sequence, (N, outputs); with the `PerStep` head the outputs of all steps,
            (ceil(L / stride), outputs).
        """
        head = self.config.head
        if head.documents > 1:
            raise ValueError("packed: the Retrieval head reads pairs, which cannot be packed")
        numbers = check_segments(segments, sequences, self.stride)
        signal = self.encode(inputs, dt, None, mask=numbers >= 0)._replace(reset=segment_starts(numbers))
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
        """Run the model on one event.

        Args:
            event: The event, in the encoder's `event_shape`; one for each document with the `Retrieval` head.
            state: The state before the event.
            dt: The gap before the event, or None for regular time.

        Returns:
            The output for all events so far, (outputs,), and the state after the event.
        """
        head = self.config.head
        axis = 0 if head.documents == 1 else 1
        inputs = jnp.expand_dims(jnp.asarray(event), axis)
        gap = None if dt is None else jnp.expand_dims(checks.gap_array(dt, self._dtype), axis)

        def run(inputs, dt, length, state: ModelState):
            signal = self.encode(inputs, dt, length)._replace(rows=None)
            # Whether the block's input is final, or that of an unfinished window of the block below.
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
        """Run the model on the next events of a stream.

        Args:
            inputs: The events, as in a call.
            state: The state before them.
            dt: The gap before each event, as in a call.
            length: The number of events, as in a call.

        Returns:
            The output for all events so far, (outputs,), and the state after the events. With the `PerStep` head, the
            outputs are those of all windows completed in this chunk, as `Steps`; `readout` gives that of the unfinished
            window.
        """
        if np.shape(inputs)[self.config.head.documents - 1] == 0:
            if not self.config.head.per_step:
                return self.readout(state), state
            signal = Signal(jnp.zeros((0, self.out_width), self._dtype))
        else:
            signal, state = self.advance(inputs, state, dt, length)
        if self.config.head.per_step:
            return Steps(self.config.head.decode(self.head, signal.values), signal.valid()), state
        return self._read_flushed(state, timed=signal.dt is not None), state

    def advance(
        self,
        inputs: Shaped[ArrayLike, "..."],
        state: ModelState,
        dt: Float[ArrayLike, "..."] | None = None,
        length: Integer[ArrayLike, "..."] | int | None = None,
    ) -> tuple[Signal, ModelState]:
        """As `chunk`, but return the signal of the last block instead of an output, which is cheaper."""

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
        """The output of a call on all events so far, (outputs,); with the `PerStep` head, its last row."""
        if self.stride == 1:
            return self.config.head.read(self.head, state.memory)
        # Whether the stream has gaps is an array of the state, so that a scan can carry it.
        timed = state.timed if self.config.head.documents == 1 else state.timed[0]
        return lax.cond(timed, partial(self._read_flushed, timed=True), partial(self._read_flushed, timed=False), state)

    def _read_flushed(self, state: ModelState, *, timed: bool) -> Float[Array, " O"]:
        """As `readout`, if it is known whether the stream has gaps."""
        flush = partial(self._flushed, timed=timed)
        head = self.config.head
        return head.read(self.head, flush(state) if head.documents == 1 else jax.vmap(flush)(state))

    def _flushed(self, state: ModelState, *, timed: bool) -> Any:
        """The head's memory if the stream ended here, including the unfinished windows."""
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
        """The running statistics of the norm of each block; None for norms without them."""
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
        """The arguments with documents as the first axis, to be mapped over."""
        if np.shape(inputs)[0] != self.config.head.documents:
            raise ValueError(f"the Retrieval head reads 2 documents, inputs have shape {np.shape(inputs)}")
        return jnp.asarray(inputs), dt, None if length is None else jnp.asarray(length)

    def encode(self, inputs, dt, length, mask=None) -> Signal:
        """Check and encode a sequence: the input signal of the first block. Arguments are those of a call."""
        return encode(self.config, self.encoder, self._dtype, inputs, dt, length, mask)

    def _trunk(self, signal: Signal, key, batch_axis) -> tuple[Signal, tuple[Moments | None, ...]]:
        keys = [None] * len(self.blocks) if key is None else jax.random.split(key, len(self.blocks))
        moments = []
        for block, block_key in zip(self.blocks, keys, strict=True):
            signal, _, updated = block(signal, key=block_key, batch_axis=batch_axis)
            moments.append(updated)
        return signal, tuple(moments)


def _running(model: S7Model) -> list[Moments]:
    return [block.norm.running for block in model.blocks if block.norm.moments is not None]  # type: ignore[attr-defined]
