"""Training curves: loss, metric and learning rate over the epochs."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from s7.publishing.plots import COLOURS, INK, SOFT, WIDTH, log_scale, whole_numbers, wrapped
from s7.publishing.text import is_percent, metric_name
from s7.records import Epoch
from s7.report.run import Run

TRAIN, VALID = SOFT, COLOURS[0]


def training(run: Run) -> Figure:
    """Loss and metric on the training and validation sets, and the learning rate below them."""
    shown = [run.metric] if shows_one(run) else ["loss", run.metric]
    rates = np.array([np.nan if epoch.learning_rate is None else epoch.learning_rate for epoch in run.epochs])
    layout = [shown] + ([["rate"] * len(shown)] if np.isfinite(rates).any() else [])
    figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
    panels = figure.subplot_mosaic(layout, height_ratios=[3.2, 1][: len(layout)])  # type: ignore[arg-type]
    for name in shown:
        _panel(panels[name], run, name)
    handles, labels = panels[shown[-1]].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=3)
    if "rate" in panels:
        panels["rate"].plot(_numbers(run), rates, color=INK, linewidth=1)
        panels["rate"].set(title="learning rate", xlabel="epoch", ylim=(0, 1.1 * np.nanmax(rates) or None))
        panels["rate"].margins(x=0.02)
        whole_numbers(panels["rate"])
    else:
        for name in shown:
            panels[name].set_xlabel("epoch")
    return figure


def shows_one(run: Run) -> bool:
    """Whether the loss is the metric up to a factor, so that one panel shows both."""
    if run.metric == "loss":
        return True
    loss, metric = (run.history("valid", name) for name in ("loss", run.metric))
    known = run.result.objective == "MeanSquared" or len(loss) > 2  # two points may be proportional by chance
    return known and bool(np.allclose(loss * metric[0], metric * loss[0], rtol=1e-3, atol=0))


def _panel(axes: Axes, run: Run, name: str) -> None:
    epochs = _numbers(run)
    factor = 100 if is_percent(name) else 1
    lines = {"training": (run.history("train", name), TRAIN), "validation": (run.history("valid", name), VALID)}
    values = factor * np.concatenate([line for line, _ in lines.values()])
    marker = "o" if len(epochs) < 3 else ""
    for label, (line, colour) in lines.items():
        axes.plot(epochs, factor * line, color=colour, marker=marker, markersize=3, label=label)
    best = run.record.best
    if best is not None and name in best.valid:
        axes.axvline(best.epoch, color=VALID, linewidth=0.8, linestyle=":")
        label = f"best, epoch {best.epoch}"
        axes.plot(best.epoch, factor * best.valid[name], "o", color=VALID, markersize=6, label=label)
    axes.set_title(metric_name(name) + (", %" if is_percent(name) else ""))
    axes.margins(x=0.02)
    if not run.gaussian or name != "loss":
        error_scale(axes, name, values)
    whole_numbers(axes)


def error_scale(axes: Axes, name: str, values: np.ndarray) -> None:
    """Show errors on a logarithmic scale where they are positive and vary; percentages never."""
    values = values[np.isfinite(values)]
    if not is_percent(name) and values.size and values.min() > 0 and values.max() > 1.5 * values.min():
        log_scale(axes, values.min(), values.max())


def overlay(groups: list[list[Run]], labels: list[str], metric: str) -> Figure:
    """The validation metric of every run; runs of a group share a colour.

    Several groups are shown over minutes instead of epochs, as their epochs may take different times: minutes of
    processor time, if all runs recorded it.
    """
    every_epoch = [epoch for runs in groups for run in runs for epoch in run.epochs]
    measured = all(epoch.cpu_seconds for epoch in every_epoch)
    timed = len(groups) > 1 and (measured or all(epoch.seconds for epoch in every_epoch))
    figure = Figure(figsize=(WIDTH, max(3.8, 0.3 * len(groups))), layout="constrained")
    axes = figure.subplots()
    factor = 100 if is_percent(metric) else 1
    every = []
    for place, (runs, label) in enumerate(zip(groups, labels, strict=True)):
        for n, run in enumerate(run for run in runs if run.epochs):
            line = factor * run.history("valid", metric)
            every.append(line)
            colour, style = COLOURS[place % len(COLOURS)], "-" if place < len(COLOURS) else "--"
            when = _minutes(run, measured) if timed else _numbers(run)
            marker = "." if len(when) < 3 else ""
            axes.plot(
                when, line, style, marker=marker, color=colour, linewidth=1.2, label=None if n else wrapped(label)
            )
            best = run.record.best
            if best is not None and metric in best.valid:
                at = _seconds(best, measured) / 60 if timed else best.epoch
                axes.plot(at, factor * best.valid[metric], "o", color=colour, markersize=4)
    error_scale(axes, metric, np.concatenate(every))
    name = metric_name(metric)
    title = f"{name} on the validation set" + (", %" if is_percent(metric) else "")
    of = "processor time" if measured else "training"
    axes.set(xlabel=f"minutes of {of}" if timed else "epoch", title=title)
    axes.margins(x=0.02)
    if not timed:
        whole_numbers(axes)
    figure.legend(loc="outside right upper")  # inside, a dozen labels would hide the curves
    return figure


def _minutes(run: Run, measured: bool) -> np.ndarray:
    return np.array([_seconds(epoch, measured) / 60 for epoch in run.epochs])


def _seconds(epoch: Epoch, measured: bool) -> float:
    return epoch.cpu_seconds if measured else epoch.seconds


def _numbers(run: Run) -> np.ndarray:
    return np.array([epoch.epoch for epoch in run.epochs])
