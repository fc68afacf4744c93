"""Predictions along a sequence, with the targets."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from s7.publishing.plots import COLOURS, TRUTH, WIDTH, envelope, thin, wrapped
from s7.report.images import are_images, strip
from s7.report.run import Example, Run

COLUMNS = 3
MORE = 3
# Predictions of a sequence that is too long to be seen whole, and of the part of it that is enlarged.
LONG, DETAIL = 600, 150
PREDICTION, ERROR = COLOURS[0], COLOURS[1]


def times_of(example: Example) -> np.ndarray:
    """The time of each event: the sum of the gaps, or its index."""
    return np.arange(example.length, dtype=float) if example.dt is None else np.cumsum(example.dt, dtype=float)


def time_label(example: Example) -> str:
    """The label of the time axis."""
    return "step" if example.dt is None else "time"


def aligned(example: Example, gaussian: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Times, targets, predictions and standard deviations where the model has outputs.

    A model that pools has one output per window, at its last event.
    """
    steps, times, targets = len(example.outputs), times_of(example), example.targets
    ends = np.minimum(np.arange(1, steps + 1) * -(-example.length // steps), example.length) - 1
    if len(targets) != steps:
        targets = targets[ends]
    predicted, sigma = gaussian_parts(example.outputs) if gaussian else (example.outputs, None)
    return times[ends], targets, predicted, sigma


def gaussian_parts(outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations from the outputs of a model trained with GaussianNLL."""
    import jax.numpy as jnp

    from s7.training.objectives import GaussianNLL

    means, raw = np.split(outputs.astype(float), 2, -1)
    variance = GaussianNLL(means.shape[-1]).variance(jnp.asarray(raw))
    return means, np.sqrt(np.asarray(variance, float))


def most_variable(values: np.ndarray, most: int) -> np.ndarray:
    """The columns that vary most, in their own order."""
    spread = np.nan_to_num(np.nanvar(values.astype(float), axis=0))
    return np.sort(np.argsort(-spread, kind="stable")[:most])


def coverage(run: Run) -> float:
    """The fraction of the targets of all examples within two standard deviations."""
    inside = []
    for example in run.examples:
        _, targets, predicted, sigma = aligned(example, True)
        inside.append(np.abs(predicted - targets).ravel() <= 2 * np.asarray(sigma).ravel())
    return float(np.concatenate(inside).mean())


def traces(run: Run) -> Figure:
    """The first example: its input if that is images, and target, prediction and error of each column."""
    example = run.examples[0]
    times, targets, predicted, sigma = aligned(example, run.gaussian)
    chosen = most_variable(targets, COLUMNS)
    has_images = are_images(example.inputs)
    heights = ([0.62] if has_images else []) + [1.6, 0.9] * len(chosen)
    figure = Figure(figsize=(WIDTH, 0.5 + sum(heights)), layout="constrained")
    windows = [slice(None), detail(targets[:, chosen])] if is_long(example) else [slice(None)]
    panels = figure.subplots(
        len(heights),
        len(windows),
        sharex="col",
        sharey="row",
        squeeze=False,
        height_ratios=heights,
        width_ratios=[2.2, 1][: len(windows)],
    )
    if has_images:
        strip(panels[0, 0], example.inputs, times_of(example))
        for axes in panels[0, 1:]:
            axes.axis("off")
        panels = panels[1:]
    for place, column in enumerate(chosen):
        for side, window in enumerate(windows):
            top, bottom = panels[2 * place, side], panels[2 * place + 1, side]
            target, answer = targets[window, column], predicted[window, column]
            deviation = None if sigma is None else sigma[window, column]
            _signal(top, times[window], target, answer, deviation)
            _error(bottom, times[window], answer - target, deviation)
        _error_scale(panels[2 * place + 1, 0], (predicted - targets)[:, column])
        panels[2 * place, 0].set_ylabel(wrapped(column_name(run, int(column)), 16))
        panels[2 * place + 1, 0].set_ylabel("error")
    for axes, window in zip(panels[-1], windows, strict=True):
        axes.set_xlabel(time_label(example))
        _time_limits(axes, times[window])
    panels[0, 0].legend(loc="lower right", ncols=3, bbox_to_anchor=(1, 1), borderaxespad=0)
    if len(windows) > 1:
        panels[0, 1].set_title("enlarged")
    figure.align_ylabels()
    return figure


def more_traces(run: Run) -> Figure:
    """The column that varies most, in other examples."""
    examples = run.examples[1 : 1 + MORE]
    figure = Figure(figsize=(WIDTH, 0.6 + 1.35 * len(examples)), layout="constrained")
    panels = np.ravel(figure.subplots(len(examples), 1, squeeze=False))
    column = int(most_variable(aligned(run.examples[0], run.gaussian)[1], 1)[0])
    for axes, example in zip(panels, examples, strict=True):
        times, targets, predicted, sigma = aligned(example, run.gaussian)
        window = detail(targets[:, [column]]) if is_long(example) else slice(None)
        deviation = None if sigma is None else sigma[window, column]
        _signal(axes, times[window], targets[window, column], predicted[window, column], deviation)
        axes.set_ylabel(wrapped(column_name(run, column), 14))
        _time_limits(axes, times[window])
    panels[0].legend(loc="lower right", ncols=3, bbox_to_anchor=(1, 1), borderaxespad=0)
    panels[-1].set_xlabel(time_label(run.examples[0]))
    return figure


def is_long(example: Example) -> bool:
    """Whether a part of it should be enlarged."""
    return len(example.outputs) > LONG


def detail(targets: np.ndarray) -> slice:
    """A part of the second half, around the largest change of the targets."""
    middle = len(targets) // 2
    change = np.abs(np.diff(np.nan_to_num(targets[middle:].astype(float)), axis=0)).sum(1)
    first = min(max(middle + int(change.argmax()) - DETAIL // 2, middle), len(targets) - DETAIL)
    return slice(first, first + DETAIL)


def labels_over_time(run: Run) -> Figure:
    """Classes along a sequence, and the probability of the true one."""
    example = run.examples[0]
    times, targets, outputs, _ = aligned(example, False)
    logits = outputs.astype(float)
    probabilities = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    right = probabilities[np.arange(len(targets)), np.clip(targets, 0, probabilities.shape[1] - 1)]
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    top.plot(*thin(times, targets), drawstyle="steps-mid", color=TRUTH, linewidth=4, alpha=0.45, label="true class")
    top.plot(*thin(times, logits.argmax(1)), ".", color=PREDICTION, markersize=3, label="predicted class")
    names = run.result.classes
    if 0 < len(names) <= 12:
        top.set_yticks(range(len(names)), [wrapped(name) for name in names])
    bottom.plot(*thin(times, right), color=PREDICTION, linewidth=1)
    bottom.set(ylim=(-0.03, 1.03), ylabel="p(true)", xlabel=time_label(example))
    top.legend(loc="lower right", ncols=2, bbox_to_anchor=(1, 1), borderaxespad=0)
    top.margins(x=0)
    return figure


def column_name(run: Run, column: int) -> str:
    """The name of a target, or its number."""
    if column < len(run.columns):
        return run.columns[column]
    return "target" if run.examples[0].targets.shape[-1] == 1 else f"target {column + 1}"


def _signal(axes: Axes, times: np.ndarray, target: np.ndarray, predicted: np.ndarray, sigma: np.ndarray | None) -> None:
    if sigma is not None:
        band = envelope(times, predicted - 2 * sigma, predicted + 2 * sigma)
        axes.fill_between(*band, color=PREDICTION, alpha=0.18, linewidth=0, label="± 2σ")
    axes.plot(*thin(times, target), color=TRUTH, linewidth=3.2, alpha=0.5, label="target")
    axes.plot(*thin(times, predicted), color=PREDICTION, linewidth=1, label="prediction")


def _error(axes: Axes, times: np.ndarray, error: np.ndarray, sigma: np.ndarray | None) -> None:
    if sigma is not None:
        axes.fill_between(*envelope(times, -2 * sigma, 2 * sigma), color=PREDICTION, alpha=0.18, linewidth=0)
    axes.plot(*thin(times, error), color=ERROR, linewidth=1)


def _error_scale(axes: Axes, error: np.ndarray) -> None:
    """Leave out the largest errors, which are mostly those of the first steps."""
    size = np.abs(error[np.isfinite(error)])
    most = 1.3 * np.quantile(size, 0.99) if size.size else 0
    if most > 0:
        axes.set_ylim(-most, most)


def _time_limits(axes: Axes, times: np.ndarray) -> None:
    axes.set_xlim(times[0], times[-1] if times[-1] > times[0] else times[0] + 1)
