"""The report: which sections it has, and in which order."""

from collections.abc import Sequence

from s7.publishing import plots
from s7.publishing.pages import Figure, Page, Paragraph, Part, Section
from s7.publishing.text import count, metric_name
from s7.report.comparison import comparison, grouped, labels, representative
from s7.report.confusion import confusion, example_predictions
from s7.report.curves import shows_one, training
from s7.report.headline import headline, headline_of_groups
from s7.report.images import are_images
from s7.report.predictions import coverage, is_long, labels_over_time, more_traces, traces
from s7.report.run import Run
from s7.report.settings import differences, settings
from s7.version import __version__

# Groups of runs that are shown in detail; with more the page would be slow to open.
DETAILED = 4

TITLES = {
    "training": "Training",
    "predictions": "Predictions",
    "memory": "Memory",
    "selectivity": "Selectivity",
    "settings": "Settings",
}


def report(runs: Sequence[Run]) -> Page:
    """The report about one or several runs."""
    groups = grouped(runs)
    head = headline(runs[0]) if len(runs) == 1 else headline_of_groups(groups)
    sections = details(runs[0]) if len(runs) == 1 else comparisons(groups)
    footer = f"Made by s7 report {__version__} from {count(len(runs), 'folder')}."
    return Page(sections=sections, footer=footer, **head._asdict())


def comparisons(groups: list[list[Run]]) -> list[Section]:
    """A comparison of the runs of each task, then the best run of each group in detail."""
    tasks: dict[str, list[list[Run]]] = {}
    for runs in groups:
        tasks.setdefault(runs[0].group.task, []).append(runs)
    sections = []
    for n, (task, members) in enumerate(tasks.items(), 1):
        title = "Comparison" if len(tasks) == 1 else f"Comparison: {task}"
        sections.append(comparison(members, f"comparison{n}", title))
    names = [f"{task}, {label}" if len(tasks) > 1 else label for task in tasks for label in labels(tasks[task])]
    chosen = [representative(runs) for members in tasks.values() for runs in members]
    table = differences(chosen, names)
    if table is not None:
        sections.append(Section("differences", "Settings", [table]))
    for n, (run, name) in enumerate(zip(chosen[:DETAILED], names, strict=False), 1):
        note = Paragraph(
            f"The run with seed {run.record.seed}, the best of its group on the validation set.", note=True
        )
        sections.append(Section(f"g{n}", name, [note, *details(run, f"g{n}-", 3)]))
    if len(chosen) > DETAILED:
        rest = f"{count(len(chosen) - DETAILED, 'more group')} not shown in detail: make a report of one run alone."
        sections.append(Section("more", "More", [Paragraph(rest)]))
    return sections


def details(run: Run, prefix: str = "", level: int = 2) -> list[Section]:
    """One run: training, predictions, memory, selectivity, settings."""
    content = {"training": _training(run, prefix), "predictions": _predictions(run, prefix)}
    if run.examples:
        # These sections run the model, and only they need JAX.
        from s7.report.dynamics import dynamics

        content |= dynamics(run, prefix)
    content["settings"] = settings(run)
    return [Section(f"{prefix}{name}", TITLES[name], parts, level) for name, parts in content.items() if parts]


def _training(run: Run, prefix: str) -> list[Part]:
    if not run.epochs:
        return [Paragraph("No epoch has finished yet.")]
    caption = "For each epoch, the mean over its training batches and the validation set after it."
    if shows_one(run) and run.metric != "loss":
        caption += f" The loss is the {metric_name(run.metric)}, up to a constant factor."
    return [_figure(f"{prefix}training-curves", caption, training, run)]


def _predictions(run: Run, prefix: str) -> list[Part]:
    parts = confusion(run) if run.result.confusion else []
    if not run.examples:
        return parts
    if run.about:
        parts.append(Paragraph(run.about))
    first = run.examples[0]
    if not first.per_step:
        return [*parts, example_predictions(run)]
    name = f"{prefix}trace"
    if first.is_labelled:
        caption = f"A {run.split} sequence: the true and the predicted class, and the probability of the true class."
        return [*parts, _figure(name, caption, labels_over_time, run)]
    caption = f"A {run.split} sequence: target and prediction, and below them the error (prediction − target)."
    caption += " The scale of the error leaves out the largest 1%."
    if is_long(first):
        caption += " Right: a part of it, enlarged."
    if run.gaussian:
        caption += f" The band is ± 2 standard deviations as predicted by the model: {coverage(run):.1%} of the"
        caption += " targets in these examples are inside (95.4% for a normal distribution)."
    if are_images(first.inputs):
        caption += " Top: some of the input images."
    parts.append(_figure(name, caption, traces, run))
    if len(run.examples) > 1:
        caption = f"Other {run.split} sequences{', a part of each' if is_long(first) else ''}."
        parts.append(_figure(f"{prefix}more", caption, more_traces, run))
    return parts


def _figure(name: str, caption: str, make, run: Run) -> Figure:
    return Figure(name, plots.draw(name, make, run), caption)
