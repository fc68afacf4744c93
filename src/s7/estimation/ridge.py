"""Ridge regression in closed form, with the leave-one-out predictions that come with it.

ŷ = F w + c,   w = argmin |y − F w − c|² + α |w|²        y_i − ŷ_i(without i) = (y_i − ŷ_i) / (1 − h_i)

h_i are the diagonal entries of the matrix that maps y to ŷ. All α are tried on one decomposition.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

PENALTIES = np.logspace(-4, 6, 31)


class Ridge(NamedTuple):
    """The solution: weights (F, O), the constant (O,), and the leave-one-out predictions (N, O)."""

    W: Float[np.ndarray, "F O"]
    c: Float[np.ndarray, " O"]
    left_out: Float[np.ndarray, "N O"]
    penalty: float


def solve(
    features: Float[np.ndarray, "N F"],
    targets: Float[np.ndarray, "N O"],
    penalties: np.ndarray = PENALTIES,
    *,
    largest: float = np.inf,
) -> Ridge:
    """Fit a ridge regression with the penalty that has the smallest squared leave-one-out error.

    Features are standardized first; the weights are those of the features as given.

    Args:
        features: The features.
        targets: The targets.
        penalties: The penalties to choose from.
        largest: The largest penalty, in units of the mean eigenvalue of the matrix of the samples' inner products.
    """
    features = features.astype(np.float64)
    mean, spread = features.mean(0), features.std(0)
    # A feature that hardly varies would be a feature of its rounding errors.
    spread = np.where(spread > 1e-6, spread, np.inf)
    z = (features - mean) / spread / np.sqrt(features.shape[1])
    centre = targets.mean(0)
    y = targets - centre
    wide = z.shape[1] >= z.shape[0]
    values, vectors = np.linalg.eigh(z @ z.T if wide else z.T @ z)
    values = np.maximum(values, 0)
    # Coordinates of the samples along the eigenvectors, and of the targets.
    along = vectors if wide else z @ (vectors / np.sqrt(np.maximum(values, 1e-12)))
    along = along[:, values > 1e-10]
    values = values[values > 1e-10]
    seen = along.T @ y
    best: tuple[float, float, np.ndarray] | None = None
    candidates = penalties / features.shape[1] * len(features)
    limit = largest * max(float(values.sum()) / len(y), 1e-12)
    for penalty in candidates[candidates <= max(limit, candidates.min())]:
        shrink = values / (values + penalty)
        fitted = along @ (shrink[:, None] * seen)
        leverage = (along**2) @ shrink + 1 / len(y)
        left_out = y - (y - fitted) / np.maximum(1 - leverage, 1e-6)[:, None]
        error = float(((y - left_out) ** 2).mean())
        if best is None or error < best[0]:
            best = error, float(penalty), left_out
    assert best is not None
    _, penalty, left_out = best
    weights = z.T @ (along @ (seen / (values + penalty)[:, None]))
    W = weights / spread[:, None] / np.sqrt(features.shape[1])
    return Ridge(W, centre - mean @ W, left_out + centre, penalty)
