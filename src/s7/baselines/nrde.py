"""Neural rough differential equations: log-signatures of windows drive a neural vector field.

Morrill, Salvi, Kidger & Foster, Neural rough differential equations for long time series, ICML 2021 (arXiv 2009.08295).
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from jax.nn import relu, tanh
from jaxtyping import Array, Float

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell
from s7.contractions import linear
from s7.initialization import Parameters, constant, draw


@dataclass(frozen=True)
class Nrde(Cell):
    """dh = f(h) dlogsig over each window of `window` events, where f(h) = tanh(W₂ relu(W₁ h + b₁) + b₂), H × words.

    The path is a linear map of the inputs to `channels` numbers, with time as a further one, linear between events. The
    signature of the window so far is extended event by event (Chen's identity); its logarithm up to `depth`, at the
    Lyndon words, is constant over the window (the log-ODE method), which one midpoint step integrates. Between the ends
    of windows the output is that of the window so far.

    Args:
        window: Events per window.
        depth: 2 or 3.
        channels: The size of the path without time.
        units: The hidden size of f.
    """

    reads_gaps: ClassVar[bool] = True
    window: int = 8
    depth: Literal[2, 3] = 2
    channels: int = 4
    units: int = 32

    def __post_init__(self):
        if self.depth not in (2, 3):
            raise ValueError(f"Nrde: depth={self.depth} is not 2 or 3")
        for name in ("window", "channels", "units"):
            if getattr(self, name) < 1:
                raise ValueError(f"Nrde: {name}={getattr(self, name)} must be at least 1")

    def init(self, units, *, key, dtype):
        """Draw all maps; the last one of f starts small. Biases are zero."""
        words = len(lyndon_words(self.channels + 1, self.depth))
        maps = {
            "W": ((self.channels, units), 1 / math.sqrt(units)),
            "W_0": ((units, self.channels), 1 / math.sqrt(self.channels)),
            "W_1": ((self.units, units), 1 / math.sqrt(units)),
            "W_2": ((units * words, self.units), 0.3 / math.sqrt(self.units)),
        }
        biases = {"b": self.channels, "b_0": units, "b_1": self.units, "b_2": units * words}
        return draw(maps, key=key, dtype=dtype) | {name: constant(0, size, dtype) for name, size in biases.items()}

    def start(self, units, dtype):
        """h and the window's start, the path there, the signature of nothing, and the count of events (-1: none)."""
        size = self.channels + 1
        zeros = lambda *shape: jnp.asarray(np.zeros(shape), dtype)  # noqa: E731
        signature = tuple(zeros(*[size] * level) for level in range(1, self.depth + 1))
        return zeros(units), zeros(units), zeros(self.channels), constant(-1, 1, dtype), *signature

    def advance(self, parameters, drive, state, dt):
        """Extend the window by one event; the first event of a sequence sets the initial state."""
        _, start, path, count, *signature = state
        first = count < 0
        step = jnp.where(first, 0, jnp.concatenate([drive - path, dt[None]]))
        start = jnp.where(first, linear(parameters["W_0"], drive[None])[0] + parameters["b_0"], start)
        signature = extended(signature, step)
        h = self.integrate(parameters, start, logarithm(signature))
        count = jnp.where(first, 0, count + 1)
        full = count == self.window
        start = jnp.where(full, h, start)
        signature = [jnp.where(full, 0, level) for level in signature]
        return h, start, drive, jnp.where(full, 0, count), *signature

    def integrate(
        self, parameters: Parameters, h: Float[Array, " H"], log_signature: list[Array]
    ) -> Float[Array, " H"]:
        """One midpoint step of dh = f(h) logsig over a unit of time."""
        words = lyndon_words(self.channels + 1, self.depth)
        selected = jnp.stack([log_signature[len(word) - 1][word] for word in words])

        def change(h: Array) -> Array:
            hidden = relu(parameters["W_1"] @ h + parameters["b_1"])
            field = tanh(parameters["W_2"] @ hidden + parameters["b_2"]).reshape(len(h), -1)
            return field @ selected

        return h + change(h + change(h) / 2)


def extended(signature: list[Array], step: Float[Array, " d"]) -> list[Array]:
    """The signature of a path after a further linear piece: S ⊗ exp(step), by levels."""
    powers = [step]
    for level in range(2, len(signature) + 1):
        powers.append(jnp.multiply.outer(powers[-1], step) / level)
    after = []
    for level in range(1, len(signature) + 1):
        mixed = [jnp.multiply.outer(signature[n - 1], powers[level - n - 1]) for n in range(1, level)]
        after.append(signature[level - 1] + sum(mixed, powers[level - 1]))
    return after


def logarithm(signature: list[Array]) -> list[Array]:
    """The logarithm of a signature in the tensor algebra, up to level 3."""
    outer, one = jnp.multiply.outer, signature[0]
    levels = [one, signature[1] - outer(one, one) / 2]
    if len(signature) > 2:
        mixed = outer(one, signature[1]) + outer(signature[1], one)
        levels.append(signature[2] - mixed / 2 + outer(outer(one, one), one) / 3)
    return levels


def lyndon_words(letters: int, depth: int) -> list[tuple[int, ...]]:
    """Words that are smaller than all of their rotations; entries of a log-signature there determine the others."""
    return [
        word
        for length in range(1, depth + 1)
        for word in product(range(letters), repeat=length)
        if all(word < word[n:] + word[:n] for n in range(1, length))
    ]


class NrdeModel(Architecture, name="nrde"):
    """Neural rough differential equation: a vector field driven by log-signatures of windows."""

    source = "Morrill et al. 2021"
    family = "cells"
    settings = bare(Nrde)
