"""A model as the streaming engine reads it: whole numbers that say what it is, and all weights in one array.

The order is that of `native/stream_program.cc`, which checks every size. A part of a model that the engine does not
know is refused here, by name.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int64

from s7.block import Block
from s7.encoders import DenseEncoder, EventEncoder, ImageEncoder, LinearEncoder, TokenEncoder
from s7.forms import Factored, Full, Static
from s7.heads import Last, Mean, PerStep, TimeMean
from s7.layer import S7Layer
from s7.model import S7Model
from s7.norm import BatchNorm, LayerNorm, NoNorm, RMSNorm
from s7.transitions import Plain, Ring, Stable, Step

FORMAT = 1
_ENCODERS = {TokenEncoder: 0, EventEncoder: 1, LinearEncoder: 2, DenseEncoder: 3, ImageEncoder: 4}
_NORMS = {NoNorm: 0, LayerNorm: 1, RMSNorm: 2, BatchNorm: 3}
_POOLS = {"last": 0, "mean": 1, "time": 2}
_TRANSITIONS = {Stable: 0, Plain: 1, Step: 2, Ring: 3}
_GAINS = {None: 0, "rate": 1, "variance": 2}
_FORMS = {Static: 0, Full: 1, Factored: 2}
_DIRECT = {"static": 0, "diagonal": 1, "full": 2}
_HEADS = {Mean: 0, TimeMean: 1, Last: 2, PerStep: 2}


class _Writer:
    """Collects the two halves of a program."""

    def __init__(self) -> None:
        self.settings: list[int] = []
        self.weights: list[np.ndarray] = []

    def say(self, *settings: int) -> None:
        """Adds settings."""
        self.settings += map(int, settings)

    def put(self, *arrays: Any) -> None:
        """Adds weights."""
        self.weights += [np.asarray(array, np.float32).ravel() for array in arrays]


def program(model: S7Model) -> tuple[Int64[np.ndarray, " N"], Float[np.ndarray, " M"]]:
    """Flatten a model into settings and weights for the streaming engine.

    Args:
        model: A causal float32 model of S7 layers with a head other than `Retrieval`.

    Returns:
        The settings (int64) and the weights (float32).

    Raises:
        ValueError: The engine cannot run this model. The message says which part, and what can.
    """
    config = model.config
    if config.dtype != "float32":
        raise ValueError(f"s7.Stream computes in float32, the model is {config.dtype}; model.step streams it as it is")
    unit = getattr(config, "time_unit", None)
    out = _Writer()
    out.say(FORMAT, config.width, config.gaps == "ignored", config.dt is not None)
    out.put(1.0 if config.dt is None else config.dt, 1.0 if unit is None else unit)
    _encoder(out, model)
    out.say(len(model.blocks))
    for block in model.blocks:
        _block(out, block)
    _head(out, model)
    return np.array(out.settings, np.int64), np.concatenate(out.weights)


def _known(part: Any, kinds: Mapping[Any, int], what: str) -> int:
    """The number of a part's kind. A class derived from a known one can compute anything, so it is not known."""
    if type(part) not in kinds:
        names = ", ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"s7.Stream has no {what} {type(part).__name__} (it has {names}); model.step streams it")
    return kinds[type(part)]


def _encoder(out: _Writer, model: S7Model) -> None:
    encoder: Any = model.config.encoder
    weights = model.encoder
    out.say(_known(encoder, _ENCODERS, "encoder"))
    if isinstance(encoder, TokenEncoder):
        out.say(encoder.tokens)
        out.put(weights["token"])
    elif isinstance(encoder, EventEncoder):
        names = [name for name in ("token", "x", "y", "polarity") if getattr(encoder, name)]
        out.say(*encoder.sensor, encoder.token, encoder.x, encoder.y, encoder.polarity)
        out.put(*(weights[name] for name in names))
    elif isinstance(encoder, LinearEncoder):
        out.say(encoder.inputs)
        out.put(*(np.broadcast_to(units, encoder.inputs) for units in (encoder.mean, encoder.scale)))
        out.put(weights["W"], weights["c"])
    elif isinstance(encoder, DenseEncoder):
        out.say(math.prod(encoder.shape), encoder.hidden)
        out.put(encoder.scale, *(weights[name] for name in ("W1", "c1", "W", "c")))
    else:
        out.say(*encoder.shape, encoder.channels)
        out.put(encoder.scale, *(weights[name] for name in ("conv1", "c1", "conv2", "c2", "W", "c")))


def _block(out: _Writer, block: Block) -> None:
    layer = block.layer
    if block.backward is not None:
        raise ValueError("s7.Stream cannot run a bidirectional model: it reads the sequence from its end too")
    if type(layer) is not S7Layer:
        name = type(layer if block.config.layer is None else block.config.layer).__name__
        raise ValueError(f"s7.Stream runs S7 layers, not {name}; model.step streams this model")
    transition: Any = layer.transition
    kind = _known(transition, _TRANSITIONS, "transition")
    gain = "variance" if isinstance(transition, Ring) else getattr(transition, "gain", None)
    width = layer.width if block.project is None else block.project.W.shape[0]
    out.say(width, layer.state, block.stride, _POOLS[block.pool], _known(block.norm, _NORMS, "norm"))
    out.say(block.config.norm_place == "after", block.gate is not None, block.config.skip, kind)
    reading = getattr(transition, "held", False) + 2 * transition.counting
    out.say(transition.selective, transition.complex_state, reading, _GAINS[gain])

    norm: Any = block.norm
    if isinstance(norm, LayerNorm | BatchNorm):
        out.put(norm.scale, norm.shift)
    elif isinstance(norm, RMSNorm):
        out.put(norm.scale)
    if isinstance(norm, BatchNorm):
        out.put(norm.running.mean, norm.running.variance)
    out.put(getattr(transition, "a", 1.0), getattr(transition, "b", 1.0))
    out.put(*(layer.rates[name] for name in ("w", "W_w", "omega", "decay") if name in layer.rates))
    _form(out, layer)
    for linear in (block.gate, block.project):
        if linear is not None:
            out.put(linear.W, linear.c)


def _form(out: _Writer, layer: S7Layer) -> None:
    form: Any = layer.form
    selective = getattr(form, "selective", "")
    out.say(_known(form, _FORMS, "form"), getattr(form, "rank", 0), "B" in selective, "C" in selective)
    out.say(form.bias, _DIRECT[form.D])
    maps: dict[str, Array] = layer.maps
    order = ("B", "b", "W_B", "V1", "V2", "V3", "C", "W_C", "U1", "U2", "U3", "D", "W_D")
    out.put(*(maps[name] for name in order if name in maps))


def _head(out: _Writer, model: S7Model) -> None:
    head = model.config.head
    if head.documents > 1:
        raise ValueError("s7.Stream reads one sequence, the Retrieval head compares two; model.step streams it")
    out.say(_known(head, _HEADS, "head"), head.outputs)
    units = (np.broadcast_to(units, head.outputs) for units in (head.scale, head.mean))
    out.put(model.head["W"], model.head["c"], *units)
