"""The phased LSTM: units that open to the input for a small part of a rhythm of their own.

Neil, Pfeiffer & Liu, Phased LSTM: accelerating recurrent network training for long or event-based sequences, NIPS 2016.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.nn import sigmoid

from s7.baselines.architecture import Architecture, bare
from s7.baselines.lstm import Lstm
from s7.initialization import constant, split


@dataclass(frozen=True)
class PhasedLstm(Lstm):
    """(h_k, c_k) = κ (h̃, c̃) + (1 - κ) (h_{k-1}, c_{k-1}), where (h̃, c̃) is the LSTM's step

        φ = ((t_k - s) mod τ) / τ        κ = 2φ/r  if φ < r/2,     2 - 2φ/r  if r/2 < φ < r,     α φ  otherwise

    t_k is the time of event k, all gaps up to it together. Each unit learns its period τ, started log-uniform in
    `period` (in units of dt, or in steps), its shift s, started uniform in a period, and its open ratio r, started at
    `ratio`. The `leak` α lets gradients through a closed gate; the paper drops it after training, here it stays. The
    paper's peepholes, which it calls optional, are left out.
    """

    reads_gaps: ClassVar[bool] = True
    period: tuple[float, float] = (1.0, 20.0)
    ratio: float = 0.05
    leak: float = 0.001

    def __post_init__(self):
        low, high = self.period
        if not 0 < low <= high < math.inf:
            raise ValueError(f"PhasedLstm: period={self.period} must be two positive numbers in order")
        if not 0 < self.ratio < 1:
            raise ValueError(f"PhasedLstm: ratio={self.ratio} must be between 0 and 1")
        if not 0 <= self.leak <= 1:
            raise ValueError(f"PhasedLstm: leak={self.leak} must be between 0 and 1")

    def init(self, units, *, key, dtype):
        """With log τ, s and the logit of r."""
        lstm_key, period_key, shift_key = split(key, 3)
        low, high = map(math.log, self.period)
        log_tau = jax.random.uniform(period_key, (units,), minval=low, maxval=high).astype(dtype)
        shift = jax.random.uniform(shift_key, (units,)).astype(dtype) * jnp.exp(log_tau)
        ratio = constant(math.log(self.ratio / (1 - self.ratio)), units, dtype)
        rhythm = {"log_tau": log_tau, "shift": shift, "ratio": ratio}
        return super().init(units, key=lstm_key, dtype=dtype) | rhythm

    def start(self, units, dtype):
        """h, c, and the time in periods of each unit, without the whole ones: a clock that float32 keeps for long."""
        return *super().start(units, dtype), constant(0, units, dtype)

    def advance(self, parameters, drive, state, dt):
        """One step, as far as the gates are open."""
        *before, clock = state
        tau = jnp.exp(parameters["log_tau"])
        clock = _fraction(clock + dt / tau)
        gate = self._gate(_fraction(clock - parameters["shift"] / tau), sigmoid(parameters["ratio"]))
        after = super().advance(parameters, drive, tuple(before), dt)
        h, c = (gate * new + (1 - gate) * old for new, old in zip(after, before, strict=True))
        return h, c, clock

    def _gate(self, phase: jax.Array, ratio: jax.Array) -> jax.Array:
        opening = jnp.minimum(phase, ratio) / ratio
        return jnp.where(phase < ratio, 1 - jnp.abs(2 * opening - 1), self.leak * phase)


def _fraction(q: jax.Array) -> jax.Array:
    return q - jnp.floor(q)


class PhasedLstmModel(Architecture, name="phased-lstm"):
    """LSTM with periodic time gates."""

    source = "Neil et al. 2016"
    family = "cells"
    settings = bare(PhasedLstm)
