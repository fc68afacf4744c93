"""Independently recurrent network.

Li, Li, Cook, Zhu & Gao, Independently recurrent neural network (IndRNN): Building a longer and deeper RNN, CVPR 2018.
"""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.nn import relu

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell
from s7.initialization import constant, draw


@dataclass(frozen=True)
class IndRnn(Cell):
    """h_k = relu(W u_k + w h_{k-1} + b)        |w| ≤ 1

    The recurrent weights are diagonal. The paper bounds |w| by 2^(1/L) on sequences of length L; 1 is the limit for
    long sequences.
    """

    def init(self, units, *, key, dtype):
        """Draw W; w is evenly spaced in (0, 1), which gives memories of all lengths."""
        w = jnp.asarray((np.arange(units) + 0.5) / units, dtype)
        matrix = draw({"W": ((units, units), 1 / math.sqrt(units))}, key=key, dtype=dtype)
        return matrix | {"w": w, "b": constant(0, units, dtype)}

    def prepare(self, parameters):
        """Clip w, with a straight-through gradient: weights outside the bound can return."""
        w = parameters["w"]
        return parameters | {"w": w + lax.stop_gradient(jnp.clip(w, -1, 1) - w)}

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        (h,) = state
        return (relu(drive + parameters["w"] * h),)


class IndRnnModel(Architecture, name="indrnn"):
    """Recurrent network with diagonal recurrent weights."""

    source = "Li et al. 2018"
    family = "cells"
    settings = bare(IndRnn)
