"""Figures of the speed page: a dot per implementation and case, or lines over the sequence length."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from s7.bench.measures import BENCHMARKS, Benchmark, Measure, Row, implementations_of
from s7.publishing.plots import COLOURS, MARKERS, log_scale


class Drawing(NamedTuple):
    """A figure of the page, drawn by calling `make`."""

    name: str
    title: str
    make: Callable[[], Figure]


def drawings(name: str, rows: Sequence[Row]) -> list[Drawing]:
    """Return a figure per measured time: lines over the length if layers have several lengths, dots otherwise."""
    benchmark = BENCHMARKS[name]
    lines = name == "layer" and len({row["length"] for row in rows}) > 1
    made = []
    for measure in benchmark.measures:
        if measure.ratio:
            make = partial(over_length, measure, rows) if lines else partial(dots, benchmark, measure, rows)
            made.append(Drawing(f"{name}-{measure.field.partition('_')[0]}", measure.name, make))
    return made


def dots(benchmark: Benchmark, measure: Measure, rows: Sequence[Row]) -> Figure:
    """Plot a row per case, with a dot per implementation on a logarithmic scale."""
    cases = list(dict.fromkeys(benchmark.key(row) for row in rows))
    figure = Figure(figsize=(9.2, 1.2 + 0.24 * len(cases)), layout="constrained")
    axes = figure.subplots()
    measured = [row for row in rows if row[measure.field] is not None]
    for name, look in _looks(measured):
        points = [
            (row[measure.field], cases.index(benchmark.key(row))) for row in measured if row["implementation"] == name
        ]
        axes.plot(*np.transpose(points), linestyle="none", label=name, markersize=6, **look)
    _log_scale(axes, measure, measured, "x")
    titles = [column.title for column in benchmark.case]
    axes.set_yticks(range(len(cases)), [_label(titles, case) for case in cases])
    axes.set_ylim(len(cases) - 0.4, -0.6)
    axes.set_xlabel(measure.name)
    figure.legend(loc="outside upper center", ncols=4)
    return figure


def over_length(measure: Measure, rows: Sequence[Row]) -> Figure:
    """Plot a panel per layer: nanoseconds per step over the sequence length."""
    measured = [row for row in rows if row[measure.field] is not None]
    layers: dict[tuple, list[Row]] = {}
    for row in measured:
        layers.setdefault((", ".join(row["tasks"]) or "layer", row["width"], row["state"], row["D"]), []).append(row)
    columns = min(4, len(layers))
    lines = -(-len(layers) // columns)
    figure = Figure(figsize=(9.2, 0.9 + 1.9 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, sharex=True, squeeze=False).ravel()
    looks = _looks(measured)
    legend = {}
    for axes, ((title, width, state, _), members) in zip(panels, layers.items(), strict=False):
        for name, look in looks:
            points = sorted((row["length"], row[measure.field]) for row in members if row["implementation"] == name)
            if points:
                (legend[name],) = axes.plot(*np.transpose(points), linewidth=1.3, markersize=4, **look)
        axes.set_title(f"{title}\nH {width}, P {state}", loc="left")
        axes.set_xscale("log", base=2)
        _log_scale(axes, measure, members, "y")
    for axes in panels[len(layers) :]:
        axes.set_visible(False)
    figure.supxlabel("length, steps")
    figure.supylabel(measure.name)
    figure.legend(legend.values(), legend.keys(), loc="outside upper center", ncols=5)
    return figure


def _label(titles: Sequence[str], case: Sequence[str]) -> str:
    """Return the label of a case. Numbers are preceded by the title of their column, names are not."""
    return ", ".join(f"{title} {text}" if text[0].isdigit() else text for title, text in zip(titles, case, strict=True))


def _log_scale(axes: Axes, measure: Measure, rows: Sequence[Row], which: str) -> None:
    values = [row[measure.field] for row in rows]
    log_scale(axes, min(values), max(values), which)


def _looks(rows: Sequence[Row]) -> list[tuple[str, dict[str, Any]]]:
    looks = cycle(zip(COLOURS, MARKERS, strict=True))
    pairs = zip(implementations_of(rows), looks, strict=False)
    return [(name, {"color": colour, "marker": marker}) for name, (colour, marker) in pairs]
