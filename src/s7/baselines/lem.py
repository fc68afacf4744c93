"""Long expressive memory.

Rusch, Mishra, Erichson & Mahoney, Long expressive memory for sequence modeling, ICLR 2022.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax.nn import sigmoid, tanh

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell, affine
from s7.initialization import constant


@dataclass(frozen=True)
class Lem(Cell):
    """z_k = (1 - Δ σ(p)) z_{k-1} + Δ σ(p) tanh(q)        y_k = (1 - Δ σ(r)) y_{k-1} + Δ σ(r) tanh(s + Z z_k)

        (p, q, r) = W u_k + U y_{k-1} + b        s = W' u_k + b'

    Two states with separate, input-dependent time scales; y is the output. The `step` Δ bounds the time scales. Time
    gaps are ignored.
    """

    gates: ClassVar[int] = 4
    step: float = 1.0

    def __post_init__(self):
        if not 0 < self.step <= 1:
            raise ValueError(f"Lem: step={self.step} must be above 0 and at most 1, or the states would grow")

    def init(self, units, *, key, dtype):
        """Draw W of p, q, r and s, U of the first three, and Z; b is zero."""
        more = {"U": (3 * units, units), "Z": (units, units)}
        return affine(units, self.gates, key=key, dtype=dtype, more=more)

    def start(self, units, dtype):
        """Return zero y and z."""
        return constant(0, units, dtype), constant(0, units, dtype)

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        y, z = state
        p, q, r = jnp.split(drive[: 3 * y.size] + parameters["U"] @ y, 3)
        pace = self.step * sigmoid(p)
        z = (1 - pace) * z + pace * tanh(q)
        pace = self.step * sigmoid(r)
        y = (1 - pace) * y + pace * tanh(drive[3 * y.size :] + parameters["Z"] @ z)
        return y, z


class LemModel(Architecture, name="lem"):
    """Long expressive memory: two states with adaptive time scales."""

    source = "Rusch et al. 2022"
    family = "cells"
    settings = bare(Lem)
