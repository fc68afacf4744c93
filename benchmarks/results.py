"""docs/results.md: the results of the presets.

    python -m benchmarks.results --train walker2d     trains all runs of a row that are not stored yet
    python -m benchmarks.results                      writes the page, and what runs can expect, from docs/results

An interrupted run is resumed. The record of each finished run is stored in docs/results/runs.jsonl.xz, so that the page
can be written without training.
"""

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks import expected, gesture, new_speakers, studies, tuned, ucr
from benchmarks.entries import ENTRIES, NOT_RUN, Curve, Entry
from benchmarks.stored import FIGURES, RESULTS, ROOT, records, store
from s7.publishing import plots
from s7.publishing.markdown import Document
from s7.publishing.text import mean_std, number
from s7.records import Epoch, Result
from s7.tasks import find_task

RUNS = ROOT / "runs" / "results"
PAGE = ROOT / "docs" / "results.md"
INTRODUCTION = """Each row is trained by `python -m benchmarks.results --train NAME`, which runs `s7 train` with the
preset `ours` for each seed, or for each speaker that is left out. The best epoch is chosen on validation data, and the
test set is evaluated once for each preset; walker2d, pendulum, nmnist, both rows of human-activity,
spoken-digits-new-speaker and listops-curriculum had been tested with earlier settings. ± is the
standard deviation over runs (n − 1). Settings were chosen on validation data with seed 0.
`text-pretrained` starts from a model that predicts the next byte of the training reviews, `listops-curriculum`,
`pathfinder-contours` and `path-x-contours` from models of easier tasks (see below)."""

CURVES = """Accuracy over the processor time of training, without earlier stages, and over the training sequences that
were read. A star is what S4 reaches after as many sequences, according to the experiments in its repository (text 80 %
and listops 50 % after 10 epochs, image 80 % and pathfinder 90 % after 20). Its time on a CPU is not known."""


def train(names: Sequence[str], seeds: Sequence[int] | None, data: Path | None) -> None:
    """Train the runs of these entries that are not stored yet."""
    from s7.data.folder import DataFolder
    from s7.job import Job
    from s7.machine import keep_compiled_code, keep_freed_memory
    from s7.run_folder import RunFolder
    from s7.settings import from_assignments
    from s7.training.display import display

    keep_freed_memory()
    keep_compiled_code()
    for entry in ENTRIES:
        if entry.name not in names:
            continue
        for run in entry.runs:
            name = f"{entry.name}-{run.label}"
            if name in records() or (seeds is not None and run.seed not in seeds):
                continue
            print(f"\n{name}", flush=True)
            out, settings = RUNS / name, from_assignments(run.settings)
            job = Job(entry.task, protocol=entry.protocol, seed=run.seed, settings=settings)
            for stage, assignments in enumerate(entry.before, 1):
                before = RunFolder(RUNS / f"{name}-before-{stage}")
                if not before.is_finished:
                    earlier = replace(job, settings=from_assignments(assignments), test=False)
                    earlier.run(before.path, DataFolder(data), resume=before.is_begun, callbacks=(display(),))
                job = replace(job, init=os.path.relpath(before.path))
            job.run(out, DataFolder(data), resume=out.exists(), callbacks=(display(),))
            store({name: out})


def page() -> Document:
    """The whole page."""
    document = Document("Results")
    document.made_by("python -m benchmarks.results")
    document.paragraph(INTRODUCTION)
    found = {entry: results(entry) for entry in ENTRIES}
    heads = ["name", "metric", "test, mean ± std", "worst run", "validation", "goal", "without a model", "published"]
    document.table(heads, [_row(entry, list(runs.values())) for entry, runs in found.items()])
    document.paragraph("Not run:")
    document.list(f"**{task}**: {why}." for task, why in NOT_RUN.items())
    found = {entry: runs for entry, runs in found.items() if runs}
    document.heading("Training")
    heads = ["name", "protocol", "parameters", "epochs", "minutes", "steps/s", "peak memory, MB", "machine"]
    document.table(heads, [_training(entry, list(runs.values())) for entry, runs in found.items()])
    short = {entry: next(iter(runs.values())) for entry, runs in found.items() if entry.full_epochs}
    if short:
        document.paragraph("A full training would take, on that machine and at the same speed:")
        document.list(_full_training(entry, result) for entry, result in short.items())
    document.paragraph(CURVES)
    for entry in found:
        if entry.curve:
            path = plots.save(FIGURES / f"curve-{entry.name}.svg", curve, entry, entry.curve)
            document.figure(f"Accuracy of {entry.name} during training", path)
    if gesture.STORED.exists():
        figures = json.loads(gesture.STORED.read_text())
        document.heading("A long recording")
        document.paragraph(
            f"The longest of ten recordings of DVS-Gesture, by `python -m benchmarks.gesture` on "
            f"{figures[0]['machine']}:"
        )
        document.list(f"{gesture.row(figure)}." for figure in figures)
    new_speakers.add_section(document)
    ucr.add_section(document)
    document.heading("Comparison")
    document.paragraph(
        "By `python -m benchmarks.studies --run NAME --jobs 2`, each run on one core, with seeds 0, 1 and 2. A "
        "difference is significant if p < 0.05 in Welch's t-test over seeds; the number of rows is not corrected for."
    )
    for study in (*studies.STUDIES, *studies.LONG_STUDIES):
        studies.add_section(document, study)
    studies.add_selectivity(document)
    studies.add_gaps(document)
    tuned.add_section(document)
    for study in tuned.TUNED_STUDIES:
        studies.add_section(document, study)
    document.heading("Protocols")
    used = {(result.task, result.protocol): None for runs in found.values() for result in runs.values()}
    document.list(f"**{task}, {protocol}**: {find_task(task).protocols[protocol]}." for task, protocol in used)
    document.heading("All runs")
    heads = ["run", "best epoch", "validation", "test", "SHA-256 of the test data"]
    document.table(heads, [row for entry, runs in found.items() for row in _runs(entry, runs)])
    document.raw((RESULTS / "notes.md").read_text())
    return document


def results(entry: Entry) -> dict[str, Result]:
    """The stored results of an entry, by the label of the run."""
    stored = {run.label: records().get(f"{entry.name}-{run.label}") for run in entry.runs}
    return {label: record.result for label, record in stored.items() if record is not None and record.result}


def curve(entry: Entry, beside: Curve) -> Figure:
    """The metric over the processor time of training, and over the sequences that were read."""
    history: Sequence[Epoch] = records()[f"{entry.name}-{entry.runs[0].label}"].history
    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.subplots()
    # Earlier records have no processor time. These runs had one core each.
    hours = [(epoch.cpu_seconds or epoch.seconds) / 3600 for epoch in history]
    for split, colour in (("train", plots.SOFT), ("valid", plots.COLOURS[0])):
        values = [getattr(epoch, split)[entry.metric] for epoch in history]
        axes.plot(hours, values, label=split, marker=".", color=colour)
    per_hour = history[-1].epoch * beside.sequences / hours[-1] / 1000
    if beside.s4_sequences:
        at = beside.s4_sequences / 1000 / per_hour
        axes.plot([at], [beside.s4_metric], "*", label="S4, by sequences", color=plots.COLOURS[1], markersize=9)
    top = axes.secondary_xaxis("top", functions=(partial(np.multiply, per_hour), partial(np.multiply, 1 / per_hour)))
    top.set_xlabel("thousands of training sequences")
    axes.set(xlabel="core-hours", ylabel=f"{entry.metric}, {entry.name}")
    axes.legend()
    return figure


def _row(entry: Entry, runs: Sequence[Result]) -> list[str]:
    if not runs:
        return [entry.name, entry.metric, "not run", "", "", entry.goal, "", entry.published]
    test = [result.test[entry.metric] for result in runs]
    valid = [result.valid[entry.metric] for result in runs]
    baselines = "; ".join(f"{name} {number(q[entry.metric], 3)}" for name, q in runs[0].baselines.items())
    worst = min(test) if runs[0].better == "max" else max(test)
    shown = mean_std(test) if len(test) > 1 else f"{number(test[0], 3)} (one run)"
    cells = [entry.name, entry.metric, f"**{shown}**", number(worst, 3), number(statistics.mean(valid), 3)]
    return [*cells, entry.goal, baselines, entry.published]


def _training(entry: Entry, runs: Sequence[Result]) -> list[str]:
    minutes = ", ".join(f"{(result.seconds or 0) / 60:.1f}" for result in runs)
    speeds = ", ".join(number(result.steps_per_second, 3) for result in runs)
    memory = max(result.peak_memory_mb or 0 for result in runs)
    first = runs[0]
    sizes = [number(first.parameters), str(first.epochs), minutes, speeds, number(memory)]
    return [entry.name, first.protocol, *sizes, first.machine]


def _full_training(entry: Entry, result: Result) -> str:
    epochs = result.epochs or 1
    hours = (result.seconds or 0) / epochs / entry.epoch_fraction * entry.full_epochs / 3600
    whole = entry.epoch_fraction == 1
    trained = f"{epochs}" if whole else f"{epochs}, each of {entry.epoch_fraction:.0%} of the official data"
    return f"**{entry.name}**: {hours:,.0f} hours for {entry.full_epochs} epochs, as in the paper (here: {trained})."


def _runs(entry: Entry, runs: dict[str, Result]) -> list[list[str]]:
    rows = []
    for label, result in runs.items():
        name = f"{entry.name}, {label}" if entry.folds else f"{entry.name}, seed {result.seed}"
        values = [number(split[entry.metric], 3) for split in (result.valid, result.test)]
        epochs = f"{result.best_epoch} of {result.epochs}"
        rows.append([name, epochs, *values, result.data_sha256["test"][:16]])
    return rows


def main() -> None:
    """Train what the command line names, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [entry.name for entry in ENTRIES]
    parser.add_argument("--train", nargs="+", default=[], choices=[*names, "all"], help="entries to train")
    parser.add_argument("--seeds", nargs="+", type=int, help="train only these seeds")
    parser.add_argument("--data", type=Path, metavar="DIR", help="data folder (default: $S7_DATA, else ~/.cache/s7)")
    options = parser.parse_args()
    train(names if "all" in options.train else options.train, options.seeds, options.data)
    page().write(PAGE)
    expected.write()
    print(f"wrote {PAGE.relative_to(ROOT)} and {expected.PATH.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
