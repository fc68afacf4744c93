"""Check 3: the gradient-over-weight ratio G_f(w) = |f'(w)| / f(w)² is 2a|w|.

The paper solves f' = 2a w f² and finds f(w) = -1/(a w² + b), the continuous form: f' = 2a w / (a w² + b)². `Stable`
uses it in both regular and asynchronous time. Its gain "rate" is g = -f, and its factor is

    regular time       a_k = 1 + f(w)              ∂a/∂w = f'(w)
    asynchronous       a_k = exp(f(w) dt)          ∂a/∂w = f'(w) dt a_k

so (∂a/∂w) / g², in asynchronous time also divided by dt a_k, must equal 2a w up to rounding, including its sign.
"""

import jax
import jax.numpy as jnp
import numpy as np

from s7.theory.check import Check, Make, Point
from s7.theory.parameterizations import ALTERNATIVES, Parameterization, Printed
from s7.transitions import Stable

SETTINGS = ((1.0, 0.5), (0.5, 0.5), (1.0, 1.0))
# The identity takes about ten operations, each with one rounding error.
ROUNDINGS = 16
EPS = float(np.finfo(np.float64).eps)


def check(seed: int = 0, make: Make = Stable, points: int = 601) -> Check:
    """Check the identity over six decades of w, for the paper's a and b and for random ones."""
    rng = np.random.default_rng(seed)
    drawn = [(float(a), float(b)) for a, b in zip(rng.uniform(0.1, 3, 3), rng.uniform(0.5, 3, 3), strict=True)]
    size = np.geomspace(1e-3, 1e3, points)
    w = np.concatenate([-size[::-1], size])
    errors = {
        time: max(_error(make, a, b, w, dt) for a, b in (*SETTINGS, *drawn))
        for time, dt in (("regular", None), ("asynchronous", 1.0))
    }
    found = [
        Point(
            f"G_f(w) = 2a|w| in {time} time, for |w| from 0.001 to 1,000, a from 0.1 to 3 and b from 0.5 to 3",
            f"largest relative error {error / EPS:.3g} ε (ε = {EPS:.2g}, allowed {ROUNDINGS} ε)",
            error <= ROUNDINGS * EPS,
        )
        for time, error in errors.items()
    ]
    default = make(gain="rate")
    root = Printed.of(default).raw(np.ones(1))[0]
    near = root * (1 + 1e-6)
    tau = np.geomspace(2, 1e6, 200)
    return Check(
        name="weight-ratio",
        title="The gradient-over-weight ratio",
        statement="G_f(w) = |f'(w)| / f(w)² = 2a|w| for the continuous form f(w) = -1/(a w² + b).",
        points=tuple(found),
        findings=(
            "The identity holds for the continuous form. For the discrete form, which the paper also prints, "
            f"f(w) = 1 - 1/(a w² + b), |f'|/f² = 2a|w|/(a w² + b - 1)², which is infinite where f = 0, at "
            f"|w| = {root:.4f} for a = 1, b = 1/2 (one millionth away it is "
            f"{float(_discrete(default, np.array([near]))[0]):.2g}). For that form, |f'|/(1 - f)² is 2a|w|.",
        ),
        limits=(
            "This is an identity of two formulas, tested numerically. It shows that the code computes the printed "
            "function and its derivative, but says nothing about training."
        ),
        caption=(
            "The ratio |f'|/f², from the derivatives of the code itself. Left, over the raw parameter: the line 2a|w| "
            "in the continuous form, a pole in the discrete one. Right, over the time constant of the "
            "state: the longer the memory, the larger the ratio of the other parameterizations."
        ),
        numbers={f"error_{time}_eps": error / EPS for time, error in errors.items()},
        curves={
            "w": size,
            "continuous": np.abs(_ratio(default, size, 1.0)),
            "discrete": _discrete(default, size),
            "slope": 2 * default.a,
            "tau": tau,
            "stable": np.abs(_ratio(default, Printed.of(default).raw(tau), 1.0)),
            "alternatives": {alternative.name: _of_alternative(alternative, tau) for alternative in ALTERNATIVES},
        },
    )


def _error(make: Make, a: float, b: float, w: np.ndarray, dt: float | None) -> float:
    expected = 2 * a * w
    return float(np.max(np.abs(_ratio(make(a=a, b=b, gain="rate", tau=(b, 50.0)), w, dt) / expected - 1)))


def _ratio(stable: Stable, w: np.ndarray, dt: float | None) -> np.ndarray:
    """Return f'/f² with its sign, from the transition's factor, its derivative and its gain."""
    gap = None if dt is None else jnp.full(1, dt)

    def factor_and_gain(w):
        a, g = stable.discretize({}, w[None, None], gap)
        return a[0, 0], g[0, 0]

    (a, g), (slope, _) = jax.vmap(lambda w: jax.jvp(factor_and_gain, (w,), (jnp.ones_like(w),)))(jnp.asarray(w))
    slope = slope if dt is None else slope / (dt * a)
    return np.asarray(slope) / np.asarray(g) ** 2


def _discrete(stable: Stable, w: np.ndarray) -> np.ndarray:
    """Return |f'|/f² where f is the factor of regular time."""
    a, g = (np.asarray(q)[:, 0] for q in stable.discretize({}, jnp.asarray(w)[:, None], None))
    return np.abs(_ratio(stable, w, None)) * g**2 / a**2


def _of_alternative(alternative: Parameterization, tau: np.ndarray) -> np.ndarray:
    """Return |f'|/f² at the parameter with time constant τ."""
    return np.abs(alternative.slope(alternative.raw(tau))) * tau**2
