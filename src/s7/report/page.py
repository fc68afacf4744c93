"""The page: what was found in the runs' folders, in the order in which a reader asks for it."""

from collections.abc import Sequence

from s7 import __version__
from s7.publishing.text import count, metric_name
from s7.report.compare import comparison, grouped, labels, representative
from s7.report.confusion import confusion, spoken
from s7.report.curves import learning, shows_one
from s7.report.dynamics import EVENTS, STRETCH, Look, describe, look, models_of, one_sequence
from s7.report.figures import draw
from s7.report.headline import headline, headline_of_many
from s7.report.markup import Safe, figure, paragraph, section, tag, text
from s7.report.pictures import are_pictures
from s7.report.record import differences, record
from s7.report.run import Run
from s7.report.selectivity import first_and_last, selectivity
from s7.report.spectrum import growing, spectrum, time_constants
from s7.report.style import CSS
from s7.report.traces import coverage, further, is_long, labels_over_time, times_of, traces

# Of so many groups the inside is shown; with more the page would be slow to open.
INSIDES = 4

MEMORY = Safe("""The factor |<i>a<sub>k</sub></i>| by which each state is multiplied at every step of a sequence: a
dot at the median, a bar over the middle nine tenths. Near 1 a state remembers for long (0.98: about 50 steps), at 0 it
forgets at once. A long bar means that the state keeps or drops its past depending on what comes in""")
CONSTANTS = Safe("""The time in which a state forgets all but 1/e of its past, if the input stayed as it is: a stroke at
each state's median over that sequence, a thin line over the middle nine tenths. Dashed: the length of the sequence""")
GAPS = ", and on the gap before each event; events without one are left out."
SELECTION = Safe("""Under the input, for the first and the last layer: the memory of the four states in which it changes
most, and the size of what the input-dependent parts of <i>B<sub>k</sub></i>, <i>C<sub>k</sub></i> and
<i>D<sub>k</sub></i> contribute, divided by the size of what their static parts do. At 1 both weigh the same; where the
lines move, the model treats its input differently from moment to moment.""")


def render(runs: Sequence[Run]) -> str:
    """The whole page."""
    groups = grouped(runs)
    if len(runs) == 1:
        top, sections = headline(runs[0]), inside(runs[0], "", 2)
    else:
        top, sections = headline_of_many(groups), several(groups)
    links = [tag("li", tag("a", title, href=f"#{name}")) for name, title, _ in sections]
    contents = tag("nav", tag("ul", *links), aria_label="Contents") if len(links) > 1 else Safe()
    body = "\n".join(part for _, _, part in sections)
    footer = tag("footer", paragraph(f"Made by s7 report {__version__} from {count(len(runs), 'folder')}."))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(f"{runs[0].title} – s7")}</title>
<style>{CSS}</style>
</head>
<body>
<main>
{top}
{contents}
{body}
{footer}
</main>
</body>
</html>
"""


def several(groups: list[list[Run]]) -> list[tuple[str, str, Safe]]:
    """The comparison of each task's runs, then the best run of each group from inside."""
    sections: list[tuple[str, str, Safe]] = []
    tasks: dict[str, list[list[Run]]] = {}
    for runs in groups:
        tasks.setdefault(runs[0].group.task, []).append(runs)
    for n, (task, parts) in enumerate(tasks.items(), 1):
        title = "Comparison" if len(tasks) == 1 else f"Comparison: {task}"
        sections.append((f"comparison{n}", title, comparison(parts, f"comparison{n}", title)))
    names = [f"{runs[0].group.task}, {name}" if len(tasks) > 1 else name for runs, name in _named(tasks)]
    chosen = [representative(runs) for parts in tasks.values() for runs in parts]
    different = differences(chosen, names)
    if different:
        sections.append(("differences", "Settings", section("differences", "Settings", different)))
    for n, (run, name) in enumerate(zip(chosen[:INSIDES], names, strict=False), 1):
        told = paragraph(f"The run with seed {run.seed}, of its group the best on the validation set.", class_="note")
        parts_inside = [part for _, _, part in inside(run, f"g{n}-", 3)]
        sections.append((f"g{n}", name, section(f"g{n}", name, told, *parts_inside)))
    if len(chosen) > INSIDES:
        left = f"{count(len(chosen) - INSIDES, 'group')} more, not shown from inside: make a report of its run alone."
        sections.append(("more", "More", section("more", "More", paragraph(left))))
    return sections


def _named(tasks: dict[str, list[list[Run]]]) -> list[tuple[list[Run], str]]:
    return [pair for parts in tasks.values() for pair in zip(parts, labels(parts), strict=True)]


def inside(run: Run, prefix: str, level: int) -> list[tuple[str, str, Safe]]:
    """One run: how it learned, what it says, what it remembers, what it attends to, how to repeat it."""
    titles = {"learning": "Learning", "answers": "Answers", "memory": "Memory", "selection": "Selection"}
    content = {"learning": _learning(run, prefix), "answers": _answers(run, prefix)}
    content |= _dynamics(run, prefix)
    sections = [
        (f"{prefix}{name}", titles[name], section(f"{prefix}{name}", titles[name], *parts, level=level))
        for name, parts in content.items()
        if parts
    ]
    return [*sections, (f"{prefix}settings", "Settings", record(run, f"{prefix}settings", level))]


def _learning(run: Run, prefix: str) -> list[Safe]:
    if not run.epochs:
        return [paragraph("No epoch has finished yet.")]
    name = f"{prefix}learning-curves"
    told = "Each epoch: the mean over its training batches, and the validation set after it."
    if shows_one(run) and run.metric != "loss":
        told += f" The loss is the {metric_name(run.metric)}, up to a constant factor."
    return [figure(draw(name, learning, run), name, told)]


def _answers(run: Run, prefix: str) -> list[Safe]:
    parts: list[Safe] = []
    if run.result.get("confusion"):
        parts.append(confusion(run))
    if not run.examples:
        return parts
    if run.about:
        parts.append(paragraph(run.about))
    first = run.examples[0]
    if not first.per_step:
        return [*parts, spoken(run)]
    name = f"{prefix}trace"
    if first.is_labelled:
        told = (
            f"A {run.split} sequence: the true class and the likeliest one, and the probability given to the true one."
        )
        return [*parts, figure(draw(name, labels_over_time, run), name, told)]
    told = f"A {run.split} sequence: the target, the prediction over it, and below the prediction minus the target."
    told += " The error's scale is that of all but the largest hundredth."
    if is_long(first):
        told += " Right, a part of it from near."
    if run.gaussian:
        told += f" The band is two standard deviations to each side, as the model states them: {coverage(run):.1%} of"
        told += " the targets in these examples lie in it (95.4% would of a normal distribution)."
    if are_pictures(first.inputs):
        told += " On top, some of the pictures that went in."
    parts.append(figure(draw(name, traces, run), name, told))
    if len(run.examples) > 1:
        name = f"{prefix}further"
        parted = ", a part of each" if is_long(first) else ""
        parts.append(figure(draw(name, further, run), name, f"Other {run.split} sequences{parted}."))
    return parts


def _dynamics(run: Run, prefix: str) -> dict[str, list[Safe]]:
    if not run.examples:
        return {}
    models = models_of(run)
    if models.best is None:
        return {"memory": [paragraph(f"Not shown: {models.problem}.")]}
    if models.best.config.layer is not None:  # only S7 and what is made of its parts can be looked into
        return {}
    example = one_sequence(models.best, run.examples[0])
    try:
        after = look(models.best, example)
        before = look(models.initial, example) if models.initial is not None else []
    except (ValueError, TypeError) as error:
        return {"memory": [paragraph(f"Not shown: {describe(error)}.")]}
    memory, constants, selection = (f"{prefix}{name}" for name in ("spectrum", "constants", "selectivity"))
    times = times_of(example)[:EVENTS]
    whole = float(times[-1] - times[0]) or 1.0
    unit = "steps" if example.dt is None else "in the units of the gaps"
    told = MEMORY + (GAPS if example.dt is not None else ".") + _caution(after, example.length)
    seen = after[0].event[after[0].looked_at]
    part = f" Shown are events {seen[0] + 1:,} to {seen[-1] + 1:,}." if example.length > STRETCH else ""
    return {
        "memory": [
            figure(draw(memory, spectrum, before, after), memory, Safe(told)),
            figure(draw(constants, time_constants, before, after, whole, unit), constants, Safe(f"{CONSTANTS}.")),
        ],
        "selection": [
            figure(draw(selection, selectivity, example, first_and_last(after)), selection, Safe(SELECTION + part)),
        ],
    }


def _caution(after: list[Look], length: int) -> str:
    told = f" Shown are the first {EVENTS:,} of {length:,} events." if length > EVENTS else ""
    if growing(after):
        told += f" In {count(growing(after), 'state')} the factor exceeds 1, so that the state grows."
    return told
