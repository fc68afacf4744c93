"""Coupled oscillatory recurrent network.

Rusch & Mishra, Coupled oscillatory recurrent neural network (coRNN): an accurate and (gradient) stable architecture for
learning long time dependencies, ICLR 2021.
"""

from dataclasses import dataclass

from jax.nn import tanh

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell, affine
from s7.initialization import constant


@dataclass(frozen=True)
class CoRnn(Cell):
    """z_k = z_{k-1} + Δ (tanh(W u_k + U y_{k-1} + Z z_{k-1} + b) - γ y_{k-1} - ε z_{k-1})        y_k = y_{k-1} + Δ z_k

    Damped oscillators, driven by the input and coupled to each other; y is the output. The `step` Δ is a constant
    of the method: time gaps are ignored. The defaults are the authors' for sequential MNIST.
    """

    step: float = 0.042
    gamma: float = 2.7
    epsilon: float = 4.7

    def __post_init__(self):
        step, gamma, epsilon = self.step, self.gamma, self.epsilon
        if min(step, gamma, epsilon) <= 0 or step**2 * gamma + 2 * step * epsilon >= 4:
            raise ValueError(
                f"CoRnn: step={step}, gamma={gamma}, epsilon={epsilon} must be positive "
                "with step² gamma + 2 step epsilon < 4, or the oscillators would grow"
            )

    def init(self, units, *, key, dtype):
        """Draw W, U and Z; b is zero."""
        return affine(units, 1, key=key, dtype=dtype, more={"Z": (units, units)})

    def start(self, units, dtype):
        """Return zero y and z."""
        return constant(0, units, dtype), constant(0, units, dtype)

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        y, z = state
        force = tanh(drive + parameters["U"] @ y + parameters["Z"] @ z)
        z = z + self.step * (force - self.gamma * y - self.epsilon * z)
        return y + self.step * z, z


class CoRnnModel(Architecture, name="cornn"):
    """Coupled damped oscillators."""

    source = "Rusch & Mishra 2021"
    family = "cells"
    settings = bare(CoRnn)
