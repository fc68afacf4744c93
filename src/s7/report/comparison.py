"""Comparison of several runs: every run, the mean and deviation over seeds, and all curves."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from s7.publishing import pages, plots
from s7.publishing.colours import SERIES
from s7.publishing.pages import Paragraph, Part, Section, Swatch, Table
from s7.publishing.plots import COLOURS, SOFT, WIDTH, log_scale, wrapped
from s7.publishing.text import (
    MISSING,
    duration,
    is_percent,
    metric_mean_std,
    metric_name,
    metric_value,
    number,
)
from s7.report.curves import overlay
from s7.report.run import Run


def grouped(runs: Sequence[Run]) -> list[list[Run]]:
    """Group runs that differ only in their seeds, in the given order."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(run.group), []).append(run)
    return list(groups.values())


def labels(groups: Sequence[Sequence[Run]]) -> list[str]:
    """A label for each group: its model, and the properties that differ between groups."""
    kinds = [runs[0].group for runs in groups]
    differs = {field: len({getattr(kind, field) for kind in kinds}) > 1 for field in kinds[0]._fields}
    # Variants of one model have their own names.
    shown = [field for field in ("model", "variant", "preset", "protocol") if differs[field]] or ["model"]
    return [
        ", ".join(part for part in (getattr(kind, field) for field in shown) if part) or kind.model or "run"
        for kind in kinds
    ]


def representative(runs: Sequence[Run]) -> Run:
    """The run with the best validation metric."""
    return min(runs, key=lambda run: _rank(run.value("valid", run.metric), run.record.better))


def winner(groups: Sequence[Sequence[Run]]) -> int:
    """The index of the group with the best validation metric, averaged over its seeds."""
    first = groups[0][0]
    means = [_mean(values_of(runs, "valid", first.metric)) for runs in groups]
    return min(range(len(groups)), key=lambda n: _rank(means[n], first.record.better))


def values_of(runs: Sequence[Run], split: str, metric: str) -> list[float]:
    """A metric of the runs that have it. Unfinished runs are used only if no run is finished."""
    finished = [run for run in runs if run.record.finished] or runs
    return [value for run in finished if (value := run.value(split, metric)) is not None]


def comparison(groups: list[list[Run]], name: str, title: str) -> Section:
    """The section about the runs of one task."""
    metric, names = groups[0][0].metric, labels(groups)
    parts = _summary(groups, names) + _strip(groups, names, name)
    if sum(map(len, groups)) == 1:  # one of several tasks; the run itself is shown further down
        return Section(name, title, parts)
    if any(run.epochs for runs in groups for run in runs):
        svg = plots.draw(f"{name}-curves", overlay, groups, names, metric)
        caption = "Each line is a run, and the dot is its best epoch. Runs of a group share a colour."
        parts.append(pages.Figure(f"{name}-curves", svg, caption))
    return Section(name, title, [*parts, _all_runs(groups, names)])


def _summary(groups: list[list[Run]], names: list[str]) -> list[Part]:
    first = groups[0][0]
    metric = first.metric
    rows: list[list[object]] = []
    for place, (runs, label) in enumerate(zip(groups, names, strict=True)):
        speeds = [run.result.steps_per_second for run in runs if run.result.steps_per_second is not None]
        memory = [run.result.peak_memory_mb for run in runs if run.result.peak_memory_mb is not None]
        rows.append(
            [
                Swatch(label, place % SERIES),
                _how_many(runs),
                number(runs[0].result.parameters),
                *(metric_mean_std(metric, values_of(runs, split, metric)) for split in ("valid", "test")),
                number(_mean(speeds), 3) if speeds else MISSING,
                f"{_mean(memory):,.0f} MB" if memory else MISSING,
            ]
        )
    for baseline, values in first.result.baselines.items():
        unknown = [MISSING] * 3
        rows.append([baseline, *unknown, metric_value(metric, values.get(metric)), *unknown[1:]])
    heads = ["", "runs", "parameters", *_metric_heads(metric), "steps/s", "peak memory"]
    protocols = {runs[0].group.protocol for runs in groups}
    notes = []
    if any(len(runs) > 1 for runs in groups):
        notes.append("± is the standard deviation over seeds (n − 1).")
    if any(not run.record.finished for runs in groups for run in runs):
        notes.append("Unfinished runs are omitted, unless a group has no others.")
    if len(groups) > 1:
        notes.append("Bold: best on the validation set.")
    if len(protocols) > 1:
        notes.append("Protocols differ: compare numbers only within one.")
    best = [winner(groups)] if len(groups) > 1 and len(protocols) == 1 else []
    return [Table(heads, rows, best=best), Paragraph(" ".join(notes), note=True)]


def _strip(groups: list[list[Run]], names: list[str], name: str) -> list[Part]:
    """The test result of each run as a dot; empty for fewer than two results."""
    metric = groups[0][0].metric
    if sum(len(values_of(runs, "test", metric)) for runs in groups) < 2:
        return []
    caption = f"{metric_name(metric)} on the test set: a dot for each run, a bar at the mean of each group."
    baselines = groups[0][0].result.baselines
    if baselines:
        caption += f" Dashed: {', '.join(baselines)}."
    return [pages.Figure(f"{name}-dots", plots.draw(f"{name}-dots", _dots, groups, names), caption)]


def _dots(groups: list[list[Run]], names: list[str]) -> Figure:
    first = groups[0][0]
    metric, factor = first.metric, 100 if is_percent(first.metric) else 1
    shown = [wrapped(name, 32) for name in names]
    lines = max(name.count("\n") + 1 for name in shown)
    result = Figure(figsize=(WIDTH, 1.0 + max(0.34, 0.17 * lines) * len(groups)), layout="constrained")
    axes = result.subplots()
    seen = []
    for place, runs in enumerate(groups):
        values = factor * np.array(values_of(runs, "test", metric))
        seen += values.tolist()
        colour = COLOURS[place % SERIES]
        axes.plot(values, np.full(len(values), place), "o", color=colour, markersize=6, alpha=0.7)
        if len(values) > 1:
            axes.plot(values.mean(), place, "|", color=colour, markersize=18, markeredgewidth=2)
    for baseline in first.result.baselines.values():
        if metric in baseline:
            axes.axvline(factor * baseline[metric], color=SOFT, linestyle="--", linewidth=1)
            seen.append(factor * baseline[metric])
    axes.set_yticks(range(len(groups)), shown)
    axes.set(ylim=(len(groups) - 0.4, -0.6), xlabel=metric_name(metric) + (", %" if is_percent(metric) else ""))
    axes.grid(visible=False, axis="y")
    finite = [value for value in seen if np.isfinite(value)]
    if not is_percent(metric) and finite and min(finite) > 0 and max(finite) > 3 * min(finite):
        log_scale(axes, min(finite), max(finite), "x")
    return result


def _all_runs(groups: list[list[Run]], names: list[str]) -> Table:
    metric = groups[0][0].metric
    rows: list[list[object]] = []
    for place, (runs, label) in enumerate(zip(groups, names, strict=True)):
        for run in runs:
            best = run.record.best
            rows.append(
                [
                    Swatch(label, place % SERIES),
                    run.record.seed,
                    f"{best.epoch} of {len(run.epochs)}" if best else MISSING,
                    MISSING if run.seconds is None else duration(run.seconds),
                    metric_value(metric, run.value("valid", metric)),
                    metric_value(metric, run.value("test", metric)) if run.record.finished else "unfinished",
                    run.path.name,
                ]
            )
    heads = ["", "seed", "best epoch", "time", *_metric_heads(metric), "folder"]
    return Table(heads, rows, caption=f"All runs ({len(rows)})")


def _metric_heads(metric: str) -> list[str]:
    return [f"{split} {metric_name(metric)}" for split in ("validation", "test")]


def _how_many(runs: list[Run]) -> str:
    finished = sum(run.record.finished for run in runs)
    return f"{len(runs)}" if finished == len(runs) else f"{finished} of {len(runs)}"


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _rank(value: float | None, better: str) -> float:
    """A number that is lower for better results."""
    if value is None or not np.isfinite(value):
        return float("inf")
    return value if better == "min" else -value
