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

    Each event is a discrete update, as in the paper but without its observation noise model. If the input drove the ODE
    instead, as in Lechner & Hasani 2020, an event with a gap of zero would be lost.

    The gap is divided into `unfolds` steps. In each, the gates are held constant and the rest is solved exactly,
    h ← h + (1 - exp(-(1 - z) dt / unfolds))(g - h). Like Euler's method this is first order, but h stays within ±1 over
    any gap, as it does under the ODE itself.
    """

    reads_gaps: ClassVar[bool] = True
    gates: ClassVar[int] = 3
    unfolds: int = 4

    def __post_init__(self):
        if self.unfolds < 1:
            raise ValueError(f"GruOde: unfolds={self.unfolds} must be at least 1")

    def init(self, units, *, key, dtype):
        """Draw W, U and b of the update, V and c of the ODE."""
        parameters = affine(units, self.gates, key=key, dtype=dtype, more={"V": (3 * units, units)})
        return parameters | {"c": constant(0, 3 * units, dtype)}

    def advance(self, parameters, drive, state, dt):
        """Integrate over the gap, then apply the update."""
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
