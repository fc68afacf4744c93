"""Undamped independent controlled oscillatory recurrent network.

Rusch & Mishra, UnICORNN: A recurrent model for learning very long time dependencies, ICML 2021.
"""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid, tanh

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell
from s7.initialization import constant, draw


@dataclass(frozen=True)
class UniCornn(Cell):
    """z_k = z_{k-1} - Δ σ(c) (tanh(w y_{k-1} + W u_k + b) + α y_{k-1})        y_k = y_{k-1} + Δ σ(c) z_k

    Undamped, uncoupled oscillators: w and c are vectors, and the integrator is symplectic. c sets the speed of each; y
    is the output. The `step` Δ is a constant of the method: time gaps are ignored. The defaults are the authors' for
    permuted MNIST.
    """

    step: float = 0.19
    alpha: float = 30.65

    def __post_init__(self):
        if self.step <= 0 or self.alpha < 0 or self.step**2 * self.alpha >= 4:
            raise ValueError(
                f"UniCornn: step={self.step} must be positive, alpha={self.alpha} not negative "
                "and step² alpha < 4, or the oscillators would grow"
            )

    def init(self, units, *, key, dtype):
        """Draw W and a small c; w is evenly spaced in (0, 1), as in the authors' code."""
        wanted = {"W": ((units, units), 1 / math.sqrt(units)), "c": ((units,), 0.1 / math.sqrt(3))}
        w = jnp.asarray((np.arange(units) + 0.5) / units, dtype)
        return draw(wanted, key=key, dtype=dtype) | {"w": w, "b": constant(0, units, dtype)}

    def start(self, units, dtype):
        """Return zero y and z."""
        return constant(0, units, dtype), constant(0, units, dtype)

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        y, z = state
        step = self.step * sigmoid(parameters["c"])
        z = z - step * (tanh(parameters["w"] * y + drive) + self.alpha * y)
        return y + step * z, z


class UniCornnModel(Architecture, name="unicornn"):
    """Independent undamped oscillators."""

    source = "Rusch & Mishra 2021"
    family = "cells"
    settings = bare(UniCornn)
