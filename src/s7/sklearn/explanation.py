"""A plot of one series with the steps at which the selection of a model opened."""

from typing import Any

import numpy as np
from jaxtyping import Float

from s7.estimation.ensemble import Member
from s7.series.collection import Collection

# The fraction of the events that are marked.
OPEN = 0.1
CHANNELS = 4
# Colours that can be told apart on white, also by the colour-blind.
LINE, MARK, DEGREE = "0.6", "#d55e00", "#0072b2"


def openness(member: Member, series: Collection) -> Float[np.ndarray, " L"]:
    """How far the selection of the trained model opens at each step of one series.

    The ratio of the selective to the static contribution of B and C, divided by its mean over the series, averaged
    over layers. Steps of one patch share their value; it is NaN at steps without any value.
    """
    from s7.report.layer_views import layer_views
    from s7.report.run import Example

    samples = member.preparation(series)
    nothing = np.zeros((1, 1))
    example = Example(samples.inputs, samples.dt, nothing, nothing)
    views = layer_views(member.model, example)  # type: ignore[arg-type]
    total, count = np.zeros(len(samples.inputs)), np.zeros(len(samples.inputs))
    for view in views:
        for part in ("B", "C"):
            ratio = view.selective.get(part)
            if ratio is None:
                continue
            events = view.event[view.detail]
            total[events] += ratio / max(float(ratio.mean()), 1e-12)
            count[events] += 1
    events = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    known = ~np.isnan(series.values[0]).all(1)
    steps = np.full(len(known), np.nan)
    steps[known] = np.repeat(events, member.preparation.patch)[: known.sum()]
    return steps


def explanation(member: Member, series: Collection) -> Any:
    """A matplotlib figure: the channels of one series above the openness of the selection, the open steps marked."""
    from matplotlib.figure import Figure

    from s7.publishing.plots import WIDTH

    values = series.values[0]
    times = np.arange(len(values)) if series.gaps is None else np.cumsum(series.gaps[0])
    degree = openness(member, series)
    finite = degree[np.isfinite(degree)]
    is_open = degree >= np.quantile(finite, 1 - OPEN)
    shown = np.argsort(-np.nanstd(values, 0), kind="stable")[:CHANNELS]
    figure = Figure(figsize=(WIDTH, 1 + 1.1 * (len(shown) + 1)), layout="constrained")
    panels = list(np.ravel(figure.subplots(len(shown) + 1, 1, sharex=True, squeeze=False)))
    for axes, channel in zip(panels, shown, strict=False):
        axes.plot(times, values[:, channel], color=LINE, linewidth=1)
        axes.plot(times[is_open], values[is_open, channel], ".", color=MARK, markersize=4)
        axes.set_ylabel(series.channels[channel])
    panels[0].set_title(f"steps at which the selection opened ({OPEN:.0%} of all, marked)")
    panels[-1].plot(times, degree, color=DEGREE, linewidth=1)
    panels[-1].set_ylabel("selection")
    panels[-1].set_xlabel("step" if series.gaps is None else "time")
    return figure
