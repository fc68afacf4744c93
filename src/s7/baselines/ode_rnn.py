"""A recurrent network whose state follows an ODE between events.

Rubanova, Chen & Duvenaud, Latent ordinary differential equations for irregularly-sampled time series, NeurIPS 2019.
"""

from dataclasses import dataclass
from typing import ClassVar

from jax.nn import tanh

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell, affine
from s7.baselines.gru import gate_and_candidate
from s7.initialization import constant


@dataclass(frozen=True)
class OdeRnn(Cell):
    """dh/dt = G tanh(F h + f) + g over the gap        h_k = GRU(u_k, h) at the event

    GRU(u, h) = z h + (1 - z) tanh(W' u + U' (r h) + b')        (z, r) = σ(W u + U h + b)

    The gap is divided into `unfolds` steps of Euler's method, as in the paper. dh/dt is bounded, so h grows at most
    linearly with the gap.
    """

    reads_gaps: ClassVar[bool] = True
    gates: ClassVar[int] = 3
    unfolds: int = 4

    def __post_init__(self):
        if self.unfolds < 1:
            raise ValueError(f"OdeRnn: unfolds={self.unfolds} must be at least 1")

    def init(self, units, *, key, dtype):
        """Draw W and U of the update, F and G of the ODE. G starts small, or the ODE would dominate the updates."""
        square = (units, units)
        parameters = affine(units, self.gates, key=key, dtype=dtype, more={"F": square, "G": square})
        still = constant(0, units, dtype)
        return parameters | {"G": 0.1 * parameters["G"], "f": still, "g": still}

    def advance(self, parameters, drive, state, dt):
        """Integrate over the gap, then apply the update."""
        (h,) = state
        F, f, G, g = (parameters[name] for name in ("F", "f", "G", "g"))
        for _ in range(self.unfolds):
            h = h + dt / self.unfolds * (G @ tanh(F @ h + f) + g)
        z, candidate = gate_and_candidate(drive, parameters["U"], h)
        return (z * h + (1 - z) * candidate,)


class OdeRnnModel(Architecture, name="ode-rnn"):
    """Recurrent network whose state follows an ODE between events."""

    source = "Rubanova et al. 2019"
    family = "cells"
    settings = bare(OdeRnn)
