"""Multiply-adds of layers, blocks and models: the operations behind every rate that `s7 bench` prints.

Each weight of a matrix takes part in one multiply-add wherever that matrix is applied, so a part of a model costs as
many multiply-adds per event as its matrices have weights. W_B, W_C and a full W_D count as the paper writes them, with
P·H² or H³ weights, whatever an implementation really computes. Norms, activations, the recurrence and other elementwise
operations are not counted.

    forward + backward = 3 · forward           (the backward pass has one product per input and one per weight)

The benchmark of the layer alone counts the two or three largest products only, as `paper_layer` says.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax

from s7.block import Block
from s7.encoders import ImageEncoder
from s7.layer import S7Layer
from s7.model import S7Model
from s7.model_inputs import TABLE_PER_EVENT
from s7.sequence_layer import SequenceLayer

# Operations per multiply-add, and multiply-adds of forward and backward relative to forward.
OPERATIONS, TRAINING = 2, 3
# The parameters that act on single events, before the state. Those of the transition do as well.
_BEFORE_THE_STATE = ("B", "W_B", "V1", "V2", "V3")


class Products(NamedTuple):
    """Multiply-adds of a layer: per event, and per output, which is once per window in a block that pools."""

    event: int
    output: int


def weights(parameters: Any) -> int:
    """Return the number of weights in the matrices of a tree of parameters. Vectors, such as biases, do not count."""
    return sum(q.size for q in jax.tree.leaves(eqx.filter(parameters, eqx.is_inexact_array)) if q.ndim > 1)


def of_layer(layer: SequenceLayer) -> Products:
    """Return the multiply-adds of one direction. A layer other than S7's is counted as if it had no windows."""
    if not isinstance(layer, S7Layer):
        return Products(weights(layer), 0)
    event = {name: map for name, map in layer.maps.items() if name in _BEFORE_THE_STATE}
    return Products(weights(layer.rates) + weights(event), weights(layer.maps) - weights(event))


def paper_layer(width: int, state: int, D: str) -> int:
    """Return the multiply-adds of B_k u_k and C_k x_k per event, and of D_k u_k if D is full, as the paper has it."""
    return 2 * state * width**2 + (width**3 if D == "full" else 0)


def of_block(block: Block, events: int, outputs: int, rows: int | None = None) -> int:
    """Return the multiply-adds of a block, forward.

    Args:
        block: The block.
        events: The number of events.
        outputs: The number of windows; the number of events in a block that does not pool.
        rows: The number of rows of the table that the events are taken from, if there is one. What acts on single
            events is then computed once per row.
    """
    layers = [of_layer(layer) for layer in (block.layer, block.backward) if layer is not None]
    once = sum(layer.event for layer in layers)
    after = sum(layer.output for layer in layers) + weights(block.gate) + weights(block.project)
    return once * (events if rows is None else min(rows, events)) + after * outputs


def of_encoder(model: S7Model) -> int:
    """Return the multiply-adds of the encoder per event. Looking up the vector of a token takes none."""
    encoder, parameters = model.config.encoder, model.encoder
    if hasattr(encoder, "size"):
        return 0
    if not isinstance(encoder, ImageEncoder):
        return weights(parameters)
    height, breadth = encoder.shape[:2]
    first, second = (parameters[name].size for name in ("conv1", "conv2"))
    # The second convolution has stride 2 and follows a pool of 2×2.
    return first * height * breadth + second * -(-height // 4) * -(-breadth // 4) + parameters["W"].size


def of_model(model: S7Model, batch: int, length: int, *, training: bool) -> int:
    """Return the multiply-adds of a batch, forward or in a training step without the optimizer."""
    head = model.config.head
    sequences = batch * head.documents
    size = getattr(model.config.encoder, "size", None)
    rows = size if size is not None and size <= TABLE_PER_EVENT * length else None
    blocks, events = 0, length
    for block in model.blocks:
        outputs = -(-events // block.stride)
        blocks += of_block(block, sequences * events, sequences * outputs, rows)
        events, rows = outputs, None
    blocks += weights(model.head) * (sequences * events if head.per_step else batch)
    encoder = of_encoder(model) * sequences * length
    # Nothing is differentiated with respect to the inputs of the encoder.
    return TRAINING * blocks + (TRAINING - 1) * encoder if training else blocks + encoder


def rate(multiply_adds: float, seconds: float) -> float:
    """Return GFLOP/s."""
    return OPERATIONS * multiply_adds / seconds / 1e9
