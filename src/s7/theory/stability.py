"""Check 1: |a_k| ≤ 1, and the transition product Φ(k, s) = Π a_i decays: ‖Φ(k, s)‖ ≤ M exp(-α (k - s)).

For inputs bounded by |u| ≤ 1 in every entry, w_k of state j can take any value between w_j - S and w_j + S, with
S = Σ_i |W_w[j, i]|, and no other. Its rate lies between

    1 / (a (|w_j| + S)² + b)    and    1 / (a max(|w_j| - S, 0)² + b)

which gives the largest |a_k| that any input can produce. Φ is diagonal, so M = 1, and the worst input keeps w_k at its
worst value. α is minus the logarithm of that largest |a_k| per step, or the smallest rate per unit of time.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from s7.forms import Static
from s7.layer import S7Layer
from s7.theory.check import Check, Make, Point
from s7.theory.parameterizations import Printed
from s7.transitions import Plain, Stable

WIDTH, STATE = 3, 8
SETTINGS = ((1.0, 0.5), (0.5, 0.5), (1.0, 1.0))
GAPS = (None, 1e-3, 1.0, 1e3)
# The modulus of a complex factor has rounding errors.
SLACK = 1e-9
STATEMENT = """With the stable reparameterization every |a_k| is at most 1 for any input and any
parameters, and for bounded inputs ‖Φ(k, s)‖ ≤ M exp(-α (k - s)) with M = 1 and α > 0; in regular time if b >
1/2."""
LIMITS = """The |a_k| that inputs can produce are measured for random layers; that the bound holds for every layer
follows from the formula, not from the measurement. α decreases as 1/(a w² + b) when parameters grow: it is positive for
each model but not bounded away from zero over all models, as a constant independent of w_j would require."""
CAPTION = """Left: |a| over the raw parameter, regular time. Middle: ‖Φ(s + n, s)‖ of a layer over n, under the
input that is worst for it (lines) and under a random one (dotted). Right: where |f(Λ)| > 1 for a complex Λ,
shaded."""


@dataclass(frozen=True)
class Decay:
    """Decay of a layer's memory under bounded inputs: for the worst input, by the formula, and for random inputs."""

    worst: float
    formula: float
    alpha: float
    M: float
    typical: float
    norms: np.ndarray


def check(seed: int = 0, make: Make = Stable, layers: int = 6, length: int = 512) -> Check:
    """Check |a_k| for all w, then Φ of real layers with parameters of all sizes under adversarial inputs."""
    largest, marginal = _largest(make)
    strict = [_decay(make(b=1.0), n, seed, length, timed=False) for n in range(layers)]
    timed = [_decay(make(), n, seed, length, timed=True) for n in range(layers)]
    printed = [_decay(make(), n, seed, length, timed=False) for n in range(layers)]
    plain = _decay(Plain(), 0, seed, length, timed=False)
    growth = {b: _resonance(make(b=b)) for b in (0.5, 1.0)}
    agreeing = _complex_leaves(seed)
    example = float(np.abs(_complex_factor(np.array([-0.5 + 1j])))[0])
    held = max(decay.worst for decay in printed)
    points = [
        Point(
            "|a_k| ≤ 1 for every w_k from 0 to 1e9 and both signs, in both times and precisions, oscillating or not",
            f"largest |a_k| {largest:.12g}",
            largest <= 1 + SLACK,
        ),
        *_fades("regular time, b = 1", strict, "step"),
        *_fades("asynchronous time, b = 1/2", timed, "unit of time"),
        Point(
            "regular time, b = 1/2 as in the paper: Φ decays for random inputs",
            f"α about {min(d.typical for d in printed):.3g} to {max(d.typical for d in printed):.3g} per step",
            min(d.typical for d in printed) > 0 and held <= 1,
        ),
    ]
    return Check(
        name="stability",
        title="Stability",
        statement=STATEMENT,
        points=tuple(points),
        findings=(
            "f(0) = 1 - 1/b is -1 for the paper's b = 1/2: in regular time an input can keep w_k = 0, and that "
            f"state does not decay (largest |a_k| of these layers {held:.6f}, so α = 0). Assumption 2 is violated, and "
            "a bounded input can produce an unbounded state: an alternating input that keeps w_k = 0 drives it to "
            f"{growth[0.5]:,.0f} in 1,000 steps, and to {growth[1.0]:.3g} with b = 1. Asynchronous time is not "
            "affected.",
            "The bound is for real w_k. For complex Λ the printed f leaves the unit disc exactly where |Im Λ| > "
            f"|Re Λ| (a = 1, b = 1/2; true of {agreeing:.0%} of {_SAMPLES:,} random Λ): Λ = -1/2 + i gives |f| = "
            f"{example:.4f}. Oscillating states here have a real w and a separate frequency.",
            f"In floating point 1 - r rounds to 1 from |w| = {marginal['float32']:,.0f} (float32) and "
            f"{marginal['float64']:.2g} (float64) on: such a state does not decay.",
        ),
        limits=LIMITS,
        caption=CAPTION,
        numbers={
            "largest_factor": largest,
            "M": max(d.M for d in strict + timed),
            "alpha_regular_b1": min(d.alpha for d in strict),
            "alpha_asynchronous": min(d.alpha for d in timed),
            "alpha_regular_printed": float(0 - np.log(held)),
            "state_after_1000_held": growth[0.5],
        },
        curves={
            "w": _GRID,
            "factors": {
                setting: np.abs(_factors(make(a=setting[0], b=setting[1], tau=_TAU), _GRID)) for setting in SETTINGS
            },
            "lags": np.arange(1, length + 1),
            "decays": {"b = 1": strict[0], "b = 1/2, as printed": printed[0], "direct (Plain)": plain},
        },
    )


_GRID = np.linspace(-4, 4, 401)
_TAU = (2.0, 50.0)
_SAMPLES = 10_000


def _fades(where: str, decays: list[Decay], unit: str) -> list[Point]:
    apart = max(abs(d.worst / d.formula - 1) for d in decays)
    alpha, M = min(d.alpha for d in decays), max(d.M for d in decays)
    return [
        Point(
            f"{where}: the largest |a_k| over bounded inputs agrees with the formula and is below 1",
            f"largest |a_k| {max(d.worst for d in decays):.6f}, relative difference from the formula {apart:.1g}",
            apart <= SLACK and max(d.worst for d in decays) < 1,
        ),
        Point(
            f"{where}: ‖Φ(k, s)‖ ≤ M exp(-α (k - s)) for lags k - s of powers of two",
            f"M = {M:.6g}, α = {alpha:.3g} per {unit}; under random inputs α is about "
            f"{min(d.typical for d in decays):.3g} to {max(d.typical for d in decays):.3g}",
            M <= 1 + SLACK and alpha > 0 and min(d.typical for d in decays) >= alpha * (1 - SLACK),
        ),
    ]


def _factors(stable: Stable, w: np.ndarray, dt: float | None = None, dtype=jnp.float64) -> np.ndarray:
    """Return a_k of one state for each w."""
    gaps = None if dt is None else jnp.full(len(w), dt, dtype)
    omega = jnp.full(1, 0.3, dtype)
    return np.asarray(stable.discretize({"omega": omega}, jnp.asarray(w, dtype)[:, None], gaps)[0])[:, 0]


def _largest(make: Make) -> tuple[float, dict[str, float]]:
    """Return the largest |a_k| over eighteen decades of w, and the |w| from which 1 - r rounds to 1 per precision."""
    size = np.concatenate([[0.0], np.geomspace(1e-9, 1e9, 3601)])
    w = np.concatenate([-size[::-1], size])
    largest, marginal = 0.0, {}
    for dtype in (jnp.float32, jnp.float64):
        for a, b in SETTINGS:
            for oscillate in (False, True):
                stable = make(a=a, b=b, oscillate=oscillate, tau=_TAU)
                factors = [np.abs(_factors(stable, w, dt, dtype).astype(complex)) for dt in GAPS]
                # The rounding error of a float32 modulus exceeds SLACK.
                allowed = 4 * float(jnp.finfo(dtype).eps) if oscillate else 0.0
                largest = max(largest, *(float(np.max(modulus)) - allowed for modulus in factors))
        settled = _factors(make(), size[1:], None, dtype) >= 1
        marginal[jnp.dtype(dtype).name] = float(size[1:][settled].min(initial=np.inf))
    return largest, marginal


def _decay(transition: Stable | Plain, n: int, seed: int, length: int, *, timed: bool) -> Decay:
    """Measure how the memory of a random layer decays under bounded inputs."""
    rng = np.random.default_rng([seed, n])
    layer = S7Layer(WIDTH, STATE, key=jax.random.key(n), transition=transition, form=Static(), dtype=jnp.float64)
    scale = 10.0 ** rng.uniform(-1, 1, STATE)
    if isinstance(transition, Stable):
        drawn = {
            "w": jnp.asarray(rng.choice([-1, 1], STATE) * scale),
            "W_w": jnp.asarray(rng.normal(size=(STATE, WIDTH)) * scale[:, None]),
        }
        layer = eqx.tree_at(lambda layer: layer.rates, layer, layer.rates | drawn)
    w, W = (np.asarray(layer.rates[name]) for name in ("w", "W_w"))
    adversary = _adversary(w, W)
    one = np.ones(len(adversary)) if timed else None
    worst_of = _moduli(layer, adversary, one).reshape(STATE, -1, STATE)
    worst = max(float(worst_of[j, :, j].max()) for j in range(STATE))
    formula = _formula(transition, w, W, timed) if isinstance(transition, Stable) else worst
    alpha = float(-np.log(worst))

    # Corners and inner points of the box in random order, at random times.
    u = np.where(
        rng.random((length, 1)) < 0.5, rng.choice([-1.0, 1.0], (length, WIDTH)), rng.uniform(-1, 1, (length, WIDTH))
    )
    dt = rng.exponential(1.0, length) if timed else None
    factors = _moduli(layer, u, dt)
    logs = np.concatenate([np.zeros((1, STATE)), np.cumsum(np.log(np.maximum(factors, 1e-300)), 0)])
    times = np.concatenate([[0.0], np.cumsum(np.ones(length) if dt is None else dt)])
    M = 1.0
    for lag in 2 ** np.arange(int(np.log2(length)) + 1):
        norms, gaps = (logs[lag:] - logs[:-lag]).max(1), times[lag:] - times[:-lag]
        M = max(M, float(np.exp(np.max(norms + alpha * gaps))))
    typical = float(-logs[-1].max() / times[-1])
    return Decay(worst, formula, alpha, M, typical, np.exp(logs[1:].max(1)))


def _moduli(layer: S7Layer, u: np.ndarray, dt: np.ndarray | None) -> np.ndarray:
    """Return |a_k| of every state at every step."""
    w = layer.transition.raw(layer.rates, jnp.asarray(u))
    gaps = None if dt is None else jnp.asarray(dt)
    return np.abs(np.asarray(layer.transition.discretize(layer.rates, w, gaps)[0]))


def _adversary(w: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return, for each state, inputs in the box for which w_k covers its range, including zero if possible."""
    steps = np.linspace(-1, 1, 401)
    lines = []
    for j in range(len(w)):
        reach = np.abs(W[j]).sum()
        at_zero = np.clip(-w[j] / reach, -1, 1)
        lines.append(np.append(steps, at_zero)[:, None] * np.where(W[j] < 0, -1.0, 1.0))
    return np.concatenate(lines)


def _formula(stable: Stable, w: np.ndarray, W: np.ndarray, timed: bool) -> float:
    """Return the largest |a_k| that inputs in the box can produce."""
    reach, rate = np.abs(W).sum(1), Printed.of(stable).rate
    slow, fast = rate(np.abs(w) + reach), rate(np.maximum(np.abs(w) - reach, 0))
    return float(np.max(np.exp(-slow) if timed else np.maximum(np.abs(1 - slow), np.abs(1 - fast))))


def _resonance(stable: Stable, steps: int = 1000) -> float:
    """Return the final state for a bounded input that keeps w_k = 0 and drives the state with alternating signs."""
    layer = S7Layer(2, 1, key=jax.random.key(0), transition=stable, form=Static(bias=False), dtype=jnp.float64)
    rates = {"w": jnp.array([-0.5]), "W_w": jnp.array([[1.0, 0.0]])}
    layer = eqx.tree_at(lambda layer: layer.rates, layer, rates)
    layer = eqx.tree_at(lambda layer: layer.maps["B"], layer, jnp.array([[0.0, 1.0]]))
    u = np.stack([np.full(steps, 0.5), (-1.0) ** np.arange(steps)], 1)
    return float(abs(layer(u)[1][0]))


def _complex_factor(spectrum: np.ndarray) -> np.ndarray:
    """Return the printed f for a complex Λ. `Stable` itself only takes real parameters."""
    return 1 - Printed(1.0, 0.5).rate(spectrum)


def _complex_leaves(seed: int) -> float:
    """Return how often |f(Λ)| > 1 and |Im Λ| > |Re Λ| agree, over random Λ with negative real part."""
    rng = np.random.default_rng(seed)
    spectrum = -rng.uniform(0.01, 3, _SAMPLES) + 1j * rng.uniform(-3, 3, _SAMPLES)
    leaves = np.abs(_complex_factor(spectrum)) > 1
    return float(np.mean(leaves == (np.abs(spectrum.imag) > np.abs(spectrum.real))))
