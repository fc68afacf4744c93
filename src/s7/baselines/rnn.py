"""The plain recurrent network.

Elman, Finding structure in time, Cognitive Science 14(2), 1990.
"""

from dataclasses import dataclass

from jax.nn import tanh

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell


@dataclass(frozen=True)
class Rnn(Cell):
    """h_k = tanh(W u_k + U h_{k-1} + b)"""

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        (h,) = state
        return (tanh(drive + parameters["U"] @ h),)


class BiRnnModel(Architecture, name="bi-rnn"):
    """Bidirectional recurrent network."""

    source = "Schuster & Paliwal 1997"
    family = "cells"
    settings = bare(Rnn, bidirectional=True)
