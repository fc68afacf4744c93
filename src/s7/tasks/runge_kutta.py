"""SciPy's RK45 for many initial values in parallel, each with its own step sizes.

`scipy.integrate.solve_ivp` solves for one initial value and spends most of its time in Python. Here each operation is
vectorized over all sequences. The method, tolerances, step sizes and interpolation are SciPy's, and the results agree
to rounding.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

Rates = Callable[[Float[np.ndarray, "D N"]], Float[np.ndarray, "D N"]]

SAFETY, LEAST, MOST = 0.9, 0.2, 10.0
EXPONENT = -1 / 5  # of an estimate of fourth order


def solve(
    rates: Rates, initial: Float[np.ndarray, "D N"], times: Float[np.ndarray, " T"], rtol: float, atol: float
) -> Float[np.ndarray, "T D N"]:
    """The states at `times` of an autonomous equation, from the initial states at times[0]."""
    from scipy.integrate import RK45

    A, B, E, P = RK45.A, RK45.B, RK45.E, RK45.P
    end = times[-1]
    result = np.empty((len(times), *initial.shape))
    result[0] = initial
    number = initial.shape[1]
    who, t, y, f = np.arange(number), np.full(number, times[0]), initial, rates(initial)
    h = _first_step(rates, y, f, end - times[0], rtol, atol)
    sample = np.ones(number, int)
    rejected = np.zeros(number, bool)
    while who.size:
        h = np.maximum(h, 10 * np.abs(np.nextafter(t, np.inf) - t))
        after = np.minimum(t + h, end)
        step = after - t
        K = np.empty((7, *y.shape))
        K[0] = f
        for stage in range(1, 6):
            K[stage] = rates(y + step * np.tensordot(A[stage, :stage], K[:stage], 1))
        new = y + step * np.tensordot(B, K[:6], 1)
        K[6] = rates(new)
        scale = atol + np.maximum(np.abs(y), np.abs(new)) * rtol
        error = _size(step * np.tensordot(E, K, 1) / scale)
        good = error < 1
        with np.errstate(divide="ignore"):
            factor = SAFETY * error**EXPONENT
        growth = np.where(rejected, np.minimum(1, factor), np.minimum(MOST, factor))
        h = step * np.where(good, growth, np.maximum(LEAST, factor))

        # The samples that lie in each accepted step, from its interpolant.
        until = np.where(good, np.searchsorted(times, after, side="right"), sample)
        counts = until - sample
        place = np.repeat(np.arange(who.size), counts)
        index = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(sample, counts)
        x = (times[index] - t[place]) / step[place]
        Q = np.tensordot(P.T, K, 1)[..., place]
        result[index, :, who[place]] = (y[:, place] + step[place] * _polynomial(Q, x)).T

        t, y, f = np.where(good, after, t), np.where(good, new, y), np.where(good, K[6], f)
        sample, rejected = until, ~good
        going = t < end
        who, t, h, sample, rejected = who[going], t[going], h[going], sample[going], rejected[going]
        y, f = y[:, going], f[:, going]
    return result


def _polynomial(Q: Float[np.ndarray, "4 D M"], x: Float[np.ndarray, " M"]) -> Float[np.ndarray, "D M"]:
    """Q₁ x + Q₂ x² + Q₃ x³ + Q₄ x⁴."""
    return x * (Q[0] + x * (Q[1] + x * (Q[2] + x * Q[3])))


def _size(q: Float[np.ndarray, "D N"]) -> Float[np.ndarray, " N"]:
    """The root mean square."""
    return np.sqrt(np.mean(q**2, 0))


def _first_step(rates: Rates, y, f, interval: float, rtol: float, atol: float) -> Float[np.ndarray, " N"]:
    """The initial step size: one that changes the state by about 1 %, refined for the requested error."""
    scale = atol + np.abs(y) * rtol
    d0, d1 = _size(y / scale), _size(f / scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        h0 = np.minimum(np.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1), interval)
        d2 = _size((rates(y + h0 * f) - f) / scale) / h0
        flat = (d1 <= 1e-15) & (d2 <= 1e-15)
        h1 = np.where(flat, np.maximum(1e-6, h0 * 1e-3), (0.01 / np.maximum(d1, d2)) ** -EXPONENT)
    return np.minimum(np.minimum(100 * h0, h1), interval)
