"""Comparisons of models and ablations of S7 for docs/results.md.

    python -m benchmarks.studies --run walker2d          runs the unfinished trials of a study, in runs/studies
    python -m benchmarks.studies --run walker2d --models mamba    runs some models again and replaces their results
    python -m benchmarks.results                          writes the page from the results in docs/results

Repeat the command to resume an interrupted study. Its results are stored in docs/results, so that the page can be
written without training.
"""

import argparse
import json
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

from benchmarks.stored import RESULTS, ROOT, records, store
from s7.publishing.markdown import Document
from s7.publishing.text import metric_mean_std, metric_name, metric_value, number
from s7.storage import write_atomically
from s7.study import Summary
from s7.study.summary import comparison_text

RUNS = ROOT / "runs" / "studies"


class StudyEntry(NamedTuple):
    """A study of the page: its name, and the arguments of `s7` that run it, without the folder."""

    name: str
    command: str

    @property
    def is_ablation(self) -> bool:
        """Whether it compares S7 with variants of itself."""
        return self.command.startswith("ablate")

    @property
    def summary(self) -> Path:
        """The file of its stored summary."""
        return RESULTS / f"study-{self.name}.json"


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


def run(entry: StudyEntry, jobs: int, data: Path | None, models: str | None = None) -> None:
    """Run the unfinished trials of a study, of all its models or of some, and store the results."""
    from s7.cli.main import main

    out = RUNS / (entry.name if models is None else f"{entry.name}-{models.replace(',', '-')}")
    words = [*shlex.split(entry.command), "--jobs", str(jobs), "--out", str(out)]
    words += [] if models is None else ["--models", models]  # the last one counts
    # Status 1: a trial failed, which the page reports.
    if main([*words, *(["--data", str(data)] if data else [])]) > 1:
        raise SystemExit(f"{entry.name}: stopped")
    if models is None:
        shutil.copy(out / "comparison.json", entry.summary)
    else:
        _replace_scores(entry.summary, out / "comparison.json")
    store({f"study-{entry.name}/{result.parent.name}": result.parent for result in out.glob("*/result.json")})


def _replace_scores(summary: Path, rerun: Path) -> None:
    """Replace the scores of the models that were run again."""
    stored, new = (json.loads(path.read_text(encoding="utf-8")) for path in (summary, rerun))
    scores = {score["name"]: score for score in new["scores"]}
    stored["scores"] = [scores.get(score["name"], score) for score in stored["scores"]]
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
    notes = [f"{score.name}: {failure}" for score in summary.scores for failure in score.failures]
    if notes:
        document.list(notes)


def _add_comparison(document: Document, summary: Summary) -> None:
    metric = summary.metric
    rows = []
    for score in summary.ranked():
        if score.test:
            name = f"{score.name} (ignores gaps)" if score.gaps == "not used" else score.name
            test, valid = metric_mean_std(metric, score.test), metric_mean_std(metric, score.valid)
            costs = [number(cost, 3) for cost in (score.epochs, score.minutes, score.steps_per_second)]
            sizes = [number(score.parameters), *costs, number(score.peak_memory_mb)]
            rows.append([name, test, str(len(score.test)), valid, *sizes])
    for name, values in summary.baselines.items():
        rows.append([f"*{name}*", metric_value(metric, values.get(metric)), *[""] * 7])
    heads = [
        "model",
        f"test {metric_name(metric)}",
        "seeds",
        "validation",
        "parameters",
        "epochs",
        "minutes",
        "steps/s",
    ]
    document.table([*heads, "peak memory, MB"], rows)


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
    entries = {entry.name: entry for entry in STUDIES}
    parser.add_argument("--run", nargs="+", required=True, choices=[*entries, "all"], help="studies to run")
    parser.add_argument("--models", metavar="A,B,…", help="run only these models, and replace their results")
    parser.add_argument("--jobs", type=int, default=1, help="parallel runs, which share the cores equally (default 1)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="data folder (default: $S7_DATA, else ~/.cache/s7)")
    options = parser.parse_args()
    for name in entries if "all" in options.run else options.run:
        run(entries[name], options.jobs, options.data, options.models)


if __name__ == "__main__":
    main()
