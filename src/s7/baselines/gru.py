"""Gated recurrent units.

Cho et al., Learning phrase representations using RNN encoder-decoder for statistical machine translation, EMNLP 2014.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax.nn import sigmoid, tanh
from jaxtyping import Array

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell


@dataclass(frozen=True)
class Gru(Cell):
    """h_k = z h_{k-1} + (1 - z) g        g = tanh(W_g u_k + U_g (r h_{k-1}) + b_g)

    z = σ(W_z u_k + U_z h_{k-1} + b_z) and r likewise; W, U and b hold the rows of z, r and g in this order. The reset
    gate acts before the product with U, as in the paper.
    """

    gates: ClassVar[int] = 3

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        (h,) = state
        z, g = gate_and_candidate(drive, parameters["U"], h)
        return (z * h + (1 - z) * g,)


def gate_and_candidate(drive: Array, U: Array, h: Array) -> tuple[Array, Array]:
    """Compute the update gate z and the candidate state g."""
    gates = 2 * h.size
    z, r = jnp.split(sigmoid(drive[:gates] + U[:gates] @ h), 2)
    return z, tanh(drive[gates:] + U[gates:] @ (r * h))


class GruModel(Architecture, name="gru"):
    """Gated recurrent unit."""

    source = "Cho et al. 2014"
    family = "cells"
    settings = bare(Gru)
