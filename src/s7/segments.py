"""Long sequences in segments: the state is carried from one segment to the next, gradients stay within a segment.

Outputs are those of a call on the whole sequence. This is truncated backpropagation through time.
"""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float

from s7.block import BlockState
from s7.model import S7Model
from s7.norm import Moments


class Carried(NamedTuple):
    """What a segment leaves to the next one: the state of the layer of each block, and the memory of the head."""

    layers: tuple[Any, ...]
    memory: Any


def check(model: Any, length: int) -> None:
    """Raise ValueError if a model cannot read sequences in segments of this length."""
    if not isinstance(model, S7Model):
        raise ValueError(f"train.truncate needs an S7Model; {type(model).__name__} has no state to carry")
    if model.config.head.documents > 1:
        raise ValueError("train.truncate: the Retrieval head reads pairs, which cannot be cut into segments")
    if model.config.block.bidirectional:
        raise ValueError("train.truncate: a bidirectional model reads a sequence from its end; use a causal one")
    if length % model.stride:
        raise ValueError(f"train.truncate={length} is not a multiple of the model's stride, {model.stride}")


def start(model: S7Model) -> Carried:
    """The state before the first segment of a sequence."""
    layers = tuple(block.init_state().x for block in model.blocks)
    return Carried(layers, model.config.head.start(model.out_width, model.head["W"].dtype))


def run(
    model: S7Model, inputs: Any, dt: Any, length: Any, carried: Carried, *, key: Any, batch_axis: Any
) -> tuple[Float[Array, "..."], tuple[Moments | None, ...], Carried]:
    """Run the model on the next segment of a sequence, in training.

    Args:
        model: The model.
        inputs, dt, length, key, batch_axis: As in `S7Model.training`; the length may be 0.
        carried: The state before the segment. Segments start at multiples of the model's stride.

    Returns:
        The outputs of the segment, or the output for all events so far; the new running statistics of the norms; and
        the state after the segment.
    """
    head = model.config.head
    signal = model.encode(inputs, dt, length)
    keys = [None] * len(model.blocks) if key is None else jax.random.split(key, len(model.blocks))
    layers, moments = [], []
    for block, x, block_key in zip(model.blocks, carried.layers, keys, strict=True):
        signal, after, updated = block(signal, BlockState(x, None), key=block_key, batch_axis=batch_axis)
        assert after is not None
        layers.append(after.x)
        moments.append(updated)
    memory = head.absorb(carried.memory, signal)
    outputs = head.decode(model.head, signal.values) if head.per_step else head.read(model.head, memory)
    return outputs, tuple(moments), Carried(tuple(layers), memory)
