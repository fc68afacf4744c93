"""The LSTM with chrono initialisation.

Tallec & Ollivier, Can recurrent neural networks warp time?, ICLR 2018.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell
from s7.baselines.lstm import gated
from s7.initialization import constant, split


@dataclass(frozen=True)
class ChronoLstm(Cell):
    """The LSTM, started with    b_f = log T,    b_i = -log T,    T uniform between 1 and `longest` - 1.

    A forget gate with bias log T has a time constant of about T steps, so the units cover all time scales up to
    `longest`, the longest expected dependency in steps.
    """

    gates: ClassVar[int] = 4
    longest: float = 1000.0

    def __post_init__(self):
        if not self.longest >= 2:
            raise ValueError(f"ChronoLstm: longest={self.longest} must be at least 2 steps")

    def init(self, units, *, key, dtype):
        """Draw the parameters, with chrono biases for the input and forget gates."""
        map_key, bias_key = split(key, 2)
        log_T = jnp.log(jax.random.uniform(bias_key, (units,), minval=1, maxval=self.longest - 1)).astype(dtype)
        b = jnp.concatenate([-log_T, log_T, constant(0, 2 * units, dtype)])
        return super().init(units, key=map_key, dtype=dtype) | {"b": b}

    def start(self, units, dtype):
        """Return zero h and c."""
        return constant(0, units, dtype), constant(0, units, dtype)

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        h, c = state
        return gated(drive + parameters["U"] @ h, c)


class ChronoLstmModel(Architecture, name="chrono-lstm"):
    """LSTM with gate biases initialized to a range of time scales."""

    source = "Tallec & Ollivier 2018"
    family = "cells"
    settings = bare(ChronoLstm)
