"""Continuous recurrent units: a recurrent Kalman network whose latent state follows a stochastic differential equation.

Schirmer et al., Modeling irregular time series with continuous recurrent units, ICML 2022 (arXiv 2111.11344).
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import elu
from jaxtyping import Array, Float

from s7.baselines.architecture import Architecture, bare
from s7.baselines.rkn import Rkn

# Terms of the Taylor series, and how often the step is doubled. In single precision they are exact to rounding up to
# |A| dt of about 100.
_TERMS, _DOUBLINGS = 7, 8


@dataclass(frozen=True)
class Cru(Rkn):
    """RKN with dz = A z dt + dβ between events, where β has the diagonal covariance Q per unit of time:

        z ← exp(A dt) z        Σ ← diagonals of (exp(A dt) Σ exp(A dt)ᵀ + ∫₀^dt exp(A s) Q exp(A s)ᵀ ds)

    A is the weighted mean of the matrices A_j, as in RKN. The paper computes both terms from one exponential of a
    matrix of twice the size. Here they are Taylor series over dt / 256, doubled eight times, with fewer products.
    """

    reads_gaps: ClassVar[bool] = True

    def start_matrix(self, m):
        """A slow damped rotation between both halves of the state."""
        return np.stack([-0.1 * np.eye(m), 0.2 * np.eye(m), -0.2 * np.eye(m), -0.1 * np.eye(m)])

    def predict(self, parameters, mean, covariance, dt):
        """The mean and the covariance after the gap."""
        m = self.latent
        A = jnp.block([[*blocks] for blocks in self.transition(parameters, mean).reshape(2, 2, m, m)])
        factor, noise = _propagate(A, elu(parameters["noise"]) + 1, dt)
        u, l, s = jnp.split(covariance, 3)
        left, right = factor[:, :m], factor[:, m:]
        spread = jnp.concatenate([left * u + right * s, left * s + right * l], axis=1)  # exp(A dt) Σ
        variances = jnp.sum(spread * factor, axis=1) + jnp.diag(noise)
        side = jnp.sum(spread[m:] * factor[:m], axis=1) + jnp.diag(noise[m:, :m])
        return factor @ mean, jnp.concatenate([variances, side])


@jax.checkpoint  # the terms of the series are not kept for every event
def _propagate(
    A: Float[Array, "Z Z"], Q: Float[Array, " Z"], dt: Float[Array, ""]
) -> tuple[Float[Array, "Z Z"], Float[Array, "Z Z"]]:
    """exp(A dt), and the integral of exp(A s) diag(Q) exp(A s)ᵀ over s from 0 to dt.

    The integral is Σ_k dt^(k+1) L^k(Q) / (k+1)! with L(X) = A X + X Aᵀ.
    """
    step = dt / 2**_DOUBLINGS
    power = factor = jnp.eye(len(A), dtype=A.dtype)
    term = noise = jnp.diag(Q) * step
    for k in range(1, _TERMS):
        power = A @ power * (step / k)
        factor = factor + power
        half = A @ term * (step / (k + 1))
        term = half + half.T
        noise = noise + term
    for _ in range(_DOUBLINGS):
        noise = noise + factor @ noise @ factor.T
        factor = factor @ factor
    return factor, noise


class CruModel(Architecture, name="cru"):
    """Continuous recurrent unit: Kalman filter with a linear stochastic differential equation between events."""

    source = "Schirmer et al. 2022"
    family = "cells"
    settings = bare(Cru, state=15)
