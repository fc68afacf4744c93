"""A convolution over time, followed by a bidirectional LSTM.

The baseline of that name for long time series; Graves & Schmidhuber 2005 for bidirectional LSTMs.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax.nn import relu

from s7.baselines.architecture import Architecture, bare
from s7.baselines.delay_line import arrivals
from s7.baselines.lstm import Lstm, gated
from s7.contractions import linear
from s7.initialization import constant, draw, split


@dataclass(frozen=True)
class ConvLstm(Lstm):
    """The LSTM on x_k = relu(Σ_j K_j u_{k-j} + c), a convolution over the last `kernel` events.

    The convolution runs in the direction of its LSTM. Time gaps are ignored.
    """

    gates: ClassVar[int] = 4
    kernel: int = 5

    def __post_init__(self):
        if self.kernel < 1:
            raise ValueError(f"ConvLstm: kernel={self.kernel} must be at least 1")

    def init(self, units, *, key, dtype):
        """Draw the LSTM's parameters and the kernel; c is zero."""
        lstm_key, kernel_key = split(key, 2)
        scale = 1 / math.sqrt(units * self.kernel)
        taps = draw({"K": ((self.kernel * units, units), scale)}, key=kernel_key, dtype=dtype)
        return super().init(units, key=lstm_key, dtype=dtype) | taps | {"c": constant(0, units, dtype)}

    def start(self, units, dtype):
        """Return zero h and c, and no inputs before the first."""
        waiting = jnp.asarray(np.zeros((self.kernel - 1, units)), dtype)
        return constant(0, units, dtype), constant(0, units, dtype), waiting

    def drive(self, parameters, u):
        """What each event adds to itself and to the events after it."""
        return linear(parameters["K"], u)

    def advance(self, parameters, drive, state, dt):
        """Convolve, then apply one step."""
        h, c, waiting = state
        arriving, waiting = arrivals(drive, waiting)
        x = relu(arriving + parameters["c"])
        h, c = gated(parameters["W"] @ x + parameters["U"] @ h + parameters["b"], c)
        return h, c, waiting


class BiLstmConvModel(Architecture, name="bilstm-conv"):
    """Convolution over time and a bidirectional LSTM."""

    source = "Graves & Schmidhuber 2005"
    family = "cells"
    settings = bare(ConvLstm, bidirectional=True)
