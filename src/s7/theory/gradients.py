"""Check 2: Theorem 2, a bound on the gradient with respect to a raw parameter, with the proof's constant written out.

The theorem says |∂Loss/∂w_j| ≤ C |f'(w_j)|. Its proof has C = K_c (M/α) K_x, where K_c bounds the readout, K_x the
state, and α is the decay rate of Φ. Both α and K_x depend on w_j: a state that decays at the rate |f| has α = |f| and
K_x = K_v/|f| for a drive of size K_v. For a static spectrum the proof therefore shows

    |∂Loss/∂w_j| ≤ K |f'(w_j)| / f(w_j)² = K G_f(w_j),          K = K_c K_v,

which is 2a|w_j| K for f(w) = -1/(a w² + b): the ratio of gradient to weight is at most 2aK for any w_j, input and
length. On L steps the constant K L(L - 1)/2 does not depend on w_j. If the spectrum depends on the input, f' is taken
at w_k = w + W u_k, and with the largest |a_k| = A

    |∂Loss/∂w_j| ≤ K S² max_k |f'(w_k)|,                        S = min(1/(1 - A), L).

The loss is the theorem's, sup_k |H_k(u) - y_k|, with a slowly decaying target H. Gradients are those of real layers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from s7.theory.check import Check, Make, Point
from s7.theory.parameterizations import ALTERNATIVES, Printed
from s7.theory.sweeps import SLOW, Problem, Selective, Sweep
from s7.transitions import Stable

SLACK = 1e-9
STATEMENT = """|∂Loss/∂w_j| ≤ C |f'(w_j)|. With the proof's constant written out the right side is K |f'|/f²,
where K bounds readout times drive. So the gradient over the weight is at most 2aK for Stable, for every w_j and
every length; other parameterizations have no such bound."""
LIMITS = """The sample is random layers, one parameter of each, and three inputs (constant, random signs,
alternating). The constant input attains the bound, so no other input can exceed it for a static spectrum. That the
alternatives grow without bound is extrapolated from memories up to a tenth of the sequence, and bounded gradients do
not imply that training succeeds."""
CAPTION = """Over the memory τ = 1/|f(w_j)| of the state whose parameter is swept, without a gain. Left: the
theorem's ratio as printed, the same for all parameterizations. Right: the gradient over the weight, which differs
between them; the peaks are at w_j = 0. The length of the sequence, dotted, limits both."""


@dataclass(frozen=True)
class Measured:
    """Sweeps of static layers without gain (`Stable` in three settings, and the alternatives), and other sweeps."""

    stable: Mapping[str, Sweep]
    alternatives: Mapping[str, Sweep]
    selective: Selective
    with_gain: Mapping[str, Sweep]


def check(seed: int = 0, make: Make = Stable, models: int = 3, length: int = 4096, points: int = 41) -> Check:
    """Sweep one w_j of random layers over six decades, for `Stable` and other parameterizations."""
    size = np.geomspace(1e-3, 1e3, points)
    w = np.concatenate([-size[::-1], size])
    memories = np.geomspace(2, 1e6, points)
    problem = Problem(seed, models, length)
    stable = make(gain=None, selective=False)
    # Six decades of w miss the slow states of the alternatives, which for `Plain` are near w = 1.
    values = {alternative: np.concatenate([w, alternative.raw(memories)]) for alternative in ALTERNATIVES}
    measured = Measured(
        stable={
            "asynchronous": problem.stable(stable, w, timed=True),
            "regular, b = 1": problem.stable(replace(stable, b=1.0), w, timed=False),
            "regular, b = 1/2": problem.stable(stable, w, timed=False),
        },
        alternatives={
            alternative.name: problem.alternative(alternative, at, gain=None) for alternative, at in values.items()
        },
        selective=problem.selective(make(gain=None), w),
        with_gain={"Stable": problem.stable(replace(stable, gain="rate"), w, timed=True)}
        | {alternative.name: problem.alternative(alternative, at, gain="rate") for alternative, at in values.items()},
    )
    ours = measured.stable["asynchronous"]
    return Check(
        name="gradients",
        title="Theorem 2: gradients",
        statement=STATEMENT,
        points=(
            *(
                point
                for name in ("asynchronous", "regular, b = 1")
                for point in _bounded(name, measured, stable, length)
            ),
            *(_unbounded(name, sweep, stable, length) for name, sweep in measured.alternatives.items()),
            _follows(measured.selective),
        ),
        findings=_findings(measured, stable, length),
        limits=LIMITS,
        caption=CAPTION,
        numbers={
            "stable_over_slope": float(np.max(ours.over_slope)),
            "stable_over_weight": float(np.max(ours.over_weight)),
            "bound_over_weight": 2 * stable.a,
            "stable_growth": ours.growth(length),
            **{f"{name.split()[0]}_growth": sweep.growth(length) for name, sweep in measured.alternatives.items()},
            "selective_quotient": float(np.max(measured.selective.quotient)),
        },
        curves={"stable": ours, "alternatives": measured.alternatives, "a": stable.a, "length": length},
    )


def _bounded(name: str, measured: Measured, stable: Stable, length: int) -> list[Point]:
    sweep, longest, bound = measured.stable[name], length * (length - 1) / 2, 2 * stable.a
    printed, ratio = float(np.max(sweep.over_slope)), float(np.max(sweep.over_weight))
    quotient = float(np.max(sweep.over_slope / sweep.tau**2))
    return [
        Point(
            f"Stable, {name}: |∂Loss/∂w_j| ≤ C |f'(w_j)| for |w_j| from 0.001 to 1,000, on {length:,} steps",
            f"largest |∂Loss/∂w_j|/(K|f'|) {printed:.4g}, bound L(L - 1)/2 = {longest:.4g}",
            printed <= longest * (1 + SLACK),
        ),
        Point(
            f"Stable, {name}: |∂Loss/∂w_j| ≤ K |f'|/f², independent of the length",
            f"largest quotient of the two sides {quotient:.6f}",
            quotient <= 1 + SLACK,
        ),
        Point(
            f"Stable, {name}: the gradient over the weight is at most 2aK",
            f"largest |∂Loss/∂w_j|/(K|w_j|) {ratio:.6f}, bound {bound:g}; grows as τ^{_power(sweep, length)}",
            ratio <= bound * (1 + SLACK),
        ),
    ]


def _unbounded(name: str, sweep: Sweep, stable: Stable, length: int) -> Point:
    slow = float(np.max(sweep.over_weight[(sweep.tau >= SLOW) & (sweep.tau < np.inf)]))
    text = f"largest |∂Loss/∂w_j|/(K|w_j|) {slow:.3g} where τ ≥ {SLOW:g}; grows as τ^{_power(sweep, length)}"
    overflowed = int(np.sum(~np.isfinite(sweep.gradient)))
    if overflowed:
        text += f"; not finite for {overflowed} of {len(sweep.w)} values, where |a| > 1"
    grows = sweep.growth(length) > 0.5 and slow > 2 * stable.a
    return Point(f"{name}: the gradient over the weight is not bounded", text, grows)


def _follows(selective: Selective) -> Point:
    largest = float(np.max(selective.quotient))
    return Point(
        "Stable with input-dependent w_k: |∂Loss/∂w_j| ≤ K S² max_k |f'(w_k)|",
        f"largest quotient of the two sides {largest:.4f}",
        largest <= 1 + SLACK,
    )


def _findings(measured: Measured, stable: Stable, length: int) -> tuple[str, ...]:
    ours, marginal = measured.stable["asynchronous"], measured.stable["regular, b = 1/2"]
    printed, following, size = ours.over_slope, measured.selective.over_slope, np.abs(ours.w)
    others = ", ".join(
        f"{np.nanmax(measured.alternatives[name].over_slope):.3g} for {name}" for name in ("exp", "softplus")
    )
    # f ≥ 0 in regular time from here on.
    least = Printed.of(stable).raw(np.ones(1))[0]
    gains = ", ".join(f"{_remembering(sweep):.3g} for {name}" for name, sweep in measured.with_gain.items())
    return (
        "The theorem calls C independent of w_j. Without a limit on the length it is not: "
        f"|∂Loss/∂w_j|/(K|f'(w_j)|) goes from {np.min(printed):.2g} to {np.max(printed):.3g} over the sweep, as τ², "
        "until the sequence ends. By the chain rule that ratio is |∂Loss/∂f|, for every parameterization of a static "
        f"spectrum (at most {others}): it only distinguishes parameterizations that violate |a| ≤ 1. The gradient "
        "over the weight distinguishes the others too.",
        "If w_k = w + W u_k, as in equation 4, C |f'(w_j)| is not a bound: f'(0) = 0, but the gradient at 0 is not "
        f"zero. |∂Loss/∂w_j|/(K|f'(w_j)|) is {np.max(following[size == size.min()]):.3g} at |w_j| = 0.001, and "
        f"{following[np.argmin(np.abs(size - 0.3))]:.3g} at 0.3. The proof has Λ_k(u_k; f(w)), with the input outside "
        "of f; with the input inside, the largest |f'(w_k)| replaces |f'(w_j)|.",
        "Regular time with b = 1/2: f(0) = -1 is marginal, and an alternating input gives a gradient of "
        f"{np.max(marginal.over_weight):.2g} K|w_j| at |w_j| = {size[np.argmax(marginal.over_weight)]:.2g}. From "
        f"|w_j| = {least:.3f} on, where f ≥ 0, it is at most {np.max(marginal.over_weight[size >= least]):.4f} "
        "K|w_j|.",
        "With the gain r_k on the input, the default here, exp and softplus have bounded gradients too: for "
        f"memories of a step or more the largest |∂Loss/∂w_j|/K is {gains}. Stable differs from these two only in "
        "the equations as printed, without a gain.",
    )


def _power(sweep: Sweep, length: int) -> str:
    # Adding zero turns -0.0 into 0.0.
    return f"{round(sweep.growth(length), 2) + 0.0:.2f}"


def _remembering(sweep: Sweep) -> float:
    """Return the largest gradient among states with a memory of at least one step that do not grow."""
    return float(np.max(sweep.gradient[(sweep.tau >= 1) & np.isfinite(sweep.gradient)]))
