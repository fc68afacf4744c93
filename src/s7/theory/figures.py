"""A figure for each check, drawn from what it measured."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from s7.publishing.plots import COLOURS, INK, SOFT, WIDTH, log_scale

STABLE = COLOURS[0]
ALTERNATIVES = {"direct (Plain)": COLOURS[1], "exp": COLOURS[2], "softplus": COLOURS[3]}
# Dashes tell apart lines that coincide.
DASHES: dict[str, Any] = {"direct (Plain)": "-", "exp": (0, (6, 2)), "softplus": (0, (2, 2))}


def stability(curves: Mapping[str, Any]) -> Figure:
    """|a| against w; ‖Φ‖ against the lag; where a complex Λ leaves the unit disc."""
    figure = Figure(figsize=(WIDTH, 3.1), layout="constrained")
    factor, decay, plane = figure.subplots(1, 3, width_ratios=[1.1, 1.1, 0.9])
    for ((a, b), values), colour in zip(curves["factors"].items(), (STABLE, COLOURS[3], COLOURS[2]), strict=True):
        factor.plot(curves["w"], values, color=colour, label=f"a = {a:g}, b = {b:g}")
    factor.axhline(1, color=SOFT, linestyle=":", linewidth=1)
    factor.set(xlabel="raw parameter w", title="|a|, regular time", ylim=(0, 1.35))
    factor.legend(loc="upper center", ncols=1, fontsize=8)

    lags = curves["lags"]
    for (name, found), colour in zip(curves["decays"].items(), (COLOURS[2], STABLE, COLOURS[1]), strict=True):
        with np.errstate(over="ignore"):
            decay.plot(lags, _within(found.worst ** lags.astype(float)), color=colour, label=name)
        decay.plot(lags, _within(found.norms), color=colour, linestyle=":")
    log_scale(decay, 1e-8, 1e4)
    decay.set(xlabel="n, steps", title="‖Φ(s + n, s)‖", ylim=(1e-8, 1e8), xlim=(0, 200))
    decay.legend(loc="upper right", fontsize=8)

    real, imaginary = np.meshgrid(np.linspace(-2, 0, 201), np.linspace(-2, 2, 401))
    plane.contourf(real, imaginary, imaginary**2 - real**2, levels=[0, 9], colors=[COLOURS[1]], alpha=0.25)
    plane.plot(-0.5, 1, "o", color=COLOURS[1], markersize=5)
    plane.annotate("Λ = −½ + i\n|f| = 1.55", (-0.5, 1), (-1.9, 1.35), color=INK, fontsize=8)
    plane.text(-1.9, 0, "|f| < 1", color=INK, fontsize=8, va="center")
    plane.set(xlabel="Re Λ", ylabel="Im Λ", title="f of a complex Λ", aspect="equal")
    plane.grid(visible=False)
    return figure


def gradients(curves: Mapping[str, Any]) -> Figure:
    """The ratio of the theorem, and the gradient divided by the weight, against the memory."""
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    printed, weighed = figure.subplots(1, 2)
    longest = 100 * curves["length"]
    for name, sweep in (*curves["alternatives"].items(), ("Stable", curves["stable"])):
        seen = (sweep.tau >= 0.5) & (sweep.tau <= longest) & np.isfinite(sweep.gradient) & (sweep.gradient > 0)
        order = np.argsort(sweep.tau[seen], kind="stable")
        tau, over_slope, over_weight = (q[seen][order] for q in (sweep.tau, sweep.over_slope, sweep.over_weight))
        look = {"color": ALTERNATIVES.get(name, STABLE), "linestyle": DASHES.get(name, "-")}
        printed.plot(tau, over_slope, marker="o", markersize=3, linewidth=1, label=name, **look)
        weighed.plot(tau, over_weight, linewidth=2.2 if name == "Stable" else 1.4, label=name, **look)
    weighed.axhline(2 * curves["a"], color=SOFT, linestyle=":", linewidth=1)
    weighed.annotate("2a", (longest, 2 * curves["a"]), (0, 3), textcoords="offset points", color=SOFT, ha="right")
    for axes in (printed, weighed):
        axes.axvline(curves["length"], color=SOFT, linestyle=":", linewidth=1)
        log_scale(axes, 0.5, longest, "x")
        log_scale(axes, 1e-2, 1e8)
        axes.set(xlabel="memory τ, steps", xlim=(0.4, longest))
    weighed.set_ylim(1e-3, 1e8)
    printed.set_title("|∂Loss/∂w| / (K |f'(w)|), as printed")
    weighed.set_title("|∂Loss/∂w| / (K |w|)")
    weighed.legend(loc="upper left")
    return figure


def weight_ratio(curves: Mapping[str, Any]) -> Figure:
    """G_f against w, and against the memory."""
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    raw, memory = figure.subplots(1, 2)
    w = curves["w"]
    raw.plot(w, curves["discrete"], color=COLOURS[4], label="discrete f")
    raw.plot(w, curves["continuous"], color=STABLE, linewidth=2.2, label="continuous f")
    raw.plot(w, curves["slope"] * w, color=INK, linestyle=":", label="2a|w|")
    log_scale(raw, 1e-3, 1e3, "x")
    log_scale(raw, 1e-9, 1e6)
    raw.set(xlabel="|w|", title="|f'| / f²")
    raw.legend(loc="lower center")
    for name, values in curves["alternatives"].items():
        memory.plot(curves["tau"], values, color=ALTERNATIVES[name], linestyle=DASHES[name], label=name)
    memory.plot(curves["tau"], curves["stable"], color=STABLE, linewidth=2.2, label="Stable")
    log_scale(memory, 2, 1e6, "x")
    log_scale(memory, 1, 1e12)
    memory.set(xlabel="memory τ = 1/|f(w)|", title="|f'| / f² at the same memory")
    memory.legend(loc="upper left")
    return figure


def approximation(curves: Mapping[str, Any]) -> Figure:
    """E_m(β), a panel for each parameterization, and the condition of Assumption 3."""
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    *panels, condition = figure.subplots(1, 4)
    changes, states = curves["changes"], curves["states"]
    for axes, (name, table) in zip(panels, curves["errors"].items(), strict=True):
        for n, (m, row) in enumerate(zip(states, table, strict=True)):
            look: dict[str, Any] = {"color": ALTERNATIVES.get(name, STABLE), "alpha": 0.4 + 0.6 * n / (len(states) - 1)}
            axes.plot(changes, _within(row[1:]), "o-", markersize=3, **look)
            if np.isfinite(row[1]):
                axes.annotate(
                    f"m = {m}", (changes[0], row[1]), (0, 3), textcoords="offset points", fontsize=8, color=SOFT
                )
        _over_changes(axes, name)
        log_scale(axes, 1e-6, 10.0)
        axes.set_ylim(1e-6, 10)
        axes.tick_params(labelleft=axes is panels[0])
    panels[0].set_ylabel("E_m(β)")
    for name, values in curves["condition"].items():
        if np.isfinite(values).any():
            colour = ALTERNATIVES.get(name, STABLE)
            condition.plot(changes, _within(values), "o-", markersize=3, color=colour, label=name)
    condition.plot(changes, curves["g"], "--", color=INK, linewidth=1, label="g(β)")
    _over_changes(condition, "Assumption 3")
    log_scale(condition, 1e-8, 10.0)
    condition.legend(loc="upper left", fontsize=8)
    return figure


def _over_changes(axes: Axes, title: str) -> None:
    axes.set(xscale="log", xlabel="change β", title=title)
    axes.set_xticks([1e-8, 1e-4, 1], ["1e-08", "0.0001", "1"])
    axes.xaxis.set_minor_locator(NullLocator())


def _within(values: np.ndarray) -> np.ndarray:
    """Replace what cannot be drawn with NaN: infinite values, and those too large for a path."""
    return np.where(np.isfinite(values) & (np.abs(values) < 1e30), values, np.nan)


FIGURES: dict[str, Callable[[Mapping[str, Any]], Figure]] = {
    "stability": stability,
    "gradients": gradients,
    "weight-ratio": weight_ratio,
    "approximation": approximation,
}
