"""The report's figures, as SVG that takes its colours and its font from the page around it.

Matplotlib writes fixed colours. Each figure is drawn in stand-ins that mean a role (text, grid, a model), and the
stand-ins are then replaced by CSS variables: the same picture follows the reader's light or dark theme.
"""

import io
import re
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import s7
from examples.comparison import Comparison
from examples.fitzhugh_nagumo import END, SAMPLES
from s7.signal import Signal

INK, FAINT, TRUTH = "#010101", "#020202", "#030303"
COLOURS = {"persistence": "#040404", "LSTM": "#050505", "S7": "#060606"}
VARIABLES = {INK: "--ink", FAINT: "--faint", TRUTH: "--truth"} | {
    colour: f"--{name.lower()}" for name, colour in COLOURS.items()
}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
}


def draw(comparison: Comparison) -> dict[str, str]:
    """Every figure by name, ready to be put in the page."""
    with rc_context(STYLE):
        figures = {
            "curves": learning_curves(comparison),
            "trace": prediction(comparison),
            "spectrum": spectrum(comparison),
        }
        return {name: inline(figure, name) for name, figure in figures.items()}


def inline(figure: Figure, name: str) -> str:
    """SVG to stand inside HTML: no prologue, as wide as its place, names of its own, colours of the page."""
    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{name}-", svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg


def learning_curves(comparison: Comparison) -> Figure:
    """The validation error against the seconds of training: what a model is worth in the time given to it."""
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    nothing = comparison.rows[0]
    axes.axhline(nothing.valid, color=COLOURS[nothing.name], linestyle="--", label=nothing.name)
    for entry in comparison.entries:
        seconds = [progress.seconds for progress in entry.fit.history]
        colour = COLOURS[entry.name]
        axes.plot(seconds, [progress.valid for progress in entry.fit.history], color=colour, label=entry.name)
        axes.plot(seconds, [progress.train for progress in entry.fit.history], color=colour, alpha=0.4, linewidth=0.8)
    axes.set(yscale="log", xlabel="seconds of training", ylabel="RMSE")
    axes.legend(loc="upper right", bbox_to_anchor=(1, 0.86))
    return figure


def prediction(comparison: Comparison) -> Figure:
    """The first test sequence: the signal, and each model's error on a scale on which it can be seen."""
    inputs, targets = comparison.test.inputs[0], comparison.test.targets[0, :, 0]
    times = np.linspace(0, END, SAMPLES)[1:]
    forecasts = {}
    for entry in comparison.entries:
        forecasts[entry.name] = np.asarray(eqx.filter_jit(entry.fit.model)(jnp.asarray(inputs)))[:, 0]
    figure = Figure(figsize=(8, 5), layout="constrained")
    panels = figure.subplots(2, 2, sharex="col", width_ratios=(2.2, 1))
    # Where the second half rises fastest is the start of a spike: the hardest moment to predict.
    middle = len(times) // 2
    spike = times[middle + int(np.argmax(np.diff(targets[middle:])))]
    for column, window in enumerate([(0, END), (spike - 4, spike + 6)]):
        top, bottom = panels[:, column]
        top.plot(times, targets, color=TRUTH, linewidth=4, alpha=0.35, label="simulated")
        for name, forecast in forecasts.items():
            marker = "" if column == 0 else "."
            top.plot(times, forecast, color=COLOURS[name], linewidth=1, marker=marker, label=name)
            seen = (times >= window[0]) & (times <= window[1])
            bottom.plot(times[seen], 1e3 * (forecast - targets)[seen], color=COLOURS[name], linewidth=1)
        top.set_xlim(*window)
        bottom.set_xlabel("time")
    # The first samples, before a model knows anything of w, would set the scale for all the rest.
    settled = times > 10
    most = max(np.abs(1e3 * (forecast - targets)[settled]).max() for forecast in forecasts.values())
    panels[1, 0].set_ylim(-1.1 * most, 1.1 * most)
    panels[0, 0].set(title="a test sequence", ylabel="v one step ahead")
    panels[0, 1].set_title("one spike of it")
    panels[1, 0].set_ylabel("error × 1000")
    panels[0, 0].legend(loc="lower right", ncols=3, bbox_to_anchor=(1, 1), borderaxespad=0)
    return figure


def spectrum(comparison: Comparison) -> Figure:
    """|a_k| of each state along a test sequence, before and after training."""
    entry = next(entry for entry in comparison.entries if isinstance(entry.fit.model.core, s7.S7Model))
    inputs = jnp.asarray(comparison.test.inputs[0])
    before, after = (transitions(model.core, inputs) for model in (entry.initial, entry.fit.model))
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    panels = figure.subplots(1, len(before), sharey=True)
    for number, (axes, start, end) in enumerate(zip(panels, before, after, strict=True), 1):
        spread(axes, start, -0.14, COLOURS["persistence"], "initial")
        spread(axes, end, 0.14, COLOURS["S7"], "trained")
        axes.set(title=f"block {number}", xlabel="state", yscale="log", xticks=range(start.shape[1]))
        axes.set_xticklabels(range(1, start.shape[1] + 1))
        axes.grid(visible=False, axis="x")
    ticks = np.array([0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999])
    panels[0].set_yticks(1 - ticks, [f"{tick:g}" for tick in ticks])
    panels[0].minorticks_off()
    panels[0].invert_yaxis()
    panels[0].set_ylabel("|aₖ|")
    panels[0].legend(loc="lower right")
    return figure


def spread(axes: Axes, factors: Float[Array, "L P"], shift: float, colour: str, label: str) -> None:
    """For each state the median of |a_k| over the sequence, and a bar over nine tenths of it."""
    low, median, high = 1 - np.quantile(np.asarray(factors), [0.05, 0.5, 0.95], axis=0)
    place = np.arange(factors.shape[1]) + shift
    axes.vlines(place, high, low, color=colour, linewidth=4, alpha=0.45)
    axes.plot(place, median, "o", color=colour, markersize=5, label=label)


@eqx.filter_jit
def transitions(model: s7.S7Model, inputs: Float[Array, "L 1"]) -> list[Float[Array, "L P"]]:
    """|a_k| of every block, each fed with what the blocks below it make of the inputs."""
    signal = Signal(model.config.encoder(model.encoder, inputs))
    factors = []
    for block in model.blocks:
        normalise, _ = block.norm.prepare(signal.values, None, None)
        factors.append(jnp.abs(block.layer.matrices(normalise(signal.values)).transition))
        signal, _, _ = block(signal)
    return factors
