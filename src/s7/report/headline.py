"""The head of the page: the task, the model and its results."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from s7.publishing.pages import Card, Content, Paragraph
from s7.publishing.text import count, duration, metric_mean_std, metric_name, metric_value
from s7.report.comparison import labels, values_of, winner
from s7.report.run import Run


class Headline(NamedTuple):
    """The fields of a `Page` above its sections."""

    title: str
    eyebrow: str
    lead: Content
    cards: list[Card]
    intro: list[Paragraph]


def headline(run: Run) -> Headline:
    """The head of the page for one run."""
    metric, cards = run.metric, []
    if run.record.finished:
        tested = run.value("test", metric) is not None
        if tested:
            label = f"{metric_name(metric)} on the test set"
            cards.append(Card(metric_value(metric, run.value("test", metric)), label, large=True))
        label = f"{metric_name(metric)} on the validation set"
        cards.append(Card(metric_value(metric, run.value("valid", metric)), label, large=not tested))
        rmse = run.value("test", "rmse")
        if rmse is not None and metric == "mse":
            cards.append(Card(metric_value("rmse", rmse), "RMSE on the test set"))
        cards += _baselines(run, run.value("test", metric))
    elif run.record.best is not None:
        label = f"{metric_name(metric)} on the validation set, so far (epoch {run.record.best.epoch})"
        cards.append(Card(metric_value(metric, run.value("valid", metric)), label, large=True))
    return Headline(run.title, _eyebrow(run), _lead(run), cards, _protocols([run]))


def headline_of_groups(groups: Sequence[Sequence[Run]]) -> Headline:
    """The head of the page for several runs: the best group and its number of seeds."""
    runs = [run for group in groups for run in group]
    first, unfinished = runs[0], sum(not run.record.finished for run in runs)
    tasks = {run.group.task for run in runs}
    lead = f"{count(len(runs), 'run')} in {count(len(groups), 'group')}. Runs of a group differ only in their seeds."
    if unfinished:
        lead += f" {count(unfinished, 'run is', 'runs are')} unfinished."
    if len(tasks) > 1:
        title = f"{count(len(tasks), 'task')}, {count(len(runs), 'run')}"
        return Headline(title, "", lead, [], _protocols(runs))
    best = winner(groups)
    test = values_of(groups[best], "test", first.metric)
    shown = metric_mean_std(first.metric, test or values_of(groups[best], "valid", first.metric))
    label = f"{metric_name(first.metric)} on the {'test' if test else 'validation'} set"
    label += f" over {count(len(test), 'seed')}" if len(test) > 1 else ""
    label += f", {labels(groups)[best]}: best on the validation set" if len(groups) > 1 else ""
    cards = [Card(shown, label, large=True), *_baselines(first, sum(test) / len(test) if test else None)]
    return Headline(first.title, first.group.task, lead, cards, _protocols(runs))


def _baselines(run: Run, reached: float | None) -> list[Card]:
    """The baselines that need no training."""
    metric, cards = run.metric, []
    for name, values in run.result.baselines.items():
        value = values.get(metric)
        if value is None:
            continue
        label = f"{metric_name(metric)} of {name}"
        if reached and run.record.better == "min" and value > reached:
            label += f" ({value / reached:.3g}×)"
        cards.append(Card(metric_value(metric, value), label))
    return cards


def _protocols(runs: Sequence[Run]) -> list[Paragraph]:
    notes = {run.group.protocol: run.result.protocol_note for run in runs if run.result.protocol_note}
    shown = Markup("<b>Protocol {}:</b> {}.")
    return [Paragraph(shown.format(protocol, note.rstrip(".")), note=True) for protocol, note in notes.items()]


def _eyebrow(run: Run) -> str:
    kind = run.group
    parts = [kind.task, kind.model, kind.preset and f"preset {kind.preset}"]
    parts += [kind.protocol and f"protocol {kind.protocol}", f"seed {run.record.seed}"]
    return " · ".join(part for part in parts if part)


def _lead(run: Run) -> Content:
    if not run.record.finished:
        planned = run.record.section("train").get("epochs")
        done = f"{len(run.epochs)} of {planned} epochs" if planned else count(len(run.epochs), "epoch")
        state = f"{done} done." if run.epochs else "No epoch has finished yet."
        return Markup('<span class="badge">unfinished</span> {}').format(state)
    name = run.group.model or "The model"
    lead = f"{name} with {run.result.parameters:,} parameters, " if run.result.parameters else f"{name}, "
    lead += f"trained for {count(run.result.epochs or len(run.epochs), 'epoch')}"
    lead += "" if run.seconds is None else f" in {duration(run.seconds)}"
    best = run.record.best
    return lead + (f"; best on the validation set after epoch {best.epoch}." if best else ".")
