"""The continuous-time LSTM: memory cells that decay to a target between events.

Mei & Eisner, The neural Hawkes process: a neurally self-modulating multivariate point process, NIPS 2017.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax.nn import sigmoid, softplus, tanh

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell
from s7.initialization import constant


@dataclass(frozen=True)
class CtLstm(Cell):
    """Over the gap before event k the memory cell decays to its target c̄; then the event updates it.

        c(t_k) = c̄_{k-1} + (c_{k-1} - c̄_{k-1}) exp(-δ_{k-1} dt_k)        h(t_k) = o_{k-1} tanh(c(t_k))
        c_k = σ(f) c(t_k) + σ(i) tanh(g)        c̄_k = σ(f̄) c̄_{k-1} + σ(ī) tanh(g)        δ_k = softplus(d)
        o_k = σ(o)        h_k = o_k tanh(c_k)        (i, f, g, o, ī, f̄, d) = W u_k + U h(t_k) + b

    The output is h_k, immediately after the event. (The paper's 2σ(2c) - 1 is tanh(c).)
    """

    reads_gaps: ClassVar[bool] = True
    gates: ClassVar[int] = 7

    def start(self, units, dtype):
        """Return zero h, c, c̄, δ and o."""
        return tuple(constant(0, units, dtype) for _ in range(5))

    def advance(self, parameters, drive, state, dt):
        """Decay the state over the gap, then apply one step."""
        _, c, target, rate, o = state
        c = target + (c - target) * jnp.exp(-rate * dt)
        gates = drive + parameters["U"] @ (o * tanh(c))
        i, f, g, o, target_i, target_f, d = jnp.split(gates, 7)
        g, o = tanh(g), sigmoid(o)
        c = sigmoid(f) * c + sigmoid(i) * g
        target = sigmoid(target_f) * target + sigmoid(target_i) * g
        return o * tanh(c), c, target, softplus(d), o


class CtLstmModel(Architecture, name="ct-lstm"):
    """LSTM whose memory cell decays to a target between events."""

    source = "Mei & Eisner 2017"
    family = "cells"
    settings = bare(CtLstm)
