"""What irregular gaps do to the states of S7, without training: the first figure of docs/time.md.

    python -m benchmarks.time_response --figure docs/figures/time-response.svg

A state with the time constant τ (in mean gaps) reads the constant 1 at 20,000 events with exponential gaps of mean 1.
The table shows the standard deviation of the state at the events divided by its mean, after the first 1,000 events, by
the reference implementation. For inputs as impulses it should be sqrt(τ / 2) / (1 + τ) (Campbell's theorem); for held
inputs it should be 0.

An oscillating state of frequency ω reads a wave of the same frequency per event, with the same gaps, which say nothing
about the wave. The table shows the mean of exp(iω(dt - 1)) in absolute value, the factor by which each event reduces
what the state has collected. It should be 1 / sqrt(1 + ω²).
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from s7 import reference
from s7.publishing import plots

EVENTS, SKIPPED = 20_000, 1_000
TAUS = np.array([1.0, 2.0, 5.0, 10.0, 20.0, 50.0])
FREQUENCIES = np.array([0.1, 0.2, 0.4, 0.8, 1.6])


def variation(gaps: np.ndarray, held: bool) -> np.ndarray:
    """The relative variation of the states with the time constants `TAUS` that read the constant 1."""
    w = np.sqrt(TAUS - 0.5)
    transition = reference.stable({"w": w}, 1.0, 0.5, "rate")
    x, states = np.zeros(len(TAUS)), []
    for gap in gaps:
        a, gain = transition(np.zeros(0), gap)
        x = a * x + (1 - a if held else gain)
        states.append(x)
    settled = np.array(states)[SKIPPED:]
    return settled.std(0) / settled.mean(0)


def coherence(gaps: np.ndarray) -> np.ndarray:
    """The factor by which an event with an uninformative gap reduces an oscillating state, for `FREQUENCIES`."""
    return np.abs(np.exp(1j * FREQUENCIES * (gaps[:, None] - 1)).mean(0))


def chart(impulse: np.ndarray, held: np.ndarray, lost: np.ndarray) -> Figure:
    """Draw both tables."""
    figure = Figure(figsize=(plots.WIDTH, 3.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    for values, marker, label in ((impulse, "o", "input as an impulse (default)"), (held, "s", "input held")):
        colour = plots.COLOURS["os".index(marker)]
        left.plot(TAUS, values, marker=marker, color=colour, label=label)
    plots.log_scale(left, 1, 50, "x")
    left.set(xlabel="time constant, mean gaps", ylabel="variation / mean", title="State that reads a constant")
    left.legend()
    right.plot(FREQUENCIES, lost, marker="o", color=plots.COLOURS[0])
    right.set(xlabel="frequency, rad per event", ylabel="factor per event", ylim=(0, 1.05))
    right.set_title("Loss by gaps that say nothing")
    return figure


def main() -> None:
    """Print the tables and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=Path, default=None)
    options = parser.parse_args()
    gaps = np.random.default_rng(0).exponential(size=EVENTS)
    impulse, held, lost = variation(gaps, False), variation(gaps, True), coherence(gaps)
    print("| time constant | impulse | sqrt(τ / 2) / (1 + τ) | held |\n|---|---|---|---|")
    for tau, one, theory, other in zip(TAUS, impulse, np.sqrt(TAUS / 2) / (1 + TAUS), held, strict=True):
        print(f"| {tau:g} | {one:.3f} | {theory:.3f} | {other:.3f} |")
    print("\n| frequency | factor per event | 1 / sqrt(1 + ω²) |\n|---|---|---|")
    for omega, one in zip(FREQUENCIES, lost, strict=True):
        print(f"| {omega:g} | {one:.3f} | {1 / np.sqrt(1 + omega**2):.3f} |")
    if options.figure is not None:
        plots.save(options.figure, chart, impulse, held, lost)


if __name__ == "__main__":
    main()
