"""When a model attends: what its input-dependent parts do along a sequence, under that sequence."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from s7.report.dynamics import Look
from s7.report.figures import COLOURS, POINTS, SOFT, WIDTH, log_scale, thin
from s7.report.pictures import are_pictures, strip
from s7.report.run import Example
from s7.report.spectrum import clipped, distance, memory_axis
from s7.report.traces import clock, liveliest, times_of

STATES = 4
CHANNELS = 3
# As in the spectrum, but with less room.
CLOSEST = 1e-4
PARTS = dict(zip("BCD", COLOURS[4:7], strict=True))


def first_and_last(looks: list[Look]) -> list[Look]:
    """The layers to look at."""
    return looks if len(looks) < 3 else [looks[0], looks[-1]]


def selectivity(example: Example, looks: list[Look]) -> Figure:
    """The input, and for each layer the memory of its most changeable states and the weight of what is selected."""
    times = times_of(example)
    heights = [0.62 if are_pictures(example.inputs) else 1.1]
    for look in looks:
        heights += [1.35, 1.05] if look.shares else [1.35]
    figure = Figure(figsize=(WIDTH, 0.6 + sum(heights)), layout="constrained")
    panels = list(np.ravel(figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)))
    stretch = slice(looks[0].event[looks[0].looked_at[0]], looks[0].event[looks[0].looked_at[-1]] + 1)
    seen = times[stretch]
    _input(panels[0], example.inputs[stretch], seen)
    rest = panels[1:]
    for look in looks:
        _memory(rest.pop(0), look, times, timed=example.dt is not None)
        if look.shares:
            _weights(rest.pop(0), look, times)
    for axes in panels[0 if not are_pictures(example.inputs) else 1 :]:
        axes.set_xlim(seen[0], seen[-1] if seen[-1] > seen[0] else seen[0] + 1)
        axes.tick_params(labelbottom=axes is panels[-1])
    panels[-1].set_xlabel(clock(example))
    figure.align_ylabels()
    return figure


def _input(axes: Axes, inputs: np.ndarray, times: np.ndarray) -> None:
    if are_pictures(inputs):
        strip(axes, inputs, times)
        return
    if np.issubdtype(inputs.dtype, np.integer) and inputs.ndim == 1:
        every = max(1, len(inputs) // POINTS)
        axes.plot(times[::every], inputs[::every], ".", color=SOFT, markersize=2, markeredgewidth=0)
        axes.set_ylabel("token")
        return
    flat = inputs.reshape(len(inputs), -1).astype(float)
    for n, channel in enumerate(liveliest(flat, CHANNELS)):
        line = flat[:, channel]
        spread = np.nanstd(line)
        axes.plot(
            *thin(times, (line - np.nanmean(line)) / (spread if spread > 0 else 1)),
            color=SOFT,
            alpha=(1, 0.7, 0.45)[n],
            linewidth=1,
        )
    axes.set_ylabel("input")


def _memory(axes: Axes, look: Look, times: np.ndarray, *, timed: bool) -> None:
    """|a_k| in regular time; with gaps, which sway it more than the input does, the time constant."""
    length = np.log(clipped(look.tau))
    change = np.quantile(length, 0.95, axis=0) - np.quantile(length, 0.05, axis=0)
    chosen = np.argsort(-change, kind="stable")[:STATES]
    chosen = chosen[np.argsort(np.median(length[:, chosen], axis=0))]
    when = times[look.event[look.looked_at]]
    values = clipped(look.tau) if timed else np.maximum(distance(look.factor), CLOSEST)
    values = values[look.looked_at]
    for n, state in enumerate(chosen):
        axes.plot(when, values[:, state], color=COLOURS[n], linewidth=1, label=f"state {state + 1}")
    shown = values[:, chosen]
    if timed:
        log_scale(axes, float(shown.min()), float(shown.max()))
        axes.set_ylabel("time constant")
    else:
        memory_axis(axes, float(shown.min()), crowded=0.02)
        axes.set_ylabel("|aₖ|")
    axes.set_title(look.name)
    axes.legend(loc="lower right", ncols=STATES, bbox_to_anchor=(1, 1), borderaxespad=0)


def _weights(axes: Axes, look: Look, times: np.ndarray) -> None:
    when = times[look.event[look.looked_at]]
    for part, share in look.shares.items():
        axes.plot(when, share, color=PARTS[part], linewidth=1, label=f"{part}ₖ")
    every = np.concatenate(list(look.shares.values()))
    every = every[np.isfinite(every) & (every > 0)]
    if every.size and every.max() > 20 * every.min():
        low, high = np.quantile(every, [0.002, 0.998])
        log_scale(axes, low, high)
        axes.set_ylim(low / 1.3, high * 1.3)
    else:
        axes.set_ylim(bottom=0)
    axes.set_ylabel("selected /\nstatic")
    axes.legend(loc="lower right", ncols=3, bbox_to_anchor=(1, 1), borderaxespad=0)
