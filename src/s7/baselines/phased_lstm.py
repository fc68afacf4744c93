"""The phased LSTM: units with time gates that open periodically for a small part of each period.

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

    t_k is the time of event k, the sum of all gaps up to it. Each unit learns its period τ, initialized log-uniformly
    in `period` (in units of dt, or in steps), its shift s, initialized uniformly in a period, and its open ratio r,
    initialized to `ratio`. The `leak` α lets gradients through a closed gate; the paper sets it to zero after training,
    here it stays. The optional peephole connections are omitted.
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
        """Draw the LSTM's parameters, log τ and s; `ratio` is the logit of r."""
        lstm_key, period_key, shift_key = split(key, 3)
        low, high = map(math.log, self.period)
        log_tau = jax.random.uniform(period_key, (units,), minval=low, maxval=high).astype(dtype)
        shift = jax.random.uniform(shift_key, (units,)).astype(dtype) * jnp.exp(log_tau)
        ratio = constant(math.log(self.ratio / (1 - self.ratio)), units, dtype)
        rhythm = {"log_tau": log_tau, "shift": shift, "ratio": ratio}
        return super().init(units, key=lstm_key, dtype=dtype) | rhythm

    def start(self, units, dtype):
        """Return zero h and c and the phase of each unit, which float32 represents well however long the sequence."""
        return *super().start(units, dtype), constant(0, units, dtype)

    def advance(self, parameters, drive, state, dt):
        """Interpolate between the old state and the LSTM's step by the time gate."""
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
