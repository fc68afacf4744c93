"""docs/results.md: what the presets reach, from runs that this command makes.

    python -m benchmarks.results --train walker2d     trains all seeds that are not done, in runs/results
    python -m benchmarks.results                      writes the page from what is in docs/results

A run that was stopped goes on where it was. The result of each finished run is kept in docs/results, one JSON file
each, so that the page can be made again without training.
"""

import argparse
import json
import shutil
import statistics
from pathlib import Path
from typing import Any

from benchmarks import gesture, studies
from benchmarks.entries import ENTRIES, NOT_RUN, Entry

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "runs" / "results"
KEPT = ROOT / "docs" / "results"
PAGE = ROOT / "docs" / "results.md"
FIGURES = ROOT / "docs" / "figures"


def train(names: list[str], seeds: list[int] | None, data: Path | None) -> None:
    """Trains what is not done yet."""
    from s7.data.folder import DataFolder
    from s7.job import Job
    from s7.machine import keep_compiled_code, keep_freed_memory
    from s7.settings import from_assignments
    from s7.training.display import display

    keep_freed_memory()
    keep_compiled_code()
    for entry in ENTRIES:
        if entry.name not in names:
            continue
        for run in entry.runs:
            name = f"{entry.name}-{run.label}"
            if (KEPT / f"{name}.json").exists() or (seeds is not None and run.seed not in seeds):
                continue
            print(f"\n{name}", flush=True)
            settings = from_assignments(run.settings)
            job = Job(entry.task, protocol=entry.protocol, seed=run.seed, settings=settings)
            job.run(RUNS / name, DataFolder(data), resume=True, callbacks=(display(),))
            KEPT.mkdir(parents=True, exist_ok=True)
            shutil.copy(RUNS / name / "result.json", KEPT / f"{name}.json")
            if entry.curve:
                shutil.copy(RUNS / name / "metrics.jsonl", KEPT / f"{name}.jsonl")


def page() -> str:
    """The whole page."""
    lines = [
        "# Results",
        "",
        "Made by `python -m benchmarks.results`; each line by `python -m benchmarks.results --train NAME`, which runs",
        "`s7 train` with the preset `ours` for each seed, or for each speaker that is left out. The epoch is chosen",
        "on validation data and tested once. ± is the standard deviation over these runs. Settings were chosen",
        "on validation data, with seed 0.",
        "",
        "| name | metric | test, mean ± std | worst run | validation | goal | no model | published |",
        "|---|---|---|---|---|---|---|---|",
    ]
    found = {entry: results(entry) for entry in ENTRIES}
    for entry, runs in found.items():
        lines.append(_row(entry, runs))
    lines += ["", "Not run here:", ""]
    lines += [f"- **{task}**: {why}." for task, why in NOT_RUN.items()]
    lines += [
        "",
        "## How it was made",
        "",
        "| name | protocol | parameters | epochs | training, minutes | steps/s | peak memory, MB | machine |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for entry, runs in found.items():
        if runs:
            lines.append(_how(entry, runs))
    short = [_whole(entry, runs[0]) for entry, runs in found.items() if entry.full_epochs and runs]
    if short:
        lines += ["", "What a full training would take on that machine, at the same speed:", "", *short]
    for entry, runs in found.items():
        if entry.curve and runs:
            name = curve(entry)
            lines += ["", f"![Accuracy on validation data while {entry.name} was trained](figures/{name})"]
    if gesture.KEPT.exists():
        figures = json.loads(gesture.KEPT.read_text())
        lines += ["", "## A long recording", ""]
        lines += [f"The longest of ten of DVS-Gesture, by `python -m benchmarks.gesture` on {figures[0]['machine']}:"]
        lines += ["", *(f"- {gesture.row(figure)}." for figure in figures)]
    compared = [line for entry in studies.STUDIES for line in studies.section(entry)]
    if compared:
        lines += ["", "## Comparisons", ""]
        lines += ["By `python -m benchmarks.studies --run NAME --jobs 2`, each run on one core; seeds 0, 1 and 2."]
        lines += compared
    lines += ["", "## Protocols", ""]
    notes = {(run["task"], run["protocol"]): run["protocol_note"] for runs in found.values() for run in runs}
    lines += [f"- **{task}, {protocol}**: {note}." for (task, protocol), note in notes.items()]
    lines += [
        "",
        "## Each run",
        "",
        "| run | best epoch | validation | test | data (SHA-256 of the test split) |",
        "|---|---|---|---|---|",
    ]
    for entry, runs in found.items():
        for run in runs:
            metric = entry.metric
            digest = run["data_sha256"]["test"][:16]
            numbers = f"{_number(run['valid'][metric])} | {_number(run['test'][metric])}"
            which = f"{entry.name}, {run['label']}" if entry.folds else f"{entry.name}, seed {run['seed']}"
            lines.append(f"| {which} | {run['best_epoch']} of {run['epochs']} | {numbers} | {digest} |")
    notes_file = KEPT / "notes.md"
    if notes_file.exists():
        lines += ["", notes_file.read_text().rstrip()]
    return "\n".join(lines) + "\n"


def results(entry: Entry) -> list[dict[str, Any]]:
    """Of the runs that are done."""
    paths = {run.label: KEPT / f"{entry.name}-{run.label}.json" for run in entry.runs}
    return [json.loads(path.read_text()) | {"label": label} for label, path in paths.items() if path.exists()]


def curve(entry: Entry) -> str:
    """Draws the course of a training; the name of the figure."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from s7.bench.figures import STYLE

    lines = (KEPT / f"{entry.name}-{entry.runs[0].label}.jsonl").read_text().splitlines()
    epochs = [json.loads(line) for line in lines]
    name = f"curve-{entry.name}.svg"
    with rc_context(STYLE):
        figure = Figure(figsize=(5, 3), layout="constrained")
        axes = figure.subplots()
        minutes = [epoch["seconds"] / 60 for epoch in epochs]
        for split in ("train", "valid"):
            axes.plot(minutes, [epoch[split][entry.metric] for epoch in epochs], label=split, marker=".")
        axes.set(xlabel="minutes of training", ylabel=entry.metric, title=entry.name)
        axes.legend()
        figure.savefig(FIGURES / name, metadata={"Date": None, "Creator": None})
    return name


def _row(entry: Entry, runs: list[dict[str, Any]]) -> str:
    if not runs:
        return f"| {entry.name} | {entry.metric} | not run here | | | {entry.goal} | | {entry.published} |"
    test = [run["test"][entry.metric] for run in runs]
    valid = [run["valid"][entry.metric] for run in runs]
    spread = f" ± {_number(statistics.stdev(test))}" if len(test) > 1 else " (one run)"
    nothing = "; ".join(f"{name} {_number(q[entry.metric])}" for name, q in runs[0]["baselines"].items())
    worst = min(test) if runs[0]["better"] == "max" else max(test)
    cells = [entry.name, entry.metric, f"**{_number(statistics.mean(test))}**{spread}", _number(worst)]
    cells += [_number(statistics.mean(valid)), entry.goal, nothing, entry.published]
    return f"| {' | '.join(cells)} |"


def _whole(entry: Entry, run: dict[str, Any]) -> str:
    hours = run["seconds"] / run["epochs"] / entry.epoch_fraction * entry.full_epochs / 3600
    here = (
        f"{run['epochs']}"
        if entry.epoch_fraction == 1
        else f"{run['epochs']}, each of {entry.epoch_fraction:.0%} of the official data"
    )
    return f"- **{entry.name}**: {entry.full_epochs} epochs, as the paper has, {hours:,.0f} hours; here were {here}."


def _how(entry: Entry, runs: list[dict[str, Any]]) -> str:
    minutes = ", ".join(f"{run['seconds'] / 60:.1f}" for run in runs)
    speeds = ", ".join(f"{run['steps_per_second']:.3g}" for run in runs)
    memory = max(run["peak_memory_mb"] for run in runs)
    run = runs[0]
    shape = f"{run['protocol']} | {run['parameters']:,} | {run['epochs']}"
    return f"| {entry.name} | {shape} | {minutes} | {speeds} | {memory:,} | {run['machine']} |"


def _number(value: float) -> str:
    return f"{value:.3f}" if value >= 0.01 else f"{value:.2e}"


def main() -> None:
    """Trains what is asked for, then writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [entry.name for entry in ENTRIES]
    choices = [*names, "all"]
    parser.add_argument("--train", nargs="+", default=[], choices=choices, help="train what is not done of these")
    parser.add_argument("--seeds", nargs="+", type=int, help="only these seeds")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where data are (else $S7_DATA, else ~/.cache/s7)")
    options = parser.parse_args()
    train(names if "all" in options.train else options.train, options.seeds, options.data)
    PAGE.write_text(page())
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
