"""The memory of each state before and after training: the factors |a_k| and the time constants."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from s7.publishing.plots import COLOURS, SOFT, TRUTH, WIDTH, log_scale
from s7.report.layer_views import LayerView

BEFORE, AFTER = TRUTH, COLOURS[0]
ACROSS = 4
# The smallest 1 − |a| that is drawn.
CLOSEST = 1e-6
TICKS = np.array([0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998])
SHORTEST, LONGEST = 1e-9, 1e9


def spectrum(before: list[LayerView], after: list[LayerView]) -> Figure:
    """|a_k| of each state: the median, and a bar from the 5th to the 95th percentile; a panel for each layer."""
    across = min(ACROSS, len(after))
    down = -(-len(after) // across)
    figure = Figure(figsize=(WIDTH, 0.7 + 2.7 * down), layout="constrained")
    panels = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    shift = 0.16 if before else 0
    lowest = 1.0
    for n, (axes, view) in enumerate(zip(panels, after, strict=False)):
        drawn = [(view, AFTER, shift)] + ([(before[n], BEFORE, -shift)] if before else [])
        for each, colour, aside in reversed(drawn):
            lowest = min(lowest, _bars(axes, each.factor, aside, colour, across))
        states = view.factor.shape[1]
        axes.set(title=view.name, xlim=(0.3, states + 0.7))
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(visible=False, axis="x")
    for axes in panels[len(after) :]:
        axes.axis("off")
    for axes in panels[max(0, len(after) - across) : len(after)]:
        axes.set_xlabel("state")
    memory_axis(panels[0], lowest)
    for axes in panels[::across]:
        axes.set_ylabel("|aₖ|")
    figure.legend(handles=_legend(bool(before)), loc="outside upper right", ncols=2)
    return figure


def _bars(axes: Axes, factor: np.ndarray, shift: float, colour: str, across: int) -> float:
    still = (factor == 1).all(1)  # events without a gap
    low, median, high = distance(np.quantile(factor[~still | still.all()], [0.05, 0.5, 0.95], axis=0))
    place = np.arange(1, factor.shape[1] + 1) + shift
    room = WIDTH * 72 / across / (factor.shape[1] + 2)
    axes.vlines(place, high, low, color=colour, linewidth=float(np.clip(room / 3, 0.6, 4)), alpha=0.5)
    axes.plot(place, median, "o", color=colour, markersize=float(np.clip(room / 3, 1.2, 5)), markeredgewidth=0)
    return float(high.min())


def distance(factor: np.ndarray) -> np.ndarray:
    """1 − |a|, clipped to what can be drawn."""
    return np.clip(1 - factor, CLOSEST, 1)


def memory_axis(axes: Axes, lowest: float, crowded: float = 2e-3) -> None:
    """Make the y-axis logarithmic in 1 − |a| and label it with |a|, which spreads values near 1.

    Where it reaches values below `crowded`, only powers of ten are labelled.
    """
    lowest = float(np.clip(lowest, CLOSEST, 0.4))
    axes.set_yscale("log")
    decades = 1 - 10.0 ** -np.arange(1 - np.log10(0.7 * lowest))
    shown = decades if lowest < crowded else TICKS[0.7 * lowest <= 1 - TICKS]
    axes.set_yticks(1 - shown, [f"{tick:g}" for tick in shown])
    axes.minorticks_off()
    axes.set_ylim(1.15, 0.8 * lowest)


def time_constants(before: list[LayerView], after: list[LayerView], whole: float, unit: str) -> Figure:
    """The time constants of the states: a tick at each median, a line from the 5th to the 95th percentile."""
    figure = Figure(figsize=(WIDTH, 0.8 + (0.62 if before else 0.4) * len(after)), layout="constrained")
    axes = figure.subplots()
    seen = [whole]
    for n, view in enumerate(after):
        rows = [(view, AFTER, 0.2 if before else 0)] + ([(before[n], BEFORE, -0.2)] if before else [])
        for each, colour, aside in rows:
            low, median, high = np.quantile(clipped(each.tau), [0.05, 0.5, 0.95], axis=0)
            seen += [float(low.min()), float(high.max())]
            place = np.full(len(median), n + aside)
            lines = place + np.linspace(-0.12, 0.12, len(median))
            axes.hlines(lines, low, high, color=colour, linewidth=0.8, alpha=0.5)
            axes.plot(median, place, "|", color=colour, markersize=11, markeredgewidth=1.2)
    axes.axvline(whole, color=SOFT, linestyle="--", linewidth=1)
    axes.set_yticks(range(len(after)), [view.name for view in after])
    axes.set(ylim=(len(after) - 0.45, -0.55), xlabel=f"time constant, {unit}")
    inside = [value for value in seen if SHORTEST < value < LONGEST]
    log_scale(axes, min(inside), max(inside), "x")
    axes.set_xlim(min(inside) / 1.3, max(inside) * 1.3)
    axes.grid(visible=False, axis="y")
    figure.legend(handles=_legend(bool(before)), loc="outside upper right", ncols=2)
    return figure


def clipped(tau: np.ndarray) -> np.ndarray:
    """Time constants clipped to what can be drawn; a state that does not decay has the longest."""
    tau = np.where(np.isnan(tau) | (tau < 0), LONGEST, tau)
    return np.clip(tau, SHORTEST, LONGEST)


def growing(views: list[LayerView]) -> int:
    """The number of states whose factor exceeds 1 anywhere in the sequence."""
    return sum(int((view.factor > 1 + 1e-6).any(0).sum()) for view in views)


def _legend(both: bool) -> list[Line2D]:
    after = Line2D([], [], color=AFTER, marker="o", linestyle="", markersize=5, label="trained")
    before = Line2D([], [], color=BEFORE, marker="o", linestyle="", markersize=5, label="initial")
    return [before, after] if both else [after]
