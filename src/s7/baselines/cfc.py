"""Closed-form continuous-time network.

Hasani, Lechner, Amini, Liebenwein, Ray, Tschaikowski, Teschl & Rus, Closed-form continuous-time neural networks,
Nature Machine Intelligence 4, 2022.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax.nn import sigmoid, tanh

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell
from s7.initialization import constant, draw


@dataclass(frozen=True)
class Cfc(Cell):
    """h_k = τ tanh(g) + (1 - τ) tanh(g')        τ = σ(s - f dt_k)

        (f, s, g, g') = V q + c        q = 1.7159 tanh(2/3 (W u_k + U h_{k-1} + b))

    q is the backbone shared by the four heads, with `backbone` units. The offset s of the time gate is not in the paper
    but in its authors' code; without it, a gap of zero would always mix the two states evenly.
    """

    reads_gaps: ClassVar[bool] = True
    backbone: int = 128

    def __post_init__(self):
        if self.backbone < 1:
            raise ValueError(f"Cfc: backbone={self.backbone} must be at least 1")

    def init(self, units, *, key, dtype):
        """Draw W and U of the backbone and V of the heads; biases are zero."""
        inward, outward = (self.backbone, units), (4 * units, self.backbone)
        matrices = {"W": inward, "U": inward, "V": outward}
        wanted = {name: (shape, 1 / math.sqrt(shape[1])) for name, shape in matrices.items()}
        biases = {"b": constant(0, self.backbone, dtype), "c": constant(0, 4 * units, dtype)}
        return draw(wanted, key=key, dtype=dtype) | biases

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        (h,) = state
        q = 1.7159 * tanh(2 / 3 * (drive + parameters["U"] @ h))
        f, s, soon, late = jnp.split(parameters["V"] @ q + parameters["c"], 4)
        gate = sigmoid(s - f * dt)
        return (gate * tanh(soon) + (1 - gate) * tanh(late),)


class CfcModel(Architecture, name="cfc"):
    """Closed-form continuous-time network."""

    source = "Hasani et al. 2022"
    family = "cells"
    settings = bare(Cfc)
