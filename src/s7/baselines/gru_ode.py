"""A gated recurrent unit in continuous time.

De Brouwer, Simm, Arany & Moreau, GRU-ODE-Bayes: Continuous modeling of sporadically-observed time series, NeurIPS 2019.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell, affine
from s7.baselines.gru import gate_and_candidate
from s7.initialization import constant


@dataclass(frozen=True)
class GruOde(Cell):
    """dh/dt = (1 - z)(g - h) over the gap        h_k = z h + (1 - z) g at the event

        at the event      (z, r) = σ(W u_k + U h + b)        g = tanh(W' u_k + U' (r h) + b')
        over the gap      (z, r) = σ(V h + c)                g = tanh(V' (r h) + c')

    A discrete update takes the event in, as in the paper but without its model of the noise of observations. Where the
    input drives the flow instead, as in the comparison of Lechner & Hasani 2020, an event after no gap would be lost.

    The gap is cut in `unfolds`. In each the gates are held still and the rest is solved exactly,
    h ← h + (1 - exp(-(1 - z) dt / unfolds))(g - h), which is of first order as Euler's step and keeps h within ±1 over
    any gap, as the equation itself does.
    """

    reads_gaps: ClassVar[bool] = True
    gates: ClassVar[int] = 3
    unfolds: int = 4

    def __post_init__(self):
        if self.unfolds < 1:
            raise ValueError(f"GruOde: unfolds={self.unfolds} must be at least 1")

    def init(self, units, *, key, dtype):
        """The update's W, U and b, and the flow's V and c."""
        parameters = affine(units, self.gates, key=key, dtype=dtype, more={"V": (3 * units, units)})
        return parameters | {"c": constant(0, 3 * units, dtype)}

    def advance(self, parameters, drive, state, dt):
        """The flow over the gap, then the update."""
        (h,) = state
        for _ in range(self.unfolds):
            z, g = gate_and_candidate(parameters["c"], parameters["V"], h)
            h = h - jnp.expm1((z - 1) * dt / self.unfolds) * (g - h)
        z, g = gate_and_candidate(drive, parameters["U"], h)
        return (z * h + (1 - z) * g,)


class GruOdeModel(Architecture, name="gru-ode"):
    """Continuous-time GRU."""

    source = "De Brouwer et al. 2019"
    family = "cells"
    settings = bare(GruOde)
