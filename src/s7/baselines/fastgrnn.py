"""Fast gated recurrent network.

Kusupati, Singh, Bhatia, Kumar, Jain & Varma, FastGRNN: A fast, accurate, stable and tiny kilobyte sized gated recurrent
neural network, NeurIPS 2018.
"""

from dataclasses import dataclass

from jax.nn import sigmoid, tanh

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell
from s7.contractions import linear
from s7.initialization import constant


@dataclass(frozen=True)
class FastGrnn(Cell):
    """h_k = z h_{k-1} + (σ(ζ) (1 - z) + σ(ν)) tanh(a + b')        z = σ(a + b)        a = W u_k + U h_{k-1}

    The gate and the candidate share both matrices. ζ and ν are scalars.
    """

    def init(self, units, *, key, dtype):
        """Draw W and U; biases and ζ are 1 and ν is -4, as in the authors' code."""
        scalars = {"zeta": constant(1, 1, dtype), "nu": constant(-4, 1, dtype)}
        return super().init(units, key=key, dtype=dtype) | {"b": constant(1, 2 * units, dtype)} | scalars

    def drive(self, parameters, u):
        """Project the inputs by W; the two biases are added in `advance`."""
        return linear(parameters["W"], u)

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        (h,) = state
        gate, candidate = parameters["b"].reshape(2, -1) + (drive + parameters["U"] @ h)
        z = sigmoid(gate)
        return (z * h + (sigmoid(parameters["zeta"]) * (1 - z) + sigmoid(parameters["nu"])) * tanh(candidate),)


class FastGrnnModel(Architecture, name="fastgrnn"):
    """Gated network whose gate shares the weights of the state update."""

    source = "Kusupati et al. 2018"
    family = "cells"
    settings = bare(FastGrnn)
