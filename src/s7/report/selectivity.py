"""Selectivity along a sequence: memory and input-dependent contributions, below the input."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from s7.publishing.plots import COLOURS, POINTS, SOFT, WIDTH, log_scale, thin
from s7.report.images import are_images, strip
from s7.report.layer_views import LayerView
from s7.report.predictions import most_variable, time_label, times_of
from s7.report.run import Example
from s7.report.spectrum import clipped, distance, memory_axis

STATES = 4
CHANNELS = 3
# The smallest 1 − |a| that is drawn: there is less room than in the spectrum.
CLOSEST = 1e-4
PARTS = dict(zip("BCD", COLOURS[4:7], strict=True))


def first_and_last(views: list[LayerView]) -> list[LayerView]:
    """The layers that are shown."""
    return views if len(views) < 3 else [views[0], views[-1]]


def selectivity(example: Example, views: list[LayerView]) -> Figure:
    """The input, and for each layer the memory of its most variable states and the selective contributions."""
    times = times_of(example)
    heights = [0.62 if are_images(example.inputs) else 1.1]
    for view in views:
        heights += [1.35, 1.05] if view.selective else [1.35]
    figure = Figure(figsize=(WIDTH, 0.6 + sum(heights)), layout="constrained")
    panels = list(np.ravel(figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)))
    shown = slice(views[0].event[views[0].detail[0]], views[0].event[views[0].detail[-1]] + 1)
    seen = times[shown]
    _input(panels[0], example.inputs[shown], seen)
    rest = panels[1:]
    for view in views:
        _memory(rest.pop(0), view, times, timed=example.dt is not None)
        if view.selective:
            _weights(rest.pop(0), view, times)
    for axes in panels[0 if not are_images(example.inputs) else 1 :]:
        axes.set_xlim(seen[0], seen[-1] if seen[-1] > seen[0] else seen[0] + 1)
        axes.tick_params(labelbottom=axes is panels[-1])
    panels[-1].set_xlabel(time_label(example))
    figure.align_ylabels()
    return figure


def _input(axes: Axes, inputs: np.ndarray, times: np.ndarray) -> None:
    if are_images(inputs):
        strip(axes, inputs, times)
        return
    if np.issubdtype(inputs.dtype, np.integer) and inputs.ndim == 1:
        every = max(1, len(inputs) // POINTS)
        axes.plot(times[::every], inputs[::every], ".", color=SOFT, markersize=2, markeredgewidth=0)
        axes.set_ylabel("token")
        return
    flat = inputs.reshape(len(inputs), -1).astype(float)
    for n, channel in enumerate(most_variable(flat, CHANNELS)):
        line = flat[:, channel]
        spread = np.nanstd(line)
        axes.plot(
            *thin(times, (line - np.nanmean(line)) / (spread if spread > 0 else 1)),
            color=SOFT,
            alpha=(1, 0.7, 0.45)[n],
            linewidth=1,
        )
    axes.set_ylabel("input")


def _memory(axes: Axes, view: LayerView, times: np.ndarray, *, timed: bool) -> None:
    """|a_k| in regular time. With gaps, which affect it more than the input does, the time constant."""
    length = np.log(clipped(view.tau))
    change = np.quantile(length, 0.95, axis=0) - np.quantile(length, 0.05, axis=0)
    chosen = np.argsort(-change, kind="stable")[:STATES]
    chosen = chosen[np.argsort(np.median(length[:, chosen], axis=0))]
    when = times[view.event[view.detail]]
    values = clipped(view.tau) if timed else np.maximum(distance(view.factor), CLOSEST)
    values = values[view.detail]
    for n, state in enumerate(chosen):
        axes.plot(when, values[:, state], color=COLOURS[n], linewidth=1, label=f"state {state + 1}")
    shown = values[:, chosen]
    if timed:
        log_scale(axes, float(shown.min()), float(shown.max()))
        axes.set_ylabel("time constant")
    else:
        memory_axis(axes, float(shown.min()), crowded=0.02)
        axes.set_ylabel("|aₖ|")
    axes.set_title(view.name)
    axes.legend(loc="lower right", ncols=STATES, bbox_to_anchor=(1, 1), borderaxespad=0)


def _weights(axes: Axes, view: LayerView, times: np.ndarray) -> None:
    when = times[view.event[view.detail]]
    for part, ratio in view.selective.items():
        axes.plot(when, ratio, color=PARTS[part], linewidth=1, label=f"{part}ₖ")
    every = np.concatenate(list(view.selective.values()))
    every = every[np.isfinite(every) & (every > 0)]
    if every.size and every.max() > 20 * every.min():
        low, high = np.quantile(every, [0.002, 0.998])
        log_scale(axes, low, high)
        axes.set_ylim(low / 1.3, high * 1.3)
    else:
        axes.set_ylim(bottom=0)
    axes.set_ylabel("selective /\nstatic")
    axes.legend(loc="lower right", ncols=3, bbox_to_anchor=(1, 1), borderaxespad=0)
