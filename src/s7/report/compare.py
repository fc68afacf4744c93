"""Several runs side by side: every run, mean and spread over seeds, the curves of all."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from s7.publishing.text import count, duration, is_percent, metric_mean_std, metric_name, metric_value, number
from s7.report.curves import overlay
from s7.report.figures import COLOURS, SERIES, SOFT, WIDTH, draw, log_scale
from s7.report.markup import Safe, dot, figure, paragraph, section, table, text
from s7.report.run import Run


def grouped(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs that differ in their seeds alone, together, in the order in which they were given."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(run.group), []).append(run)
    return list(groups.values())


def labels(groups: Sequence[Sequence[Run]]) -> list[str]:
    """What tells each group from the others, the model at least."""
    kinds = [runs[0].group for runs in groups]
    differs = {field: len({getattr(kind, field) for kind in kinds}) > 1 for field in kinds[0]._fields}
    names = []
    for kind in kinds:
        fields = ("model", "variant", "preset", "protocol")
        told = [getattr(kind, field) for field in fields if field == "model" or differs[field]]
        names.append(", ".join(part for part in told if part) or "run")
    return names


def representative(runs: Sequence[Run]) -> Run:
    """The one that did best on the validation set."""
    return min(runs, key=lambda run: _rank(run.value("valid", run.metric), run.better))


def winner(groups: Sequence[Sequence[Run]]) -> int:
    """Which group did best on the validation set, in the mean over its seeds."""
    first = groups[0][0]
    means = [_mean(values_of(runs, "valid", first.metric)) for runs in groups]
    return min(range(len(groups)), key=lambda n: _rank(means[n], first.better))


def values_of(runs: Sequence[Run], split: str, metric: str) -> list[float]:
    """A metric of those runs that have it; unfinished ones count only where none is finished."""
    finished = [run for run in runs if run.finished] or runs
    return [value for run in finished if (value := run.value(split, metric)) is not None]


def comparison(groups: list[list[Run]], name: str, title: str) -> Safe:
    """The section about runs of one task."""
    first, names = groups[0][0], labels(groups)
    parts: list[Safe] = [_summary(groups, names), _strip(groups, names, name)]
    if sum(map(len, groups)) == 1:  # of several tasks; the run is shown from inside further down
        return section(name, title, *parts)
    if any(run.epochs for runs in groups for run in runs):
        svg = draw(f"{name}-curves", overlay, groups, names, first.metric)
        parts.append(figure(svg, f"{name}-curves", "Each line is a run, the dot its best epoch; a colour is a group."))
    return section(name, title, *parts, _every_run(groups, names))


def _summary(groups: list[list[Run]], names: list[str]) -> Safe:
    first = groups[0][0]
    metric = first.metric
    rows: list[list[object]] = []
    for place, (runs, label) in enumerate(zip(groups, names, strict=True)):
        paces = [run.result["steps_per_second"] for run in runs if "steps_per_second" in run.result]
        memory = [run.result["peak_memory_mb"] for run in runs if "peak_memory_mb" in run.result]
        parameters = runs[0].result.get("parameters")
        rows.append(
            [
                Safe(dot(_variable(place)) + text(label)),
                _how_many(runs),
                "–" if parameters is None else f"{parameters:,}",
                *(metric_mean_std(metric, values_of(runs, split, metric)) for split in ("valid", "test")),
                number(_mean(paces)) if paces else "–",
                f"{_mean(memory):,.0f} MB" if memory else "–",
            ]
        )
    for baseline, values in _baselines(first).items():
        rows.append([baseline, "–", "–", "–", metric_value(metric, values.get(metric)), "–", "–"])
    heads = [
        "",
        "runs",
        "parameters",
        f"validation {metric_name(metric)}",
        f"test {metric_name(metric)}",
        "steps/s",
        "memory",
    ]
    protocols = {runs[0].group.protocol for runs in groups}
    notes = []
    if any(len(runs) > 1 for runs in groups):
        notes.append("± is the standard deviation over seeds (n − 1).")
    if any(not run.finished for runs in groups for run in runs):
        notes.append("Unfinished runs are left out, unless a group has no other.")
    if len(groups) > 1:
        notes.append("Bold: the best on the validation set.")
    if len(protocols) > 1:
        notes.append("Protocols differ: numbers compare only within one.")
    marked = [winner(groups)] if len(groups) > 1 and len(protocols) == 1 else []
    return Safe(table(heads, rows, marked=marked) + paragraph(" ".join(notes), class_="note"))


def _strip(groups: list[list[Run]], names: list[str], name: str) -> Safe:
    """Every run's result as a dot; without two of them there is nothing to see."""
    metric = groups[0][0].metric
    if sum(len(values_of(runs, "test", metric)) for runs in groups) < 2:
        return Safe()
    told = f"The {metric_name(metric)} on the test set: a dot for each run, a bar at the mean of each group."
    nothing = _baselines(groups[0][0])
    if nothing:
        told += f" Dashed: {', '.join(nothing)}."
    return figure(draw(f"{name}-dots", _dots, groups, names), f"{name}-dots", told)


def _dots(groups: list[list[Run]], names: list[str]) -> Figure:
    first = groups[0][0]
    metric, factor = first.metric, 100 if is_percent(first.metric) else 1
    result = Figure(figsize=(WIDTH, 1.0 + 0.34 * len(groups)), layout="constrained")
    axes = result.subplots()
    seen = []
    for place, runs in enumerate(groups):
        values = factor * np.array(values_of(runs, "test", metric))
        seen += values.tolist()
        colour = COLOURS[place % SERIES]
        axes.plot(values, np.full(len(values), place), "o", color=colour, markersize=6, alpha=0.7)
        if len(values) > 1:
            axes.plot(values.mean(), place, "|", color=colour, markersize=18, markeredgewidth=2)
    for baseline in _baselines(first).values():
        if metric in baseline:
            axes.axvline(factor * baseline[metric], color=SOFT, linestyle="--", linewidth=1)
            seen.append(factor * baseline[metric])
    axes.set_yticks(range(len(groups)), names)
    axes.set(ylim=(len(groups) - 0.4, -0.6), xlabel=metric_name(metric) + (", %" if is_percent(metric) else ""))
    axes.grid(visible=False, axis="y")
    finite = [value for value in seen if np.isfinite(value)]
    if not is_percent(metric) and finite and min(finite) > 0 and max(finite) > 3 * min(finite):
        log_scale(axes, min(finite), max(finite), "x")
    return result


def _every_run(groups: list[list[Run]], names: list[str]) -> Safe:
    metric = groups[0][0].metric
    rows: list[list[object]] = []
    for place, (runs, label) in enumerate(zip(groups, names, strict=True)):
        for run in runs:
            best = run.best
            seconds = run.result.get("seconds", run.epochs[-1].get("seconds") if run.epochs else None)
            rows.append(
                [
                    Safe(dot(_variable(place)) + text(label)),
                    run.seed,
                    f"{best['epoch']} of {len(run.epochs)}" if best else "–",
                    "–" if seconds is None else duration(seconds),
                    metric_value(metric, run.value("valid", metric)),
                    metric_value(metric, run.value("test", metric)) if run.finished else "unfinished",
                    run.path.name,
                ]
            )
    heads = [
        "",
        "seed",
        "best epoch",
        "time",
        f"validation {metric_name(metric)}",
        f"test {metric_name(metric)}",
        "folder",
    ]
    return table(heads, rows, caption=f"Every run ({count(len(rows), 'run')})", class_="plain")


def _metric_heads(metric: str) -> list[str]:
    return [f"{split} {metric_name(metric)}" for split in ("validation", "test")]


def _how_many(runs: list[Run]) -> str:
    finished = sum(run.finished for run in runs)
    return f"{len(runs)}" if finished == len(runs) else f"{finished} of {len(runs)}"


def _variable(place: int) -> str:
    return f"--c{place % SERIES + 1}"


def _baselines(run: Run) -> dict[str, dict[str, float]]:
    return run.result.get("baselines") or {}


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _rank(value: float | None, better: str) -> float:
    """The lower, the better."""
    if value is None or not np.isfinite(value):
        return float("inf")
    return value if better == "min" else -value
