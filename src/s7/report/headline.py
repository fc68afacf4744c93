"""What a reader wants to know first."""

from s7.publishing.text import count, duration, metric_mean_std, metric_name, metric_value
from s7.report.compare import labels, values_of, winner
from s7.report.markup import Safe, paragraph, tag
from s7.report.run import Run


def headline(run: Run) -> Safe:
    """One run: what was trained on what, and how well it does."""
    metric = run.metric
    cards = []
    if run.finished:
        tested = run.value("test", metric) is not None
        if tested:
            large = f"{metric_name(metric)} on the test set"
            cards.append(card(metric_value(metric, run.value("test", metric)), large, large=True))
        small = f"{metric_name(metric)} on the validation set"
        cards.append(card(metric_value(metric, run.value("valid", metric)), small, large=not tested))
        for name, value in (run.result.get("test") or {}).items():
            if name == "rmse" and metric == "mse":
                cards.append(card(metric_value(name, float(value)), f"{metric_name(name)} on the test set"))
        cards += baselines(run, run.value("test", metric))
    elif run.best is not None:
        told = f"{metric_name(metric)} on the validation set, so far (epoch {run.best['epoch']})"
        cards.append(card(metric_value(metric, run.value("valid", metric)), told, large=True))
    parts = [paragraph(_eyebrow(run), class_="eyebrow"), tag("h1", run.title), paragraph(_lead(run), class_="lead")]
    if cards:
        parts.append(tag("div", *cards, class_="cards"))
    if run.result.get("protocol_note"):
        parts.append(
            paragraph(tag("b", f"Protocol {run.group.protocol}. "), run.result["protocol_note"], class_="note")
        )
    return tag("header", *parts)


def baselines(run: Run, reached: float | None) -> list[Safe]:
    """What it takes no training to reach."""
    metric, cards = run.metric, []
    for name, values in (run.result.get("baselines") or {}).items():
        value = values.get(metric)
        if value is None:
            continue
        told = f"{metric_name(metric)} of {name}"
        if reached and run.better == "min" and value > reached:
            told += f", {value / reached:.3g} times as much"
        cards.append(card(metric_value(metric, float(value)), told))
    return cards


def headline_of_many(groups: list[list[Run]]) -> Safe:
    """Several runs: which did best, over how many seeds."""
    runs = [run for group in groups for run in group]
    first, unfinished = runs[0], sum(not run.finished for run in runs)
    tasks = {run.group.task for run in runs}
    told = f"{count(len(runs), 'run')} in {count(len(groups), 'group')}; runs of a group differ in their seeds."
    if unfinished:
        told += f" {count(unfinished, 'run is', 'runs are')} unfinished."
    title = first.title if len(tasks) == 1 else f"{count(len(tasks), 'task')}, {count(len(runs), 'run')}"
    parts = [tag("h1", title), paragraph(told, class_="lead")]
    if len(tasks) == 1:
        best = winner(groups)
        test = values_of(groups[best], "test", first.metric)
        reached = sum(test) / len(test) if test else None
        where = "test" if test else "validation"
        shown = metric_mean_std(first.metric, test or values_of(groups[best], "valid", first.metric))
        over = f" over {count(len(test), 'seed')}" if len(test) > 1 else ""
        best_of = f", {labels(groups)[best]}: the best on the validation set" if len(groups) > 1 else ""
        told = f"{metric_name(first.metric)} on the {where} set{over}{best_of}"
        parts.append(tag("div", card(shown, told, large=True), *baselines(first, reached), class_="cards"))
        parts = [paragraph(first.group.task, class_="eyebrow"), *parts]
    notes = {run.group.protocol: run.result["protocol_note"] for run in runs if run.result.get("protocol_note")}
    for protocol, note in notes.items():
        parts.append(paragraph(tag("b", f"Protocol {protocol}. "), note, class_="note"))
    return tag("header", *parts)


def card(value: str, told: str, *, large: bool = False) -> Safe:
    """A number and what it is."""
    return tag("div", tag("b", value), tag("span", told), class_="card large" if large else "card")


def _eyebrow(run: Run) -> str:
    kind = run.group
    told = [
        kind.task,
        kind.model,
        kind.preset and f"preset {kind.preset}",
        kind.protocol and f"protocol {kind.protocol}",
    ]
    return " · ".join(part for part in [*told, run.seed and f"seed {run.seed}"] if part)


def _lead(run: Run) -> Safe | str:
    name = run.group.model or "The model"
    if run.finished:
        result = run.result
        told = f"{name} with {result['parameters']:,} parameters, " if "parameters" in result else f"{name}, "
        told += f"trained for {count(int(result.get('epochs', len(run.epochs))), 'epoch')}"
        if "seconds" in result:
            told += f" in {duration(result['seconds'])}"
        if "best_epoch" in result:
            told += f"; the best on the validation set was the {_ordinal(int(result['best_epoch']))}"
        return f"{told}."
    train = run.config.get("train")
    wanted = train.get("epochs") if isinstance(train, dict) else None
    done = f"{len(run.epochs)} of {wanted} epochs" if wanted else count(len(run.epochs), "epoch")
    told_done = f"{done} done" if run.epochs else "no epoch has finished yet"
    return Safe(tag("span", "unfinished", class_="badge") + f" {told_done}.")


def _ordinal(n: int) -> str:
    ending = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"
