"""Alternative parameterizations of the rate r = -f(w) of a state that decays as exp(-r t), compared with `Stable`.

Each is computed with `Plain`, which in asynchronous time has a_k = exp((p - 1) dt_k) for its parameter p. With
p = 1 - r the layer has the rate r, and its gradient is that of `Plain` times ∂p/∂w.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from s7.transitions import Stable

# Avoids overflow of exp(w). States with such rates forget immediately.
_LARGEST = 50.0


@dataclass(frozen=True)
class Parameterization:
    """A rate as a function of the raw parameter, and the raw parameter for a time constant τ = 1/r."""

    name: str
    rate: Callable[[jax.Array], jax.Array]
    raw: Callable[[np.ndarray], np.ndarray]

    def plain(self, w: jax.Array) -> jax.Array:
        """Return the parameter of `Plain` with the same rate."""
        return 1 - self.rate(w)

    def slope(self, w: np.ndarray) -> np.ndarray:
        """Return f'(w) = -∂r/∂w."""
        return -np.asarray(jax.vmap(jax.grad(self.rate))(jnp.asarray(w)))

    def time(self, w: np.ndarray) -> np.ndarray:
        """Return τ = 1/r: infinite for a zero rate, negative (and meaningless) for a growing state."""
        rate = np.asarray(self.rate(jnp.asarray(w)))
        return np.divide(1.0, rate, out=np.full_like(rate, np.inf), where=rate != 0)


@dataclass(frozen=True)
class Printed:
    """The paper's formulas for `Stable`, independent of the code that a check tests."""

    a: float
    b: float

    @classmethod
    def of(cls, stable: Stable) -> "Printed":
        """Return the formulas with the constants of a transition."""
        return cls(stable.a, stable.b)

    def rate(self, w: np.ndarray) -> np.ndarray:
        """r(w) = 1 / (a w² + b)."""
        return 1 / (self.a * w * w + self.b)

    def slope(self, w: np.ndarray) -> np.ndarray:
        """|f'(w)| = 2a|w| r²."""
        return 2 * self.a * np.abs(w) * self.rate(w) ** 2

    def raw(self, tau: np.ndarray) -> np.ndarray:
        """The w ≥ 0 whose time constant 1/r(w) is τ."""
        return np.sqrt((tau - self.b) / self.a)


DIRECT = Parameterization("direct (Plain)", lambda w: 1 - w, lambda tau: 1 - 1 / tau)
EXPONENTIAL = Parameterization("exp", lambda w: jnp.exp(jnp.minimum(w, _LARGEST)), lambda tau: -np.log(tau))
SOFTPLUS = Parameterization("softplus", jax.nn.softplus, lambda tau: np.log(np.expm1(1 / tau)))
ALTERNATIVES = (DIRECT, EXPONENTIAL, SOFTPLUS)
