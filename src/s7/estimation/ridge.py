"""Ridge regression in closed form, with the leave-one-out predictions that come with it.

ŷ = F w + c,   w = argmin |y − F w − c|² + α |w|²        y_i − ŷ_i(without i) = (y_i − ŷ_i) / (1 − h_i)

h_i are the diagonal entries of the matrix that maps y to ŷ. All α are tried on one decomposition F Fᵀ = V diag(λ) Vᵀ of
the standardized features, in which y − ŷ = V diag(q) Vᵀ y and 1 − h_i = Σ_j V_ij² q_j with q_j = α / (λ_j + α). Both
are computed from q: with few samples and a small α, the differences y − ŷ and 1 − h are lost in rounding.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

PENALTIES = np.logspace(-4, 6, 31)


class Ridge(NamedTuple):
    """The solution: weights (F, O) of each block, the constant (O,), and the leave-one-out predictions (N, O)."""

    W: list[Float[np.ndarray, "_ O"]]
    c: Float[np.ndarray, " O"]
    left_out: Float[np.ndarray, "N O"]
    penalty: float


def solve(
    blocks: Sequence[Float[np.ndarray, "N _"]],
    targets: Float[np.ndarray, "N O"],
    penalties: np.ndarray = PENALTIES,
    *,
    largest: float = np.inf,
) -> Ridge:
    """Fit a ridge regression with the penalty that has the smallest squared leave-one-out error.

    Features are standardized first; the weights are those of the features as given.

    Args:
        blocks: The features, in one or several blocks.
        targets: The targets.
        penalties: The penalties to choose from.
        largest: The largest penalty, in units of the mean eigenvalue of the matrix of the samples' inner products.
    """
    total = sum(block.shape[1] for block in blocks)
    gram = sum(_inner_products(block) * (block.shape[1] / total) for block in blocks)
    found = _least_error(np.asarray(gram), targets, penalties / total * len(targets), largest)
    W, c = [], targets.mean(0)
    # One block after the other, so that no more than one is in memory as float64.
    for block in blocks:
        z, mean, spread = _standardized(block)
        W.append(z.T @ found.dual * np.sqrt(block.shape[1]) / spread[:, None] / total)
        c = c - mean @ W[-1]
    return Ridge(W, c, found.left_out, found.penalty)


def best_blocks(
    blocks: Sequence[Float[np.ndarray, "N _"]],
    targets: Float[np.ndarray, "N O"],
    candidates: Sequence[tuple[int, ...]],
    *,
    largest: float = np.inf,
) -> tuple[int, ...]:
    """The candidate whose blocks together have the smallest squared leave-one-out error; the first of several.

    Args:
        blocks: The features, in blocks.
        targets: The targets.
        candidates: Indices of blocks.
        largest: As for `solve`.
    """
    grams = [_inner_products(block) for block in blocks]
    errors = []
    for chosen in candidates:
        total = sum(blocks[n].shape[1] for n in chosen)
        gram = sum(grams[n] * (blocks[n].shape[1] / total) for n in chosen)
        errors.append(_least_error(np.asarray(gram), targets, PENALTIES / total * len(targets), largest).error)
    return candidates[int(np.argmin(errors))]


class _Solution(NamedTuple):
    error: float
    penalty: float
    left_out: Float[np.ndarray, "N O"]
    dual: Float[np.ndarray, "N O"]


def _standardized(features: Float[np.ndarray, "N F"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features whose squares have the mean 1 / F, the means and the standard deviations."""
    features = features.astype(np.float64)
    mean, spread = features.mean(0), features.std(0)
    # A feature that hardly varies would be a feature of its rounding errors.
    spread = np.where(spread > 1e-6, spread, np.inf)
    return (features - mean) / spread / np.sqrt(features.shape[1]), mean, spread


def _inner_products(features: Float[np.ndarray, "N F"]) -> Float[np.ndarray, "N N"]:
    z = _standardized(features)[0]
    return z @ z.T


def _least_error(
    gram: Float[np.ndarray, "N N"], targets: Float[np.ndarray, "N O"], penalties: np.ndarray, largest: float
) -> _Solution:
    """The solution with the penalty that has the smallest squared leave-one-out error."""
    centre = targets.mean(0)
    y = targets - centre
    values, vectors = np.linalg.eigh(gram)
    # The features are centred, so the constant is among the directions without features.
    informative = values > 1e-10 * max(1.0, float(values[-1]))
    values, vectors = values[informative], vectors[:, informative]
    seen = vectors.T @ y
    unseen = y - vectors @ seen
    unseen_leverage = np.maximum(1 - 1 / len(y) - (vectors**2).sum(1), 0)
    limit = largest * max(float(values.sum()) / len(y), 1e-12)
    best: _Solution | None = None
    for penalty in penalties[penalties <= max(limit, penalties.min())]:
        q = penalty / (values + penalty)
        residual = unseen + vectors @ (q[:, None] * seen)
        left_out = y - residual / np.maximum(unseen_leverage + (vectors**2) @ q, 1e-12)[:, None]
        error = float(((y - left_out) ** 2).mean())
        if best is None or error < best.error:
            dual = vectors @ (seen / (values + penalty)[:, None])
            best = _Solution(error, float(penalty), left_out + centre, dual)
    assert best is not None
    return best
