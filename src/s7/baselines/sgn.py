"""A surrogate-gradient spiking network of recurrent adaptive neurons (RadLIF).

Bittar & Garner, A surrogate gradient spiking baseline for speech command recognition, Frontiers in Neuroscience 16,
2022.
"""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell, affine
from s7.baselines.spiking import spikes
from s7.initialization import constant

# The paper's ranges of time constants, in steps.
_TIMES = {"alpha": (5.0, 25.0), "beta": (30.0, 120.0)}
_RANGES = {name: tuple(math.exp(-1 / tau) for tau in times) for name, times in _TIMES.items()}


@dataclass(frozen=True)
class Sgn(Cell):
    """u_k = α (u_{k-1} - s_{k-1}) + (1 - α) (W x_k + b + V s_{k-1} - w_k)        s_k = 1 where u_k ≥ 1, else 0

        w_k = β w_{k-1} + a u_{k-1} + c s_{k-1}

    with membrane potential u, adaptation w and spikes s, which are the output. V has no diagonal. The parameters of the
    neurons stay in the paper's ranges: α and β from time constants of 5 to 25 and 30 to 120 steps, |a| ≤ 1, 0 ≤ c ≤ 2.
    There is no batch norm here that would bring inputs up to the threshold; instead W starts so large that inputs of
    unit variance make a neuron fire in about one step of twenty. Time gaps are ignored.
    """

    def init(self, units, *, key, dtype):
        """Draw W and V; the neurons' parameters are spread over their ranges."""
        parameters = affine(units, 1, key=key, dtype=dtype)
        spread = lambda low, high: jnp.asarray(np.linspace(low, high, units), dtype)  # noqa: E731
        return {
            "W": 12 * parameters["W"],
            "V": parameters["U"],
            "b": parameters["b"],
            "alpha": spread(*_RANGES["alpha"]),
            "beta": spread(*_RANGES["beta"]),
            "a": spread(-0.05, 0.05),
            "c": spread(0.1, 0.5),
        }

    def start(self, units, dtype):
        """Return zero spikes, potential and adaptation."""
        return (constant(0, units, dtype),) * 3

    def prepare(self, parameters):
        """Clip the neurons' parameters to their ranges and remove the diagonal of V."""
        V = parameters["V"]
        clipped = {name: jnp.clip(parameters[name], low, high) for name, (low, high) in _RANGES.items()}
        return (
            parameters
            | clipped
            | {
                "V": V * (1 - jnp.eye(len(V), dtype=V.dtype)),
                "a": jnp.clip(parameters["a"], -1, 1),
                "c": jnp.clip(parameters["c"], 0, 2),
            }
        )

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        s, u, w = state
        w = parameters["beta"] * w + parameters["a"] * u + parameters["c"] * s
        alpha = parameters["alpha"]
        u = alpha * (u - s) + (1 - alpha) * (drive + parameters["V"] @ s - w)
        return spikes(u), u, w


class SgnModel(Architecture, name="sgn"):
    """Surrogate-gradient spiking network of recurrent adaptive neurons (RadLIF)."""

    source = "Bittar & Garner 2022"
    family = "cells"
    settings = bare(Sgn)
