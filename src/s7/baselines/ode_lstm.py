"""ODE-LSTM: an LSTM whose output state follows an ODE between events; its memory cell does not.

Lechner & Hasani, Learning long-term dependencies in irregularly-sampled time series, 2020 (arXiv 2006.04418).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from jax.nn import tanh

from s7.baselines.architecture import Architecture, bare
from s7.baselines.ct_rnn import relaxed
from s7.baselines.lstm import Lstm
from s7.initialization import constant, draw, split


@dataclass(frozen=True)
class OdeLstm(Lstm):
    """h_k = x(dt_k)      dx/dt = -x + tanh(A x + B x(0) + a)      (x(0), c_k) = the LSTM's step from (h_{k-1}, c_{k-1})

    The order is that of the released code: the event updates the state, then the output is integrated over the gap
    before the event. The paper does not specify the ODE; this is the one of the released TensorFlow code, a
    continuous-time network in `unfolds` = 4 steps, starting at the LSTM's output as in the paper's algorithm. Euler's
    method, or an ODE without the decay -x, makes gradients overflow after long gaps, so the steps are those of CtRnn.
    """

    reads_gaps: ClassVar[bool] = True
    unfolds: int = 4

    def __post_init__(self):
        if self.unfolds < 1:
            raise ValueError(f"OdeLstm: unfolds={self.unfolds} must be at least 1")

    def init(self, units, *, key, dtype):
        """Draw the LSTM's parameters, A and B; a is zero."""
        lstm_key, flow_key = split(key, 2)
        matrix = (units, units), 1 / math.sqrt(units)
        flow = draw({"A": matrix, "B": matrix}, key=flow_key, dtype=dtype) | {"a": constant(0, units, dtype)}
        return super().init(units, key=lstm_key, dtype=dtype) | flow

    def advance(self, parameters, drive, state, dt):
        """Apply one step, then integrate over the gap."""
        h, c = super().advance(parameters, drive, state, dt)
        held = parameters["B"] @ h + parameters["a"]
        return relaxed(h, lambda x: tanh(parameters["A"] @ x + held), dt, self.unfolds), c


class OdeLstmModel(Architecture, name="ode-lstm"):
    """LSTM whose output state follows an ODE between events."""

    source = "Lechner & Hasani 2020"
    family = "cells"
    settings = bare(OdeLstm)
