"""Recurrent Kalman networks: a Kalman filter in a latent space whose covariances are diagonal.

Becker et al., Recurrent Kalman networks: Factorized inference in high-dimensional deep feature spaces, ICML 2019
(arXiv 1905.07357).
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax.nn import elu, relu, softmax
from jaxtyping import Array, Float

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell, CellLayer
from s7.contractions import linear
from s7.initialization import Parameters, constant, draw, split

# The variance of the state before the first observation.
_INITIAL_VARIANCE = 10.0
# Added to the length of activations, so that it is never zero.
_SHORTEST = 1e-6


@dataclass(frozen=True)
class Rkn(Cell):
    """A filter for m latent observations w_k with variances r_k, and a state of 2m: the observed half and the rest.

    The covariance of the state has three diagonals: of the upper half (u), of the lower half (l), and between them (s).

        h_k = relu(x_k) / ‖relu(x_k)‖        (w_k, ρ_k) = W h_k + b        r_k = elu(ρ_k) + 1
        q = σᵤ / (σᵤ + r_k)           zᵤ += q (w_k - zᵤ)        z_l += (σ_s / (σᵤ + r_k)) (w_k - zᵤ)
        A = Σ_j softmax(W_α z + b_α)_j A_j        z ← A z       Σ ← diagonals of (A Σ Aᵀ + noise)

    The A_j are four banded blocks. The output is tanh(R (z, Σ) + r) of the updated mean and diagonals, the hidden layer
    of the published decoder, which has separate halves for the mean and the variance of the target. Time gaps are
    ignored. On images, the published encoder is `ImageEncoder` with 30 features x_k, of which h_k is the last layer.

    Args:
        basis: The number of matrices A_j.
        band: The number of diagonals on either side of the main one.
        latent: m; 0 for the model's state size.
    """

    basis: int = 15
    band: int = 3
    latent: int = 0

    def __post_init__(self):
        for name, least in (("basis", 1), ("band", 0), ("latent", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{type(self).__name__}: {name}={getattr(self, name)} must be at least {least}")

    def layer(self, width, state, *, key, dtype):
        """Make a layer for `state` latent observations."""
        return CellLayer(replace(self, latent=self.latent or state), width, key=key, dtype=dtype)

    def init(self, units, *, key, dtype):
        """Draw the maps; the matrices A_j start near a slow rotation between both halves of the state."""
        m, K = self.latent, self.basis
        shapes = {"W": (2 * m, units), "W_alpha": (K, 2 * m), "R": (units, 5 * m)}
        maps = {name: (shape, 1 / math.sqrt(shape[1])) for name, shape in shapes.items()}
        parameters = draw(maps | {"A": ((K, 4, m, m), 0.05)}, key=key, dtype=dtype)
        return parameters | {
            "A": parameters["A"] * _band(m, self.band) + jnp.asarray(self.start_matrix(m), dtype),
            "b": constant(0, 2 * m, dtype),
            "b_alpha": constant(0, K, dtype),
            "noise": constant(math.log(0.1), 2 * m, dtype),
            "r": constant(0, units, dtype),
        }

    def start_matrix(self, m: int) -> np.ndarray:
        """The four blocks that the matrices A_j start at."""
        return np.stack([np.eye(m), 0.2 * np.eye(m), -0.2 * np.eye(m), np.eye(m)])

    def start(self, units, dtype):
        """Return mean and covariance before the first event, and that there was none."""
        m = self.latent
        variances = np.repeat([_INITIAL_VARIANCE, _INITIAL_VARIANCE, 0.0], m)
        return constant(0, 2 * m, dtype), jnp.asarray(variances, dtype), constant(0, 1, dtype)

    def advance(self, parameters, drive, state, dt):
        """Predict from the previous event to this one, unless it is the first, and update."""
        mean, covariance, started = state
        predicted = self.predict(parameters, mean, covariance, dt)
        mean, covariance = (
            jnp.where(started > 0, new, old) for new, old in zip(predicted, (mean, covariance), strict=True)
        )
        observed, variance = jnp.split(self.observe(parameters, drive, dt), 2)
        return *update(mean, covariance, observed, elu(variance) + 1), jnp.ones_like(started)

    def drive(self, parameters, u):
        """The end of the encoder: activations of unit length, and an affine map."""
        h = relu(u)
        length = jnp.sqrt(jnp.sum(h * h, axis=1, keepdims=True) + _SHORTEST**2)
        return linear(parameters["W"], h / length) + parameters["b"]

    def observe(self, parameters: Parameters, drive: Float[Array, " Z"], dt: Float[Array, ""]) -> Array:
        """The latent observation and the raw parameter of its variance."""
        return drive

    def transition(self, parameters: Parameters, mean: Float[Array, " Z"]) -> Float[Array, "4 M M"]:
        """The four blocks of A, the mean of the matrices A_j weighted by the state."""
        weights = softmax(parameters["W_alpha"] @ mean + parameters["b_alpha"])
        band = jnp.asarray(_band(self.latent, self.band), mean.dtype)
        return jnp.tensordot(weights, parameters["A"], 1) * band

    def predict(
        self, parameters: Parameters, mean: Float[Array, " Z"], covariance: Float[Array, " V"], dt: Array
    ) -> tuple[Float[Array, " Z"], Float[Array, " V"]]:
        """The mean and the covariance before the next event."""
        A11, A12, A21, A22 = self.transition(parameters, mean)
        upper, lower = jnp.split(mean, 2)
        u, l, s = jnp.split(covariance, 3)
        noise = elu(parameters["noise"]) + 1
        spread = (
            (A11 * A11) @ u + 2 * (A11 * A12) @ s + (A12 * A12) @ l,
            (A21 * A21) @ u + 2 * (A21 * A22) @ s + (A22 * A22) @ l,
            (A21 * A11) @ u + (A22 * A11 + A21 * A12) @ s + (A22 * A12) @ l,
        )
        mean = jnp.concatenate([A11 @ upper + A12 @ lower, A21 @ upper + A22 @ lower])
        return mean, jnp.concatenate(spread) + jnp.pad(noise, (0, self.latent))

    def read(self, state):
        """Return mean and covariance."""
        return jnp.concatenate(state[:2])

    def output(self, parameters, read):
        """The hidden layer of the decoder, from mean and covariance."""
        return jnp.tanh(linear(parameters["R"], read) + parameters["r"])


def update(
    mean: Float[Array, " Z"], covariance: Float[Array, " V"], observed: Float[Array, " M"], variance: Array
) -> tuple[Float[Array, " Z"], Float[Array, " V"]]:
    """The mean and the covariance after an observation of the upper half of the state."""
    upper, lower = jnp.split(mean, 2)
    u, l, s = jnp.split(covariance, 3)
    gain, side_gain, residual = u / (u + variance), s / (u + variance), observed - upper
    mean = jnp.concatenate([upper + gain * residual, lower + side_gain * residual])
    return mean, jnp.concatenate([(1 - gain) * u, l - side_gain * s, (1 - gain) * s])


def _band(m: int, band: int) -> np.ndarray:
    return (np.abs(np.subtract.outer(np.arange(m), np.arange(m))) <= band).astype(float)


class RknModel(Architecture, name="rkn"):
    """Recurrent Kalman network: factorized Kalman filter in a latent space."""

    source = "Becker et al. 2019"
    family = "cells"
    settings = bare(Rkn, state=15)


@dataclass(frozen=True)
class RknDt(Rkn):
    """RKN whose encoder reads the gap before each event as a further input: (w_k, ρ_k) = W h_k + v dt_k + b.

    Used as a baseline by Schirmer et al. 2022.
    """

    reads_gaps: ClassVar[bool] = True

    def init(self, units, *, key, dtype):
        """Draw the parameters of RKN, and v."""
        rkn_key, gap_key = split(key, 2)
        gap = draw({"v": ((2 * self.latent,), 1 / math.sqrt(units))}, key=gap_key, dtype=dtype)
        return super().init(units, key=rkn_key, dtype=dtype) | gap

    def observe(self, parameters, drive, dt):
        """With the gap."""
        return drive + parameters["v"] * dt


class RknDtModel(Architecture, name="rkn-dt"):
    """RKN that reads the gaps as inputs."""

    source = "Becker et al. 2019, Schirmer et al. 2022"
    family = "cells"
    settings = bare(RknDt, state=15)
