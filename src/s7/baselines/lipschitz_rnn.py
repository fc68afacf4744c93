"""Lipschitz recurrent network.

Erichson, Azencot, Queiruga, Hodgkinson & Mahoney, Lipschitz recurrent neural networks, ICLR 2021.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.nn import tanh

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell
from s7.initialization import constant, draw


@dataclass(frozen=True)
class LipschitzRnn(Cell):
    """h_k = h_{k-1} + Δ (A h_{k-1} + tanh(U h_{k-1} + W u_k + b))

        A = (1 - β)(M + Mᵀ) + β (M - Mᵀ) - γ I        U likewise from N

    The defaults of `step` Δ, `beta` β and `gamma` γ are the authors' for pixel-wise MNIST. The linear part is stable if
    γ exceeds the largest eigenvalue of (1 - β)(M + Mᵀ) by a margin that covers the error of Euler's method; sequences
    of tens of thousands of steps need a larger γ. For the same reason M and N are initialized at `scale` times the
    usual size. Δ is a constant of the method: time gaps are ignored.
    """

    step: float = 0.03
    beta: float = 0.75
    gamma: float = 0.001
    scale: float = 0.1

    def __post_init__(self):
        if self.step <= 0 or self.gamma < 0 or not 0 <= self.beta <= 1:
            raise ValueError(
                f"LipschitzRnn: step={self.step} must be positive, gamma={self.gamma} not negative "
                f"and beta={self.beta} between 0 and 1"
            )

    def init(self, units, *, key, dtype):
        """Draw W, M and N; b is zero."""
        square, size = (units, units), 1 / math.sqrt(units)
        wanted = {"W": (square, size), "M": (square, self.scale * size), "N": (square, self.scale * size)}
        return draw(wanted, key=key, dtype=dtype) | {"b": constant(0, units, dtype)}

    def prepare(self, parameters):
        """Compute A and U from M and N."""
        return {"A": self.combined(parameters["M"]), "U": self.combined(parameters["N"])}

    def combined(self, M: jax.Array) -> jax.Array:
        """Combine the symmetric and skew-symmetric parts of M and shift the spectrum by -γ."""
        symmetric, skew = M + M.T, M - M.T
        return (1 - self.beta) * symmetric + self.beta * skew - self.gamma * jnp.eye(len(M), dtype=M.dtype)

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        (h,) = state
        return (h + self.step * (parameters["A"] @ h + tanh(parameters["U"] @ h + drive)),)


class LipschitzRnnModel(Architecture, name="lipschitz-rnn"):
    """Recurrent network with a bounded Lipschitz constant."""

    source = "Erichson et al. 2021"
    family = "cells"
    settings = bare(LipschitzRnn)
