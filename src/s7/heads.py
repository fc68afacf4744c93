"""Heads: from the last block's signal to the model's output.

A head keeps a memory of what it has seen, takes in more, and can be read at any time; so the answer over a whole
sequence and the answer of a stream so far are one computation. A head's instance holds its settings; its parameters
are passed in.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, DTypeLike, Float, PRNGKeyArray

from s7.contractions import linear
from s7.initialization import Parameters, constant, draw, split
from s7.pooling import Average
from s7.registry import Registered
from s7.signal import Signal
from s7.standardization import check_units


class Steps(NamedTuple):
    """Outputs along a stream, and which of them are there."""

    values: Float[Array, "M O"]
    mask: Bool[Array, " M"]


@dataclass(frozen=True)
class Head(Registered, ABC):
    """What every head has: `outputs` numbers come out, in units of `scale` around `mean`, one for all or one each."""

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
        """The memory before anything is seen."""

    @abstractmethod
    def absorb(self, memory: Any, signal: Signal) -> Any:
        """The memory after a signal."""

    @abstractmethod
    def feature(self, memory: Any) -> Float[Array, " H"]:
        """What the answer is made from."""

    def init(self, width: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """A linear map to the outputs."""
        W = draw({"W": ((self.outputs, width), 1 / math.sqrt(width))}, key=key, dtype=dtype)
        return W | {"c": constant(0, self.outputs, dtype)}

    def decode(self, parameters: Parameters, features: Float[Array, "M H"]) -> Float[Array, "M O"]:
        """W z + c, in the outputs' units."""
        z = linear(parameters["W"], features) + parameters["c"]
        return z * jnp.asarray(self.scale, z.dtype) + jnp.asarray(self.mean, z.dtype)

    def read(self, parameters: Parameters, memory: Any) -> Float[Array, " O"]:
        """The answer so far."""
        return self.decode(parameters, self.feature(memory)[None])[0]


@dataclass(frozen=True)
class Mean(Head):
    """The mean over all events."""

    def start(self, width, dtype):
        return Average.empty(width, dtype)

    def absorb(self, memory, signal):
        return memory.merge(Average.over(signal.values, self.weights(signal), signal.valid()))

    def weights(self, signal: Signal) -> Float[Array, " L"]:
        """How much each event counts."""
        return jnp.ones(signal.length, signal.values.dtype)

    def feature(self, memory):
        return memory.mean


@dataclass(frozen=True)
class TimeMean(Mean):
    """The mean over time: each event counts as much as the gap before it."""

    def weights(self, signal):
        return signal.gaps()


class _Seen(NamedTuple):
    last: Float[Array, " H"]


@dataclass(frozen=True)
class Last(Head):
    """The last event's."""

    def start(self, width, dtype):
        return _Seen(constant(0, width, dtype))

    def absorb(self, memory, signal):
        if signal.mask is None:
            return _Seen(signal.values[-1])
        # The position of the last event. A reduction of a constant mask would be evaluated by the compiler, slowly.
        at = jnp.max(jnp.where(signal.mask, jnp.arange(signal.length), -1))
        return _Seen(jnp.where(at >= 0, signal.values[at], memory.last))

    def feature(self, memory):
        return memory.last


@dataclass(frozen=True)
class PerStep(Last):
    """An answer at every event (every window, in a model that pools)."""

    per_step: ClassVar[bool] = True


@dataclass(frozen=True)
class Retrieval(Mean):
    """Whether two documents belong together: from both means, their product and their difference."""

    documents: ClassVar[int] = 2
    outputs: int = 2

    def init(self, width, *, key, dtype):
        """A hidden layer of the model's width, then the outputs."""
        hidden, out = split(key, 2)
        W1 = draw({"W1": ((width, 4 * width), 1 / math.sqrt(4 * width))}, key=hidden, dtype=dtype)
        return super().init(width, key=out, dtype=dtype) | W1 | {"c1": constant(0, width, dtype)}

    def read(self, parameters, memory):
        """The memory holds both documents."""
        first, second = memory.mean
        features = jnp.concatenate([first, second, first * second, first - second])[None]
        hidden = jax.nn.gelu(linear(parameters["W1"], features) + parameters["c1"])
        return self.decode(parameters, hidden)[0]
