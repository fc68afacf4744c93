"""CT-GRU: each unit has memory traces with different decay rates, and gates that select among them.

Mozer, Kazakov & Lindsey, Discrete event, continuous time RNNs, 2017 (arXiv 1710.04110).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.nn import softmax, tanh

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell
from s7.initialization import constant

# The paper's ratio of neighboring time scales: mixtures of these approximate any decay in between.
_RATIO = math.sqrt(10)


@dataclass(frozen=True)
class CtGru(Cell):
    """A unit's state is M = `scales` traces x_i with time scales τ_i = `shortest` 10^(i/2), and h = Σ_i x_i.

        decay        x_i ← x_i exp(-dt_k / τ_i)
        retrieve     log τ_R = W_R u_k + U_R h + b_R          ρ_i = softmax_i(-(log τ_R - log τ_i)²)
        store        log τ_S = W_S u_k + U_S h + b_S          σ_i = softmax_i(-(log τ_S - log τ_i)²)
        detect       q = tanh(W_Q u_k + U_Q Σ_i ρ_i x_i + b_Q)
        update       x_i ← (1 - σ_i) x_i + σ_i q

    W, U and b hold the rows of R, S and Q in this order. The paper decays last, over the gap after an event; here
    the gap precedes its event, and the output is h immediately after the event.
    """

    reads_gaps: ClassVar[bool] = True
    gates: ClassVar[int] = 3
    scales: int = 8
    shortest: float = 1.0

    def __post_init__(self):
        if self.scales < 1:
            raise ValueError(f"CtGru: scales={self.scales} must be at least 1")
        if not 0 < self.shortest < math.inf:
            raise ValueError(f"CtGru: shortest={self.shortest} must be positive")

    def start(self, units, dtype):
        """Return zero traces, shape (units, scales)."""
        return (constant(0, units * self.scales, dtype).reshape(units, self.scales),)

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        (x,) = state
        tau = self.shortest * _RATIO ** jnp.arange(self.scales, dtype=x.dtype)
        x = x * jnp.exp(-dt / tau)
        h = self.read((x,))
        log_tau_R, log_tau_S, q = jnp.split(drive, 3)
        U_R, U_S, U_Q = jnp.split(parameters["U"], 3)
        retrieved = (_weights(log_tau_R + U_R @ h, tau) * x).sum(1)
        stored = _weights(log_tau_S + U_S @ h, tau)
        return ((1 - stored) * x + stored * tanh(q + U_Q @ retrieved)[:, None],)

    def read(self, state):
        """Return h, the sum of the traces."""
        return state[0].sum(1)


def _weights(log_tau: jax.Array, scales: jax.Array) -> jax.Array:
    """Compute the weight of each time scale for each unit: the closer to the unit's own, the larger."""
    return softmax(-((log_tau[:, None] - jnp.log(scales)) ** 2), axis=1)


class CtGruModel(Architecture, name="ct-gru"):
    """GRU with memory traces at several time scales."""

    source = "Mozer et al. 2017"
    family = "cells"
    settings = bare(CtGru)
