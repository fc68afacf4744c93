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
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "runs" / "results"
KEPT = ROOT / "docs" / "results"
PAGE = ROOT / "docs" / "results.md"


class Entry(NamedTuple):
    """A line of the page: what is trained, with which seeds, and what there is to beat."""

    name: str
    task: str
    preset: str
    protocol: str
    seeds: tuple[int, ...]
    settings: tuple[str, ...]
    metric: str
    wanted: str
    published: str


SEEDS = (0, 1, 2)
ENTRIES = (
    Entry(
        "fitzhugh-nagumo",
        "fitzhugh-nagumo",
        "ours",
        "strict",
        SEEDS,
        (),
        "rmse",
        "≤ 1.1e-3, aim 0.8e-3",
        "LEM 2.4e-3 (RMSE of the last test batch); the paper's 1.3e-5 reads like a mean square",
    ),
    Entry(
        "fitzhugh-nagumo-exact",
        "fitzhugh-nagumo",
        "ours",
        "strict",
        SEEDS,
        ("data.tolerance=1e-7",),
        "rmse",
        "aim 2e-4",
        "none: here the data are integrated to 1e-7, so the error left is the model's own",
    ),
    Entry(
        "pendulum",
        "pendulum",
        "ours",
        "strict",
        SEEDS,
        (),
        "mse",
        "≤ 2.9e-3, aim 2.5e-3",
        "S7 2.91e-3, S5 3.41e-3, CRU 4.63e-3, each on its own draw of the data",
    ),
    Entry(
        "walker2d",
        "walker2d",
        "ours",
        "strict",
        SEEDS,
        (),
        "mse",
        "≤ 0.52, aim 0.45",
        "causal: CfC 0.64, ODE-LSTM 0.883, CT-LSTM 1.014",
    ),
    Entry(
        "walker2d-paper",
        "walker2d",
        "ours",
        "paper",
        (0,),
        ("data.copies=1", "train.epochs=10"),
        "mse",
        "",
        "the paper 0.120, in half squared errors: 0.24 as counted here",
    ),
    Entry(
        "text",
        "text",
        "ours",
        "strict",
        (0,),
        (),
        "accuracy",
        "the best of two hours, aim 0.85",
        "the paper 0.8722, the epoch chosen on the test set",
    ),
)


def train(names: list[str], seeds: list[int] | None, data: Path | None) -> None:
    """Trains what is not done yet."""
    from s7.cli.screen import screen_for
    from s7.data.folder import DataFolder
    from s7.job import Job
    from s7.settings import from_assignments
    from s7.training.machine import keep_compiled_code, keep_freed_memory

    keep_freed_memory()
    keep_compiled_code()
    screen = screen_for(as_json=False)
    for entry in ENTRIES:
        if entry.name not in names:
            continue
        for seed in entry.seeds if seeds is None else seeds:
            name = f"{entry.name}-{seed}"
            if (KEPT / f"{name}.json").exists():
                continue
            screen.say(f"\n{name}")
            settings = from_assignments(entry.settings)
            job = Job(entry.task, preset=entry.preset, protocol=entry.protocol, seed=seed, settings=settings)
            job.run(RUNS / name, DataFolder(data), resume=True, watch=screen, say=screen.say)
            KEPT.mkdir(parents=True, exist_ok=True)
            shutil.copy(RUNS / name / "result.json", KEPT / f"{name}.json")


def page() -> str:
    """The whole page."""
    lines = [
        "# Results",
        "",
        "Made by `python -m benchmarks.results`; each line by `python -m benchmarks.results --train NAME`, which runs",
        "`s7 train` for the seeds 0, 1, 2. The epoch is chosen on validation data and tested once. ± is the standard",
        "deviation over the seeds (of the sample). Settings were chosen on validation data, with seed 0.",
        "",
        "| name | metric | test, mean ± std | worst seed | validation | goal | no model | published |",
        "|---|---|---|---|---|---|---|---|",
    ]
    found = {entry: results(entry) for entry in ENTRIES}
    for entry, runs in found.items():
        lines.append(_row(entry, runs))
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
            lines.append(
                f"| {entry.name}, seed {run['seed']} | {run['best_epoch']} of {run['epochs']} | {numbers} | {digest} |"
            )
    notes_file = KEPT / "notes.md"
    if notes_file.exists():
        lines += ["", notes_file.read_text().rstrip()]
    return "\n".join(lines) + "\n"


def results(entry: Entry) -> list[dict[str, Any]]:
    """Of the seeds that are done."""
    paths = [KEPT / f"{entry.name}-{seed}.json" for seed in entry.seeds]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def _row(entry: Entry, runs: list[dict[str, Any]]) -> str:
    if not runs:
        return f"| {entry.name} | {entry.metric} | not run here | | | {entry.wanted} | | {entry.published} |"
    test = [run["test"][entry.metric] for run in runs]
    valid = [run["valid"][entry.metric] for run in runs]
    spread = f" ± {_number(statistics.stdev(test))}" if len(test) > 1 else " (one seed)"
    nothing = "; ".join(f"{name} {_number(q[entry.metric])}" for name, q in runs[0]["baselines"].items())
    cells = [entry.name, entry.metric, f"**{_number(statistics.mean(test))}**{spread}", _number(max(test))]
    cells += [_number(statistics.mean(valid)), entry.wanted, nothing, entry.published]
    return f"| {' | '.join(cells)} |"


def _how(entry: Entry, runs: list[dict[str, Any]]) -> str:
    minutes = ", ".join(f"{run['seconds'] / 60:.1f}" for run in runs)
    speeds = ", ".join(f"{run['steps_per_second']:.0f}" for run in runs)
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
