"""A recurrent network whose state decays between events.

RNN-Decay of Rubanova, Chen & Duvenaud, Latent ordinary differential equations for irregularly-sampled time series,
NeurIPS 2019, after the decay of Che et al. 2018 (see gru_d.py).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from s7.baselines.architecture import Architecture, bare
from s7.baselines.rnn import Rnn
from s7.initialization import constant


@dataclass(frozen=True)
class RnnDecay(Rnn):
    """h_k = tanh(W u_k + U (h_{k-1} exp(-r dt_k)) + b)

    The state decays over the gap before an event; then the event updates it. The paper does not specify the cell; here
    it is the plain one, since GRU-D is the gated one. Each unit learns log r, starting at r = `rate`.
    """

    reads_gaps: ClassVar[bool] = True
    rate: float = 0.1

    def __post_init__(self):
        if not 0 < self.rate < math.inf:
            raise ValueError(f"RnnDecay: rate={self.rate} must be positive")

    def init(self, units, *, key, dtype):
        """Draw the parameters; log r is log `rate`."""
        log_r = constant(math.log(self.rate), units, dtype)
        return super().init(units, key=key, dtype=dtype) | {"log_r": log_r}

    def advance(self, parameters, drive, state, dt):
        """Decay the state over the gap, then apply one step."""
        (h,) = state
        return super().advance(parameters, drive, (h * jnp.exp(-jnp.exp(parameters["log_r"]) * dt),), dt)


class RnnDecayModel(Architecture, name="rnn-decay"):
    """Recurrent network whose state decays between events."""

    source = "Rubanova et al. 2019"
    family = "cells"
    settings = bare(RnnDecay)
