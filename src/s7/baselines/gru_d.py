"""GRU-D: gated recurrent units with decay.

Che et al., Recurrent neural networks for multivariate time series with missing values, Scientific Reports 8:6085, 2018.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax.nn import relu

from s7.baselines.architecture import Architecture, bare
from s7.baselines.gru import Gru
from s7.initialization import constant, draw, split


@dataclass(frozen=True)
class GruD(Gru):
    """The GRU with h_{k-1} replaced by γ_k h_{k-1},    γ_k = exp(-max(0, w_γ dt_k + b_γ))

    The state decays over the gap before an event; then the event updates it. The paper's input decay and masks handle
    missing inputs; here every input is observed at every event, so they are omitted. The paper's z is 1 - z of the GRU.
    w_γ starts positive: where it is negative, γ is 1 and has no gradient.
    """

    reads_gaps: ClassVar[bool] = True

    def init(self, units, *, key, dtype):
        """Draw the GRU's parameters and w_γ; b_γ is zero."""
        gru_key, decay_key = split(key, 2)
        decay = draw({"w_gamma": ((units,), 1 / math.sqrt(units))}, key=decay_key, dtype=dtype)
        parameters = super().init(units, key=gru_key, dtype=dtype)
        return parameters | {"w_gamma": jnp.abs(decay["w_gamma"]), "b_gamma": constant(0, units, dtype)}

    def advance(self, parameters, drive, state, dt):
        """Decay the state over the gap, then apply one step."""
        (h,) = state
        gamma = jnp.exp(-relu(parameters["w_gamma"] * dt + parameters["b_gamma"]))
        return super().advance(parameters, drive, (h * gamma,), dt)


class GruDModel(Architecture, name="gru-d"):
    """GRU whose state decays between events."""

    source = "Che et al. 2018"
    family = "cells"
    settings = bare(GruD)
