"""The report about a hyperparameter search: history, importance of the settings, slices, and the best trials."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from s7.publishing import pages, plots
from s7.publishing.pages import Card, Code, Page, Paragraph, Part, Section, Table
from s7.publishing.plots import COLOURS, SOFT, WIDTH, log_scale, whole_numbers
from s7.publishing.text import MISSING, duration, is_percent, metric_name, metric_value
from s7.tune.summary import Summary, TrialRecord, setting, shortened
from s7.version import __version__

# Panels in a row of slices.
COLUMNS = 3
# The worst results lie outside of a figure if they would hide the differences between the others.
CUT = 0.9


def tuning_page(summary: Summary, folder: str) -> Page:
    """The report about the search in a folder."""
    config, best = summary.config, summary.best
    cards, sections = [], []
    if best is not None:
        label = f"{metric_name(summary.metric)} on the validation set, best of {len(summary.trials)} trials"
        cards.append(Card(metric_value(summary.metric, best.value), label, large=True))
        if summary.preset is not None:
            cards.append(
                Card(metric_value(summary.metric, summary.preset.value), f"with the preset {config['preset']}")
            )
        sections.append(Section("history", "History", [_figure("history", _HISTORY, _history, summary)]))
        if summary.importance:
            importance = _figure("importance", _IMPORTANCE, _importances, summary)
            sections.append(Section("importance", "Importance of the settings", [importance]))
        sections.append(Section("slices", "Slices", [_figure("slices", _SLICES, _slices, summary)]))
        sections.append(Section("best", "Best trials", _best(summary, folder)))
    sections.append(Section("trials", "All trials", [_all_trials(summary)]))
    lead = f"{summary.counts()}. Each was trained for {config['budget']} with seed {config['seed']}"
    rungs = ", ".join(f"{fraction:.0%}" for fraction in config["rungs"])
    lead += f" and compared with the others after {rungs} of it. " if rungs else ". "
    lead += "The test data were not used."
    eyebrow = f"{config['task']} · {config['model']} · preset {config['preset']} · protocol {config['protocol']}"
    footer = f"Made by s7 report {__version__}."
    return Page(f"Search of settings for {config['task']}", sections, eyebrow, lead, cards, footer=footer)


_HISTORY = (
    "Every trial in the order in which it started. Filled: finished. Hollow: stopped early, with the metric at the "
    "last rung. Line: the best so far. Dashed: the preset."
)
_IMPORTANCE = "How much each setting explains whether a trial is among the best ones (PED-ANOVA), as a share of all."
_SLICES = "The metric of each trial against one setting. Hollow: stopped early. The best trial is marked."


def _figure(name: str, caption: str, make: Any, summary: Summary) -> pages.Figure:
    return pages.Figure(name, plots.draw(name, make, summary), caption)


def _history(summary: Summary) -> Figure:
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    axes = figure.subplots()
    factor = _factor(summary)
    shown = _with_value(summary)
    _dots(axes, summary, [trial.number for trial in shown], shown)
    done = sorted(summary.finished(), key=lambda trial: trial.number)
    pick = np.minimum if summary.better == "min" else np.maximum
    best = pick.accumulate([factor * trial.value for trial in done])  # type: ignore[operator]
    axes.step([trial.number for trial in done], best, where="post", color=COLOURS[0], linewidth=1.4)
    if summary.preset is not None:
        axes.axhline(factor * summary.preset.value, color=SOFT, linestyle="--", linewidth=1)  # type: ignore[operator]
    _scale(axes, summary, shown)
    axes.set(xlabel="trial", title=_metric(summary))
    whole_numbers(axes)
    return figure


def _importances(summary: Summary) -> Figure:
    names = list(summary.importance)[::-1]
    figure = Figure(figsize=(WIDTH, 0.7 + 0.3 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.barh(names, [100 * summary.importance[name] for name in names], color=COLOURS[0], height=0.6)
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="importance, %")
    return figure


def _slices(summary: Summary) -> Figure:
    space = summary.config["space"]
    short = shortened(list(space))
    rows = math.ceil(len(space) / COLUMNS)
    figure = Figure(figsize=(WIDTH, 2.4 * rows), layout="constrained")
    grid = figure.subplots(rows, COLUMNS, squeeze=False, sharey=True).ravel()
    for axes, (name, over) in zip(grid, space.items(), strict=False):
        _slice(axes, summary, name, over)
        axes.set(title=short[name])
    for axes in grid[len(space) :]:
        axes.set_visible(False)
    for axes in grid[::COLUMNS]:
        axes.set(ylabel=_metric(summary))
    return figure


def _slice(axes: Axes, summary: Summary, name: str, over: str) -> None:
    shown = [trial for trial in _with_value(summary) if name in trial.values]
    values = [trial.values[name] for trial in shown]
    is_range = ":" in over
    if not is_range:
        options = over.split(",")
        values = [options.index(setting(value)) if setting(value) in options else -1 for value in values]
        axes.set_xticks(range(len(options)), options)
    _dots(axes, summary, values, shown)
    _scale(axes, summary, shown)
    if is_range and over.endswith(":log") and values:
        log_scale(axes, min(values), max(values) * 1.0001, "x")


def _dots(axes: Axes, summary: Summary, x: Sequence[float], trials: Sequence[TrialRecord]) -> None:
    factor, best = _factor(summary), summary.best
    for place, trial in zip(x, trials, strict=True):
        finished = trial.outcome == "finished"
        is_best = best is not None and trial.number == best.number
        colour = COLOURS[1] if is_best else COLOURS[0]
        size = 8 if is_best else 5
        fill = colour if finished else "none"
        axes.plot(place, factor * trial.value, "o", color=colour, markerfacecolor=fill, markersize=size)  # type: ignore[operator]


def _scale(axes: Axes, summary: Summary, trials: Sequence[TrialRecord]) -> None:
    """A logarithmic scale for errors, without the worst trials."""
    values = sorted(_factor(summary) * trial.value for trial in trials)  # type: ignore[operator]
    if is_percent(summary.metric) or summary.better == "max" or not values or values[0] <= 0:
        return
    high = values[min(len(values) - 1, math.ceil(CUT * len(values)))] if len(values) > 5 else values[-1]
    if high > values[0]:
        log_scale(axes, values[0], high)
        axes.set_ylim(values[0] / 1.05, high * 1.05)


def _best(summary: Summary, folder: str) -> list[Part]:
    best = summary.best
    assert best is not None
    space = list(summary.config["space"])
    shown = summary.finished()[:5]
    if summary.preset is not None and summary.preset not in shown:
        shown.append(summary.preset)
    heads = ["setting", "range", *(f"trial {trial.number}" + (", preset" if trial.preset else "") for trial in shown)]
    rows = [
        [name, summary.config["space"][name], *(setting(trial.values.get(name)) for trial in shown)] for name in space
    ]
    rows.append([_metric(summary), "", *(metric_value(summary.metric, trial.value) for trial in shown)])
    command = f"s7 train {summary.config['task']} --preset {folder}/best.toml"
    return [Table(heads, rows), Paragraph("The command that trains and tests the best trial:"), Code(command)]


def _all_trials(summary: Summary) -> Table:
    rows = [
        [
            str(trial.number) + (", preset" if trial.preset else ""),
            trial.outcome,
            metric_value(summary.metric, trial.value),
            MISSING if trial.seconds is None else duration(trial.seconds),
            trial.machine or MISSING,
            trial.reason or MISSING,
        ]
        for trial in summary.trials
    ]
    heads = ["trial", "outcome", _metric(summary), "time", "machine", "reason"]
    note = "Trials that did not finish show the metric at their last rung."
    return Table(heads, rows, caption=note, kind="text")


def _with_value(summary: Summary) -> list[TrialRecord]:
    return [trial for trial in summary.trials if trial.value is not None and trial.outcome in ("finished", "pruned")]


def _factor(summary: Summary) -> float:
    return 100 if is_percent(summary.metric) else 1


def _metric(summary: Summary) -> str:
    return f"validation {metric_name(summary.metric)}" + (", %" if is_percent(summary.metric) else "")
