"""Continuous recurrent units: a recurrent Kalman network whose latent state follows a stochastic differential equation.

Schirmer et al., Modeling irregular time series with continuous recurrent units, ICML 2022 (arXiv 2111.11344).
"""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax.nn import elu
from jax.scipy.linalg import expm

from s7.baselines.architecture import Architecture, bare
from s7.baselines.rkn import Rkn


@dataclass(frozen=True)
class Cru(Rkn):
    """RKN with dz = A z dt + dβ between events, where β has the diagonal covariance Q per unit of time:

        z ← exp(A dt) z        Σ ← diagonals of (exp(A dt) Σ exp(A dt)ᵀ + ∫₀^dt exp(A s) Q exp(A s)ᵀ ds)

    The exponential and the integral come from one exponential of a matrix of twice the size (Van Loan's formula, the
    paper's equation 18). A is the weighted mean of the matrices A_j, as in RKN.
    """

    reads_gaps: ClassVar[bool] = True

    def start_matrix(self, m):
        """A slow damped rotation between both halves of the state."""
        return np.stack([-0.1 * np.eye(m), 0.2 * np.eye(m), -0.2 * np.eye(m), -0.1 * np.eye(m)])

    def predict(self, parameters, mean, covariance, dt):
        """The mean and the covariance after the gap."""
        m = self.latent
        A = jnp.block([[*blocks] for blocks in self.transition(parameters, mean).reshape(2, 2, m, m)])
        Q = jnp.diag(elu(parameters["noise"]) + 1)
        both = expm(jnp.block([[A, Q], [jnp.zeros_like(A), -A.T]]) * dt)
        factor = both[: 2 * m, : 2 * m]
        u, l, s = (jnp.diag(q) for q in jnp.split(covariance, 3))
        spread = factor @ jnp.block([[u, s], [s, l]]) @ factor.T + both[: 2 * m, 2 * m :] @ factor.T
        return factor @ mean, jnp.concatenate([jnp.diag(spread), jnp.diag(spread[m:, :m])])


class CruModel(Architecture, name="cru"):
    """Continuous recurrent unit: Kalman filter with a linear stochastic differential equation between events."""

    source = "Schirmer et al. 2022"
    family = "cells"
    settings = bare(Cru, state=15)
