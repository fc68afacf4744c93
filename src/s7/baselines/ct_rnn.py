"""The continuous-time recurrent network.

Funahashi & Nakamura, Approximation of dynamical systems by continuous time recurrent neural networks, Neural Networks
6(6), 1993, with the input inside the nonlinearity, as is usual for trained networks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax.nn import tanh
from jaxtyping import Array

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell
from s7.initialization import constant


@dataclass(frozen=True)
class CtRnn(Cell):
    """τ dh/dt = -h + tanh(W u_k + U h + b)    over the gap dt_k before event k, during which its input is held.

    An event with a gap of zero does not change the state. The gap is divided into `unfolds` steps; in each, tanh(...)
    is held constant and the decay to it is exact:

        h ← h + (1 - exp(-δ/τ)) (g - h)        g = tanh(W u_k + U h + b)        δ = dt_k / unfolds

    Explicit Euler diverges once δ exceeds 2τ; with this step h stays between -1 and 1 after any gap. Each unit learns
    log τ, starting at τ = 1.
    """

    reads_gaps: ClassVar[bool] = True
    unfolds: int = 4

    def __post_init__(self):
        if self.unfolds < 1:
            raise ValueError(f"CtRnn: unfolds={self.unfolds} must be at least 1")

    def init(self, units, *, key, dtype):
        """Draw the parameters; log τ is zero."""
        return super().init(units, key=key, dtype=dtype) | {"log_tau": constant(0, units, dtype)}

    def advance(self, parameters, drive, state, dt):
        """Compute the state at the end of the gap."""
        (h,) = state
        in_time_constants = dt * jnp.exp(-parameters["log_tau"])
        return (relaxed(h, lambda h: tanh(drive + parameters["U"] @ h), in_time_constants, self.unfolds),)


def relaxed(h: Array, goal: Callable[[Array], Array], dt: Array, unfolds: int) -> Array:
    """Solve dh/dt = goal(h) - h over dt, holding the goal constant during each step."""
    share = -jnp.expm1(-dt / unfolds)
    for _ in range(unfolds):
        h = h + share * (goal(h) - h)
    return h


class CtRnnModel(Architecture, name="ct-rnn"):
    """Continuous-time recurrent network."""

    source = "Funahashi & Nakamura 1993"
    family = "cells"
    settings = bare(CtRnn)
