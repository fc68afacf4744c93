"""Draw the figures of the guides from the library's own code: `.venv/bin/python docs/figures.py`."""

import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jaxtyping import Array, Inexact

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

import s7
from s7.recurrence import recurrence

# In float32 the last digits, and so the bytes of the figures, would depend on the processor.
jax.config.update("jax_enable_x64", True)

FOLDER = Path(__file__).parent / "figures"

# Okabe and Ito's colours, distinguishable with any colour vision; dashes and markers distinguish the lines too.
BLUE, VERMILION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#767676"

STYLE: Any = {
    "figure.facecolor": "white",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    # A fixed salt makes the ids of SVG elements reproducible.
    "svg.hashsalt": "s7",
}


def reparameterization() -> Figure:
    """Plot the factor a_k over the raw parameter w_k, in regular time and for one unit of asynchronous time."""
    figure, (regular, asynchronous) = plt.subplots(1, 2, figsize=(9.2, 4.1), sharey=True, layout="constrained")
    w = jnp.linspace(-4, 4, 401, dtype=jnp.float64)
    settings = {(1.0, 0.5): (BLUE, "-"), (0.5, 0.5): (VERMILION, "--"), (1.0, 1.0): (GREEN, "-.")}
    for (a, b), (colour, dashes) in settings.items():
        transition = s7.Stable(a=a, b=b)
        for axes, dt in ((regular, None), (asynchronous, jnp.ones(len(w)))):
            factor, _ = transition.discretize({}, w[:, None], dt)
            label = f"a = {a:g}, b = {b:g}" + (" (default)" if transition == s7.Stable() else "")
            axes.plot(w, factor[:, 0], color=colour, linestyle=dashes, linewidth=2, label=label)

    regular.plot(0, -1, "o", color="black", markersize=7, zorder=3)
    regular.annotate(
        "f(0) = −1 if b = 0.5:\nmarginally stable",
        (0, -1),
        (0.85, -0.83),
        arrowprops={"arrowstyle": "-", "color": "black", "shrinkB": 5},
        va="center",
        fontsize=9.5,
    )
    for axes in (regular, asynchronous):
        for bound in (-1, 1):
            axes.axhline(bound, color=GREY, linewidth=1, linestyle=":")
        axes.set_xlabel("raw parameter w (no unit)")
    regular.set_title("Regular time: f(w) = 1 − 1/(a w² + b)")
    regular.set_ylabel("factor on the state, per step")
    regular.set_ylim(-1.15, 1.15)
    asynchronous.set_title("Asynchronous time, gap 1: exp(−r), r = 1/(a w² + b)")
    asynchronous.set_ylabel("factor on the state, per unit of time")
    asynchronous.yaxis.set_tick_params(labelleft=True)
    asynchronous.annotate("|a| = 1: no decay", (-3.9, 1.02), color=GREY, va="bottom")
    asynchronous.legend(loc="lower center", bbox_to_anchor=(0.5, 0.14))
    return figure


def initial_transition(transition: s7.Stable, blocks: int) -> Inexact[np.ndarray, " P"]:
    """Return a_k of a new layer with 16 states for zero input, where w_k = w."""
    layer = s7.S7Layer(1, 16, key=jax.random.key(0), transition=transition, blocks=blocks, dtype=jnp.float64)
    factors: Array = layer.matrices(jnp.zeros((1, 1))).transition
    return np.asarray(factors[0])


def initial_spectrum() -> Figure:
    """Plot the initial factors of 16 states in J blocks: real ones with time constants, oscillating ones as points."""
    figure, ((modulus, plane), (constant, slow)) = plt.subplots(2, 2, figsize=(9.2, 5.6), layout="constrained")

    looks = {1: (BLUE, "o", 5.5), 2: (VERMILION, "s", 5), 4: (GREEN, "^", 6)}
    for blocks, (colour, marker, size) in looks.items():
        look: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "markersize": size,
            "linewidth": 1,
            "label": f"J = {blocks}",
        }
        real = initial_transition(s7.Stable(), blocks)
        # One line per block, because states of different blocks are unrelated.
        for block in np.split(np.arange(16), blocks):
            modulus.plot(block + 1, np.abs(real[block]), **look)
            constant.plot(block + 1, 1 / (1 - real[block]), **look)
            look["label"] = None
        a = initial_transition(s7.Stable(oscillate=True), blocks)[: 16 // blocks]
        label = f"J = {blocks}: {len(a)} states" + (f", {blocks} times" if blocks > 1 else "")
        for axes in (plane, slow):
            # Hollow markers of different sizes, because states of different J coincide.
            axes.plot(
                *(a.real, a.imag, marker),
                color=colour,
                label=label,
                markerfacecolor="none",
                markeredgewidth=1.5,
                markersize=5 + 3.5 * math.log2(blocks),
            )

    modulus.set_title("Real states, regular time")
    modulus.set_ylabel("|a|, per step")
    modulus.set_ylim(0.28, 1.03)
    modulus.axhline(1, color=GREY, linewidth=1, linestyle=":")
    modulus.tick_params(labelbottom=False)
    modulus.legend(loc="lower center", ncols=3)
    constant.set_ylabel("τ = 1/(1 − a), steps")
    constant.set_yscale("log")
    constant.set_yticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
    constant.minorticks_off()
    constant.set_xlabel("state")
    for axes in (modulus, constant):
        axes.set_xticks([1, 4, 5, 8, 9, 12, 13, 16])

    angle = np.linspace(0, np.pi, 721)
    for axes in (plane, slow):
        axes.plot(np.cos(angle), np.sin(angle), color=GREY, linewidth=1.2)
        axes.set_ylabel("Im a, per step")
        axes.set_aspect("equal")
    plane.annotate("unit circle", (np.cos(0.9), np.sin(0.9)), (6, 2), textcoords="offset points", color=GREY)
    plane.set_title("Oscillating states, a = exp(−1/τ + iω)")
    plane.set_xlim(-1.08, 1.08)
    plane.set_ylim(-0.06, 1.08)
    plane.set_xticks([-1, -0.5, 0, 0.5, 1])
    plane.set_yticks([0, 0.5, 1])
    # The slow states lie close to 1: the lower panel enlarges the corner marked in the upper one.
    slow.set_xlabel("Re a, per step")
    slow.set_xlim(0.62, 1.01)
    slow.set_ylim(-0.012, 0.194)
    plane.indicate_inset(bounds=(0.62, -0.012, 0.39, 0.206), edgecolor="black", linewidth=1)
    plane.legend(loc="lower left", bbox_to_anchor=(0.07, 0.05))
    return figure


def time_gaps() -> Figure:
    """Plot two states that read events at irregular times: their time constants are one and ten seconds."""
    figure, (events, states) = plt.subplots(2, 1, figsize=(8, 4), sharex=True, layout="constrained")
    arrivals = np.array([0.5, 0.8, 1.0, 1.4, 1.7, 6.5, 6.9, 7.1, 12.5, 13.0])
    value = np.array([0.6, 0.9, 0.7, 1.0, 0.8, 0.5, 0.9, 0.6, 0.8, 1.0])
    events.vlines(arrivals, 0, value, color=GREY, linewidth=1.5)
    events.plot(arrivals, value, "o", color="black", markersize=5)
    events.set(ylabel="input", ylim=(0, 1.15), yticks=[0, 1])
    for span in ((1.7, 6.5), (7.1, 12.5)):
        events.annotate("", (span[0], 0.3), (span[1], 0.3), arrowprops={"arrowstyle": "<->", "color": GREY})
        events.annotate(f"gap {span[1] - span[0]:.1f} s", (sum(span) / 2, 0.36), ha="center", color=GREY)

    # The recurrence is evaluated between events and just before them too, where the input is zero.
    time = np.unique(np.concatenate([np.linspace(0, 16, 161), arrivals - 1e-6, arrivals]))
    gaps = jnp.asarray(np.diff(time, prepend=0.0))
    inputs = np.zeros((len(time), 1))
    inputs[np.searchsorted(time, arrivals), 0] = value
    transition = s7.Stable()
    for seconds, colour, dashes in ((1.0, BLUE, "-"), (10.0, VERMILION, "--")):
        # The rate 1 / (a w² + b) is 1 / seconds.
        w = jnp.full((len(time), 1), math.sqrt((seconds - transition.b) / transition.a))
        a, _ = transition.discretize({}, w, gaps)
        x = recurrence(a, jnp.asarray(inputs))
        label = f"time constant {seconds:g} s"
        states.plot(time, x[:, 0], color=colour, linestyle=dashes, linewidth=2, label=label)
    states.set(ylabel="state", xlabel="time (s)", xlim=(0, 16))
    states.set_ylim(0, 5.4)
    states.legend(loc="upper right", ncols=2)
    return figure


def main() -> None:
    """Write each figure to a file with its name."""
    FOLDER.mkdir(exist_ok=True)
    with plt.rc_context(STYLE):
        for name, draw in {
            "reparameterization": reparameterization,
            "initial-spectrum": initial_spectrum,
            "time-gaps": time_gaps,
        }.items():
            figure = draw()
            path = FOLDER / f"{name}.svg"
            # Without the date and matplotlib's version, the same figure gives the same file.
            figure.savefig(path, metadata={"Date": None, "Creator": None})
            plt.close(figure)
            print(path.relative_to(FOLDER.parent.parent))


if __name__ == "__main__":
    main()
