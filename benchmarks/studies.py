"""Comparisons of models and ablations of S7 for docs/results.md.

    python -m benchmarks.studies --run walker2d          runs the unfinished trials of a study, in runs/studies
    python -m benchmarks.results                          writes the page from the results in docs/results

Repeat the command to resume an interrupted study. Results are copied to docs/results, so that the page can be written
without training.
"""

import argparse
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

from s7.publishing.text import metric_mean_std, metric_name, metric_value
from s7.records import read_result
from s7.study import Summary
from s7.study.summary import comparison_text

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "runs" / "studies"
RESULTS = ROOT / "docs" / "results"


class StudyEntry(NamedTuple):
    """A study of the page: its name, and the arguments of `s7` that run it, without the folder."""

    name: str
    command: str

    @property
    def is_ablation(self) -> bool:
        """Whether it compares S7 with variants of itself."""
        return self.command.startswith("ablate")

    @property
    def results(self) -> Path:
        """The folder of its stored results."""
        return RESULTS / f"study-{self.name}"


STUDIES = (
    StudyEntry(
        "walker2d",
        "compare walker2d --minutes 1 --set data.copies=1 --set train.learning_rate=1e-2 --models "
        "s7,s5,lru,mamba,lstm,augmented-lstm,gru-d,ct-lstm,ode-lstm,cfc,ct-rnn,transformer",
    ),
    StudyEntry(
        "fitzhugh-nagumo",
        "compare fitzhugh-nagumo --minutes 0.5 --models "
        "s7,s5,s4d,lru,mamba,lstm,gru,lem,cornn,lipschitz-rnn,fastgrnn,exprnn",
    ),
    StudyEntry(
        "pendulum",
        "compare pendulum --minutes 1 --set data.copies=1 --set train.learning_rate=1.2e-2 --models s7,s5,lstm,gru-d",
    ),
    StudyEntry("nmnist", "compare nmnist --minutes 1 --models s7,eventssm,lru,mamba,lstm"),
    StudyEntry(
        "spoken-digits",
        "compare spoken-digits --minutes 1 --set train.learning_rate=1e-2 --models s7,eventssm,lru,mamba,lstm",
    ),
    StudyEntry("ablation-walker2d", "ablate walker2d --minutes 0.5 --set data.copies=1 --set train.learning_rate=1e-2"),
    StudyEntry("ablation-nmnist", "ablate nmnist --minutes 0.5"),
)


def run(entry: StudyEntry, jobs: int, data: Path | None) -> None:
    """Run the unfinished trials of a study and store its results."""
    from s7.cli.main import main

    out = RUNS / entry.name
    words = [*shlex.split(entry.command), "--jobs", str(jobs), "--out", str(out)]
    # Status 1: a trial failed, which the page reports.
    if main([*words, *(["--data", str(data)] if data else [])]) > 1:
        raise SystemExit(f"{entry.name}: stopped")
    entry.results.mkdir(parents=True, exist_ok=True)
    shutil.copy(out / "comparison.json", entry.results / "comparison.json")
    for result in out.glob("*/result.json"):
        shutil.copy(result, entry.results / f"{result.parent.name}.json")


def section(entry: StudyEntry) -> list[str]:
    """The lines of the page about a study; none if it has no stored results."""
    file = entry.results / "comparison.json"
    if not file.exists():
        return []
    summary = Summary.read(file)
    machines = {read_result(path).machine for path in file.parent.glob("*-[0-9].json")}
    lines = ["", f"### {entry.name}", "", f"`s7 {entry.command}`, on {', '.join(sorted(filter(None, machines)))}:", ""]
    rows = _ablation(summary) if entry.is_ablation else _comparison(summary)
    notes = [f"- {score.name}: {failure}" for score in summary.scores for failure in score.failures]
    return [*lines, *rows, *([""] if notes else []), *notes]


def _comparison(summary: Summary) -> list[str]:
    metric = summary.metric
    lines = [
        f"| model | test {metric_name(metric)} | seeds | validation | parameters | epochs | minutes | steps/s | MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for score in summary.ranked():
        if not score.test:
            continue
        costs = " | ".join(f"{cost:.3g}" for cost in (score.epochs, score.minutes, score.steps_per_second))
        blind = " (no gaps)" if score.gaps == "not used" else ""
        test, valid = metric_mean_std(metric, score.test), metric_mean_std(metric, score.valid)
        lines.append(
            f"| {score.name}{blind} | {test} | {len(score.test)} | {valid} | {score.parameters:,} | {costs} "
            f"| {score.peak_memory_mb:,} |"
        )
    for name, values in summary.baselines.items():
        lines.append(f"| *{name}* | {metric_value(metric, values.get(metric))} | | | | | | | |")
    return lines


def _ablation(summary: Summary) -> list[str]:
    metric = summary.metric
    lines = [
        f"| variant | test {metric_name(metric)} | seeds | difference | beyond noise | parameters |",
        "|---|---|---|---|---|---|",
    ]
    for score in summary.scores:
        if not score.test:
            lines.append(f"| {score.name} | no result | 0 | | | |")
            continue
        difference, verdict = comparison_text(metric, summary.compared(score))
        value = f"{metric_mean_std(metric, score.test)} | {len(score.test)}"
        lines.append(f"| {score.name} | {value} | {difference} | {verdict} | {score.parameters:,} |")
    return lines


def main() -> None:
    """Run the studies that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    entries = {entry.name: entry for entry in STUDIES}
    parser.add_argument("--run", nargs="+", required=True, choices=[*entries, "all"], help="studies to run")
    parser.add_argument("--jobs", type=int, default=1, help="parallel runs, which share the cores equally (default 1)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="data folder (default: $S7_DATA, else ~/.cache/s7)")
    options = parser.parse_args()
    for name in entries if "all" in options.run else options.run:
        run(entries[name], options.jobs, options.data)


if __name__ == "__main__":
    main()
