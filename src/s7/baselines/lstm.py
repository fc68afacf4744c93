"""Long short-term memory.

Hochreiter & Schmidhuber, Long short-term memory, Neural Computation 9(8), 1997; forget gate by Gers et al. 2000.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.nn import sigmoid, tanh

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell
from s7.initialization import constant


@dataclass(frozen=True)
class Lstm(Cell):
    """c_k = σ(f) c_{k-1} + σ(i) tanh(g)        h_k = σ(o) tanh(c_k)        (i, f, g, o) = W u_k + U h_{k-1} + b

    The bias of the forget gates starts at `forget`, so that the memory lasts long enough to learn from.
    """

    gates: ClassVar[int] = 4
    forget: float = 1.0

    def init(self, units, *, key, dtype):
        """Draw W and U; b is zero except for the forget gates."""
        parameters = super().init(units, key=key, dtype=dtype)
        return parameters | {"b": parameters["b"].at[units : 2 * units].set(self.forget)}

    def start(self, units, dtype):
        """Return zero h and c."""
        return constant(0, units, dtype), constant(0, units, dtype)

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        h, c = state
        return gated(drive + parameters["U"] @ h, c)


def gated(gates: jax.Array, c: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Compute (h, c) after a step from the pre-activations of the gates."""
    i, f, g, o = jnp.split(gates, 4)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


class LstmModel(Architecture, name="lstm"):
    """Long short-term memory."""

    source = "Hochreiter & Schmidhuber 1997"
    family = "cells"
    settings = bare(Lstm)
