"""The LSTM with the time gap as an additional input.

The name is that of Lechner & Hasani, Learning long-term dependencies in irregularly-sampled time series, 2020
(arXiv 2006.04418).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from s7.baselines.architecture import Architecture, bare
from s7.baselines.lstm import Lstm
from s7.initialization import draw, split


@dataclass(frozen=True)
class AugmentedLstm(Lstm):
    """The LSTM with the gap dt_k as one more input:    (i, f, g, o) = W u_k + v dt_k + U h_{k-1} + b

    The gap is not rescaled, so it should be of the order of 1.
    """

    reads_gaps: ClassVar[bool] = True

    def init(self, units, *, key, dtype):
        """Draw v like a column of W."""
        lstm_key, gap_key = split(key, 2)
        column = {"v": ((self.gates * units,), 1 / math.sqrt(units))}
        return super().init(units, key=lstm_key, dtype=dtype) | draw(column, key=gap_key, dtype=dtype)

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        return super().advance(parameters, drive + parameters["v"] * dt, state, dt)


class AugmentedLstmModel(Architecture, name="augmented-lstm"):
    """LSTM with the time gap as an additional input."""

    source = "Lechner & Hasani 2020"
    family = "cells"
    settings = bare(AugmentedLstm)
