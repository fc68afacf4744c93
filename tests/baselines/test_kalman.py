"""RKN, RKN-Δt and CRU against Kalman filters with dense covariance matrices in NumPy."""

import numpy as np
import pytest
from scipy.linalg import expm

from s7.baselines.cru import Cru
from s7.baselines.rkn import Rkn, RknDt
from tests.baselines.checks import STATE, against

M, BAND = STATE, 1


def positive(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def diagonals(covariance):
    """The covariance with everything but the diagonals of its four blocks set to zero, as the papers keep it."""
    kept = np.kron(np.ones((2, 2)), np.eye(M))
    return covariance * kept


def filtered(predict, observe=lambda p, drive, gap: drive):
    """The filter in its textbook form: gain Σ Hᵀ (H Σ Hᵀ + R)⁻¹ with H = [I 0]."""

    def written(p, u, dt):
        H, outputs = np.eye(M, 2 * M), []
        mean, covariance = np.zeros(2 * M), 10 * np.eye(2 * M)
        band = np.abs(np.subtract.outer(np.arange(M), np.arange(M))) <= BAND
        for k, (event, gap) in enumerate(zip(u, dt, strict=True)):
            if k:
                weights = np.exp(p["W_alpha"] @ mean + p["b_alpha"])
                blocks = np.einsum("j,jbmn->bmn", weights / weights.sum(), p["A"] * band)
                A = np.block([[blocks[0], blocks[1]], [blocks[2], blocks[3]]])
                mean, covariance = predict(A, mean, covariance, np.diag(positive(p["noise"])), gap)
            active = np.maximum(event, 0)
            active = active / np.hypot(np.linalg.norm(active), 1e-6)
            encoded = observe(p, p["W"] @ active + p["b"], gap)
            gain = covariance @ H.T @ np.linalg.inv(H @ covariance @ H.T + np.diag(positive(encoded[M:])))
            mean = mean + gain @ (encoded[:M] - H @ mean)
            covariance = diagonals((np.eye(2 * M) - gain @ H) @ covariance)
            spread = [np.diag(covariance), np.diag(covariance[M:, :M])]
            outputs.append(np.tanh(p["R"] @ np.concatenate([mean, *spread]) + p["r"]))
        return np.array(outputs)

    return written


def discrete(A, mean, covariance, noise, gap):
    return A @ mean, diagonals(A @ covariance @ A.T + noise)


def continuous(A, mean, covariance, noise, gap):
    # The integral by Gauss-Legendre quadrature.
    nodes, weights = np.polynomial.legendre.leggauss(20)
    times = (nodes + 1) / 2 * gap
    spread = sum(w / 2 * gap * expm(A * t) @ noise @ expm(A * t).T for w, t in zip(weights, times, strict=True))
    factor = expm(A * gap)
    return factor @ mean, diagonals(factor @ covariance @ factor.T + spread)


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (Rkn(basis=3, band=BAND), filtered(discrete)),
        (RknDt(basis=3, band=BAND), filtered(discrete, lambda p, drive, gap: drive + p["v"] * gap)),
        (Cru(basis=3, band=BAND), filtered(continuous)),
    ],
    ids=["rkn", "rkn-dt", "cru"],
)
def test_a_filter(kind, written):
    against(written, kind, tolerance=1e-9)


def test_an_event_after_no_time_is_a_second_measurement():
    """Without a gap CRU does not move: the precisions of two observations add up."""
    import jax
    import jax.numpy as jnp

    layer = Cru(basis=2, band=0).layer(2, 2, key=jax.random.key(0), dtype=jnp.float32)
    u = jnp.ones((2, 2))
    _, state = layer(u[:1], jnp.zeros(1))
    _, again = layer(u, jnp.zeros(2))
    before, after = (1 / np.asarray(s[1][:2]) - 1 / 10 for s in (state, again))
    np.testing.assert_allclose(after, 2 * before, rtol=1e-4)
