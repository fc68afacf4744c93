"""Comparisons of models and ablations of S7 for docs/results.md.

    python -m benchmarks.studies --run walker2d          runs the unfinished trials of a study, in runs/studies
    python -m benchmarks.studies --run walker2d --models mamba    runs some models, and adds or replaces their results
    python -m benchmarks.studies --run long              runs the long studies of long_studies.py, over several days
    python -m benchmarks.studies --run selectivity       runs the studies of selectivity_studies.py, in an hour
    python -m benchmarks.studies --run gaps              runs the studies of gap_studies.py, in an hour
    python -m benchmarks.studies --run tuned             compares the presets with settings that s7 tune found
    python -m benchmarks.results                          writes the page from the results in docs/results

A group, such as long, runs the studies and the models that have no stored results yet; a study that is named is run
again. Repeat the command to resume an interrupted study, after Ctrl-C also in another checkout (see unfinished.py). Its
results are stored in docs/results, so that the page can be written without training.
"""

import argparse
import json
import shlex
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.gap_studies import GAP_STUDIES, VARIANTS
from benchmarks.long_studies import LONG_STUDIES
from benchmarks.selectivity_studies import SELECTIVITY_STUDIES
from benchmarks.stored import FIGURES, RESULTS, ROOT, records, spread, store
from benchmarks.study_entry import StudyEntry
from benchmarks.tuned import TUNED_STUDIES
from benchmarks.unfinished import pack, unpack
from s7 import interrupts
from s7.publishing import plots
from s7.publishing.markdown import Document
from s7.publishing.text import MISSING, is_percent, metric_mean_std, metric_name, metric_value, number
from s7.records import RunRecord
from s7.storage import write_atomically
from s7.study import Summary
from s7.study.summary import Score, chosen_text, comparison_text, search_notes

RUNS = ROOT / "runs" / "studies"
UNFINISHED = RESULTS / "unfinished.tar.xz"
# The model of a comparison, or the variant of an ablation, that figures emphasize.
FIRST = ("s7", "as set")


# The settings of walker2d before its preset had dropout and averaged weights, which help in longer runs.
WALKER = "--set data.copies=1 train.learning_rate=1e-2 model.dropout=0 train.average=0"
STUDIES = (
    StudyEntry(
        "walker2d",
        f"compare walker2d --minutes 1 {WALKER} --models "
        "s7,s5,lru,mamba,lstm,augmented-lstm,gru-d,ct-lstm,ode-lstm,cfc,ct-rnn,transformer",
    ),
    # Whether the transformer does well because windows of 64 steps are short.
    *(
        StudyEntry(
            f"walker2d-windows-of-{window}",
            f"compare walker2d --minutes 2 --no-test --models s7,transformer --set data.window={window}",
        )
        for window in (64, 256)
    ),
    StudyEntry(
        "fitzhugh-nagumo",
        "compare fitzhugh-nagumo --minutes 0.5 --models "
        "s7,s5,s4d,lru,mamba,lstm,gru,lem,cornn,lipschitz-rnn,fastgrnn,exprnn",
    ),
    StudyEntry(
        "pendulum",
        "compare pendulum --minutes 1 --set data.copies=4 --set train.learning_rate=1.2e-2 --models s7,s5,lstm,gru-d",
    ),
    StudyEntry("nmnist", "compare nmnist --minutes 1 --models s7,eventssm,lru,mamba,lstm"),
    StudyEntry(
        "spoken-digits",
        "compare spoken-digits --minutes 1 --set train.learning_rate=1e-2 --models s7,eventssm,lru,mamba,lstm",
    ),
    StudyEntry("ablation-walker2d", f"ablate walker2d --minutes 0.5 {WALKER}"),
    StudyEntry("ablation-nmnist", "ablate nmnist --minutes 0.5"),
)


def run(entry: StudyEntry, jobs: int, data: Path | None, models: str | None = None) -> None:
    """Run the unfinished trials of a study, of all its models or of some, and store the results."""
    from s7.cli.main import main

    out = RUNS / (entry.name if models is None else f"{entry.name}-{models.replace(',', '-')}")
    words = [*shlex.split(entry.command), "--jobs", str(jobs), "--out", str(out)]
    words += [] if models is None else ["--models", models]  # the last one counts
    unpack(RUNS, UNFINISHED)
    status = main([*words, *(["--data", str(data)] if data else [])])
    pack(RUNS, UNFINISHED)
    if status == interrupts.STATUS:
        raise KeyboardInterrupt
    if status > 1:  # status 1: a trial failed, which the page reports
        raise SystemExit(f"{entry.name}: stopped")
    if models is None or not entry.summary.exists():
        shutil.copy(out / "comparison.json", entry.summary)
    else:
        update_scores(entry.summary, out / "comparison.json")
    runs = {f"study-{entry.name}/{result.parent.name}": result.parent for result in out.glob("*/result.json")}
    store(runs, spread if entry in LONG_STUDIES else lambda history: ())


def update_scores(summary: Path, rerun: Path) -> None:
    """Add the scores of some models to a stored summary; those that it has already are replaced."""
    stored, new = (json.loads(path.read_text(encoding="utf-8")) for path in (summary, rerun))
    scores = {score["name"]: score for score in (*stored["scores"], *new["scores"])}
    stored["scores"] = list(scores.values())
    write_atomically(summary, json.dumps(stored, indent=1).encode())


def add_section(document: Document, entry: StudyEntry) -> None:
    """Add a study to the page, if its results are stored."""
    if not entry.summary.exists():
        return
    summary = Summary.read(entry.summary)
    runs = [record for name, record in records().items() if name.startswith(f"study-{entry.name}/")]
    machines = sorted({record.result.machine for record in runs if record.result and record.result.machine})
    document.heading(entry.name, 3)
    document.paragraph(f"`s7 {entry.command}`, on {', '.join(machines)}:")
    (_add_ablation if entry.is_ablation else _add_comparison)(document, summary)
    if any(record.history for record in runs):
        path = plots.save(FIGURES / f"study-{entry.name}.svg", curves, runs, summary.metric, summary.better)
        document.figure(f"Validation {metric_name(summary.metric)} over processor time, {entry.name}", path)
    if entry.missing:
        document.paragraph(f"Not run yet: {', '.join(entry.missing)}.")
    notes = [f"{score.name}: {failure}" for score in summary.scores for failure in score.failures]
    notes += [note for score in summary.scores for note in search_notes(score)]
    if notes:
        document.list(notes)


def curves(runs: Sequence[RunRecord], metric: str, better: str) -> Figure:
    """The best validation metric so far over processor time, as the mean over the seeds of each model."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    names = dict.fromkeys(_name(record) for record in runs)
    lines = {name: _best_so_far([run for run in runs if _name(run) == name], metric, better) for name in names}
    ranked = sorted(lines, key=lambda name: lines[name][1][-1], reverse=better == "max")
    others = [name for name in ranked if name not in FIRST]
    early = []
    for name in ranked:
        minutes, best = lines[name]
        early.append(np.interp(0.1 * minutes[-1], minutes, best))
        place = None if name in FIRST else others.index(name)
        colour = plots.INK if place is None else plots.COLOURS[place % len(plots.COLOURS)]
        style = "-" if place is None or place < len(plots.COLOURS) else "--"
        axes.plot(minutes, best, style, color=colour, linewidth=2.5 if place is None else 1.2, label=name)
    axes.set(xlabel="minutes of processor time", ylabel=f"best validation {metric_name(metric)} so far")
    if not is_percent(metric):
        axes.set_yscale("log")
    # The first tenth of the time would hide the differences of the rest.
    axes.set_ylim(**({"bottom": min(early)} if better == "max" else {"top": max(early)}))
    figure.legend(loc="outside right upper")
    return figure


def _best_so_far(runs: Sequence[RunRecord], metric: str, better: str) -> tuple[np.ndarray, np.ndarray]:
    """(minutes, mean over runs of the best value until then), from when all runs have one to the end of the longest."""
    best = np.maximum if better == "max" else np.minimum
    times = [np.array([epoch.cpu_seconds or epoch.seconds for epoch in run.history]) / 60 for run in runs]
    values = [best.accumulate([epoch.valid[metric] for epoch in run.history]) for run in runs]
    minutes = np.linspace(max(one[0] for one in times), max(one[-1] for one in times), 200)
    at = [np.searchsorted(one, minutes, side="right") - 1 for one in times]
    return minutes, np.mean([value[place] for value, place in zip(values, at, strict=True)], axis=0)


def _name(record: RunRecord) -> str:
    return record.variant or record.section("model").get("kind", "s7")


def add_selectivity(document: Document) -> None:
    """Add a table of what selectivity gains on each task: the ablations in which everything is static."""
    entries = (*STUDIES, *LONG_STUDIES, *SELECTIVITY_STUDIES)
    rows = _variant_rows(entries, ("all static", "all static and wide"), costs=("epochs", "parameters"))
    if rows:
        document.heading("What selectivity gains", 3)
        document.paragraph(
            "S7 as set, with static Λ, B, C and D, and static with twice the width, after the same time or the same "
            "number of steps. The first rows are those of the ablations above; the others are run by `python -m "
            "benchmarks.studies --run selectivity`:"
        )
        heads = ["command", "metric", "selective", "static", "static and wide", "seeds", "epochs", "parameters"]
        document.table(heads, rows)


def add_gaps(document: Document) -> None:
    """Add a table of models in which all states read the gaps, every second one or none."""
    rows = _variant_rows(GAP_STUDIES, VARIANTS)
    if rows:
        document.heading("What gaps are worth", 3)
        document.paragraph(
            "S7 as set, in which all states read the gaps; with every second state counting events instead, which is "
            "the default of models; and without gaps. After the same number of steps, by `python -m "
            "benchmarks.studies --run gaps`:"
        )
        document.table(["command", "metric", "read by all", "read by every second", "ignored", "seeds"], rows)


def _variant_rows(entries: Iterable[StudyEntry], names: Sequence[str], costs: Sequence[str] = ()) -> list[list[str]]:
    """Rows that compare the model as set with variants of these names: of the ablations that have the first one.

    Args:
        entries: The studies.
        names: The variants, a column each.
        costs: Attributes of scores, a column each, with the values of all models.
    """
    rows = []
    for entry in entries:
        if not (entry.is_ablation and entry.summary.exists()):
            continue
        summary = Summary.read(entry.summary)
        base, scores = summary.scores[0], {score.name: score for score in summary.scores}
        variants = [scores.get(name) for name in names]
        if variants[0] is None or not variants[0].values or not base.values:
            continue
        data = "test" if base.test else "validation"
        metric = f"{data} {metric_name(summary.metric)}"
        found = [_variant_cell(summary, score) for score in variants]
        sizes = [_of_all(getattr(score, name) for score in (base, *variants) if score) for name in costs]
        value = metric_mean_std(summary.metric, base.values)
        rows.append([f"`s7 {entry.command}`", metric, value, *found, str(len(base.values)), *sizes])
    return rows


def _variant_cell(summary: Summary, score: Score | None) -> str:
    """The metric of a variant, and whether it is better or worse than the model as set."""
    if score is None or not score.values:
        return MISSING
    return f"{metric_mean_std(summary.metric, score.values)}, {summary.compared(score).words or MISSING}"


def _of_all(values: Iterable[float | None]) -> str:
    return " / ".join(number(value, 3) for value in values)


def _add_comparison(document: Document, summary: Summary) -> None:
    metric, has_test = summary.metric, summary.split == "test"
    heads = ["model", f"{summary.split} {metric_name(metric)}", "seeds", *([summary.versus] if summary.versus else [])]
    heads += ["validation"] if has_test else []
    heads += ["parameters", "epochs", "minutes", "steps/s", "peak memory, MB"]
    heads += [summary.searched] if summary.searched else []
    rows = []
    for score in summary.ranked():
        if score.values:
            name = f"{score.name} (ignores gaps)" if score.gaps == "not used" else score.name
            compared = [summary.compared(score).words] if summary.versus else []
            valid = [metric_mean_std(metric, score.valid)] if has_test else []
            costs = [number(cost, 3) for cost in (score.epochs, score.minutes, score.steps_per_second)]
            sizes = [number(score.parameters), *costs, number(score.peak_memory_mb)]
            chosen = [chosen_text(score)] if summary.searched else []
            value = metric_mean_std(metric, score.values)
            rows.append([name, value, str(len(score.values)), *compared, *valid, *sizes, *chosen])
    for name, values in summary.baselines.items():
        rows.append([f"*{name}*", metric_value(metric, values.get(metric)), *[""] * (len(heads) - 2)])
    document.table(heads, rows)


def _add_ablation(document: Document, summary: Summary) -> None:
    metric = summary.metric
    rows = []
    for score in summary.scores:
        if not score.test:
            rows.append([score.name, "no result", "0", "", "", ""])
            continue
        difference, verdict = comparison_text(metric, summary.compared(score))
        value = [metric_mean_std(metric, score.test), str(len(score.test))]
        rows.append([score.name, *value, difference, verdict, number(score.parameters)])
    heads = ["variant", f"test {metric_name(metric)}", "seeds", "difference", "significant", "parameters"]
    document.table(heads, rows)


def main() -> None:
    """Run the studies that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    groups = {
        "all": STUDIES,
        "long": LONG_STUDIES,
        "selectivity": SELECTIVITY_STUDIES,
        "gaps": GAP_STUDIES,
        "tuned": TUNED_STUDIES,
    }
    entries = {entry.name: entry for group in groups.values() for entry in group}
    parser.add_argument("--run", nargs="+", required=True, choices=[*entries, *groups], help="studies to run")
    parser.add_argument("--models", metavar="A,B,…", help="run only these models, and add or replace their results")
    parser.add_argument("--jobs", type=int, default=1, help="parallel runs, which share the cores equally (default 1)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="data folder (default: $S7_DATA, else ~/.cache/s7)")
    options = parser.parse_args()
    chosen: dict[StudyEntry, str | None] = {}
    for name in options.run:
        chosen |= {entry: ",".join(entry.missing) or None for entry in groups.get(name, ()) if not entry.is_done}
        chosen |= {entries[name]: None} if name in entries else {}
    failures = []
    for entry, missing in chosen.items():
        try:
            run(entry, options.jobs, options.data, options.models or missing)
        except SystemExit as error:  # its data are missing, for example; the others can be run all the same
            failures.append(str(error))
        except KeyboardInterrupt:
            raise SystemExit(f"{entry.name}: interrupted; repeat the command to continue") from None
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    main()
