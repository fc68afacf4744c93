"""Heads: map the signal of the last block to the model's output.

A head has a state, its memory, that is updated by each part of a signal and can be read at any time. The output of a
call and the output of a stream are therefore the same computation. A head is a frozen dataclass of settings. Its
parameters are arguments of its methods.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, DTypeLike, Float, PRNGKeyArray

from s7.contractions import linear
from s7.initialization import Parameters, constant, draw, split
from s7.pooling import Average
from s7.registry import Registered
from s7.sequence_parts import sequence_axis
from s7.signal import Signal
from s7.standardization import check_units


class Steps(NamedTuple):
    """The outputs of a chunk of a stream, and which of them are valid."""

    values: Float[Array, "M O"]
    mask: Bool[Array, " M"]


@dataclass(frozen=True)
class Head(Registered, ABC):
    """The base class of heads. The output is scale · (W z + c) + mean, where z is the head's feature of the sequence.

    Args:
        outputs: The number of outputs.
        mean: The mean of the targets, one number for all outputs or one for each.
        scale: The standard deviation of the targets, one number for all outputs or one for each.
    """

    documents: ClassVar[int] = 1
    per_step: ClassVar[bool] = False
    outputs: int
    mean: float | tuple[float, ...] = 0.0
    scale: float | tuple[float, ...] = 1.0

    def __post_init__(self):
        if self.outputs < 1:
            raise ValueError(f"{type(self).__name__}: outputs={self.outputs} must be at least 1")
        check_units(self, self.outputs)

    @abstractmethod
    def start(self, width: int, dtype: DTypeLike) -> Any:
        """The memory before the first event, for a signal of `width` features."""

    @abstractmethod
    def absorb(self, memory: Any, signal: Signal) -> Any:
        """The memory after the events of a signal."""

    @abstractmethod
    def feature(self, memory: Any) -> Float[Array, " H"]:
        """The vector z from which the output is computed, (H,)."""

    def init(self, width: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """Initial parameters: a linear map from `width` features to the outputs."""
        W = draw({"W": ((self.outputs, width), 1 / math.sqrt(width))}, key=key, dtype=dtype)
        return W | {"c": constant(0, self.outputs, dtype)}

    def decode(self, parameters: Parameters, features: Float[Array, "M H"]) -> Float[Array, "M O"]:
        """scale · (W z + c) + mean for each row z of `features`."""
        z = linear(parameters["W"], features) + parameters["c"]
        return z * jnp.asarray(self.scale, z.dtype) + jnp.asarray(self.mean, z.dtype)

    def read(self, parameters: Parameters, memory: Any) -> Float[Array, " O"]:
        """The output for all events so far, (outputs,)."""
        return self.decode(parameters, self.feature(memory)[None])[0]


@dataclass(frozen=True)
class Mean(Head):
    """One output per sequence, from the mean over all events."""

    def start(self, width, dtype):
        return Average.empty(width, dtype)

    def absorb(self, memory, signal):
        return memory.merge(Average.over(signal.values, self.weights(signal), signal.valid()).whole())

    def weights(self, signal: Signal) -> Float[Array, " L"]:
        """The weight of each event in the mean, (L,)."""
        return jnp.ones(signal.length, signal.values.dtype)

    def feature(self, memory):
        return memory.mean


@dataclass(frozen=True)
class TimeMean(Mean):
    """One output per sequence, from the mean over time: each event is weighted by the gap before it."""

    def weights(self, signal):
        return signal.gaps()


class _Seen(NamedTuple):
    last: Float[Array, " H"]


@dataclass(frozen=True)
class Last(Head):
    """One output per sequence, from the last event."""

    def start(self, width, dtype):
        return _Seen(constant(0, width, dtype))

    def absorb(self, memory, signal):
        axis = sequence_axis()
        if axis is not None:
            return self._absorb_parts(memory, signal, axis)
        if signal.mask is None:
            return _Seen(signal.values[-1])
        # The position of the last event. The compiler would evaluate a reduction of a constant mask, which is slow.
        at = jnp.max(jnp.where(signal.mask, jnp.arange(signal.length), -1))
        return _Seen(jnp.where(at >= 0, signal.values[at], memory.last))

    def _absorb_parts(self, memory: _Seen, signal: Signal, axis: str) -> _Seen:
        """The last event of all parts of a sequence that is divided over devices."""
        at = jnp.max(jnp.where(signal.valid(), jnp.arange(signal.length), -1))
        ends = lax.all_gather(at >= 0, axis)
        last = jnp.max(jnp.where(ends, jnp.arange(ends.shape[0]), -1))
        mine = jnp.where(last == lax.axis_index(axis), signal.values[at], 0)
        return _Seen(jnp.where(last >= 0, lax.psum(mine, axis), memory.last))

    def feature(self, memory):
        return memory.last


@dataclass(frozen=True)
class PerStep(Last):
    """One output per event, or per window of events in a model that pools."""

    per_step: ClassVar[bool] = True


@dataclass(frozen=True)
class Retrieval(Mean):
    """One output per pair of documents, from their means, the product of the means and their difference."""

    documents: ClassVar[int] = 2
    outputs: int = 2

    def init(self, width, *, key, dtype):
        """Initial parameters: a hidden layer of the model's width and a linear map to the outputs."""
        hidden, out = split(key, 2)
        W1 = draw({"W1": ((width, 4 * width), 1 / math.sqrt(4 * width))}, key=hidden, dtype=dtype)
        return super().init(width, key=out, dtype=dtype) | W1 | {"c1": constant(0, width, dtype)}

    def read(self, parameters, memory):
        """The output for a pair; the memory holds both documents."""
        first, second = memory.mean
        features = jnp.concatenate([first, second, first * second, first - second])[None]
        hidden = jax.nn.gelu(linear(parameters["W1"], features) + parameters["c1"])
        return self.decode(parameters, hidden)[0]
