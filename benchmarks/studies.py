"""Models beside each other, and S7 beside itself with parts changed: what docs/results.md tells about both.

    python -m benchmarks.studies --run walker2d          makes the runs that are not done, in runs/contests
    python -m benchmarks.results                          writes the page from what is in docs/results

Stopped, it goes on where it was. What came out is kept in docs/results, so that the page can be made without training.
"""

import argparse
import json
import shlex
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from s7.publishing.text import metric_mean_std, metric_name, metric_value
from s7.study.summary import difference_told

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "runs" / "contests"
KEPT = ROOT / "docs" / "results"


class Held(NamedTuple):
    """A study: its name, and the command of s7 that holds it, apart from where it is kept."""

    name: str
    command: str

    @property
    def is_ablation(self) -> bool:
        """Whether it compares S7 with itself."""
        return self.command.startswith("ablate")


CONTESTS = (
    Held(
        "walker2d",
        "compare walker2d --minutes 1 --set data.copies=1 --set train.learning_rate=1e-2 --models "
        "s7,s5,lru,mamba,lstm,augmented-lstm,gru-d,ct-lstm,ode-lstm,cfc,ct-rnn,transformer",
    ),
    Held(
        "fitzhugh-nagumo",
        "compare fitzhugh-nagumo --minutes 0.5 --models "
        "s7,s5,s4d,lru,mamba,lstm,gru,lem,cornn,lipschitz-rnn,fastgrnn,exprnn",
    ),
    Held(
        "pendulum",
        "compare pendulum --minutes 1 --set data.copies=1 --set train.learning_rate=1.2e-2 --models s7,s5,lstm,gru-d",
    ),
    Held("nmnist", "compare nmnist --minutes 1 --models s7,eventssm,lru,mamba,lstm"),
    Held(
        "spoken-digits",
        "compare spoken-digits --minutes 1 --set train.learning_rate=1e-2 --models s7,eventssm,lru,mamba,lstm",
    ),
    Held("ablation-walker2d", "ablate walker2d --minutes 0.5 --set data.copies=1 --set train.learning_rate=1e-2"),
    Held("ablation-nmnist", "ablate nmnist --minutes 0.5"),
)


def hold(held: Held, jobs: int, data: Path | None) -> None:
    """Makes its runs and keeps what came out, of those that failed too."""
    from s7.cli.main import main

    out = RUNS / held.name
    words = [*shlex.split(held.command), "--jobs", str(jobs), "--out", str(out)]
    main([*words, *(["--data", str(data)] if data else [])])
    kept = KEPT / f"study-{held.name}"
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copy(out / "comparison.json", kept / "comparison.json")
    for result in out.glob("*/result.json"):
        shutil.copy(result, kept / f"{result.parent.name}.json")


def section(held: Held) -> list[str]:
    """What the page says; nothing where it was not held."""
    file = KEPT / f"study-{held.name}" / "comparison.json"
    if not file.exists():
        return []
    summary = json.loads(file.read_text())
    machines = {json.loads(run.read_text()).get("machine") for run in file.parent.glob("*-[0-9].json")}
    lines = ["", f"### {held.name}", "", f"`s7 {held.command}`, on {', '.join(sorted(filter(None, machines)))}:", ""]
    rows = _ablation(summary) if held.is_ablation else _comparison(summary)
    notes = [f"- {score['name']}: {failure}" for score in summary["scores"] for failure in score["failures"]]
    return [*lines, *rows, *([""] if notes else []), *notes]


def _comparison(summary: dict[str, Any]) -> list[str]:
    metric, sign = summary["metric"], 1 if summary["better"] == "min" else -1
    done = [score for score in summary["scores"] if score["test"]]
    lines = [
        f"| model | test {metric_name(metric)} | seeds | validation | parameters | epochs | minutes | steps/s | MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for score in sorted(done, key=lambda score: sign * score["test_mean"]):
        costs = " | ".join(f"{score[name]:.3g}" for name in ("epochs", "minutes", "steps_per_second"))
        blind = " (no gaps)" if score["gaps"] == "not used" else ""
        test, valid = (metric_mean_std(metric, score[split]) for split in ("test", "valid"))
        values = f"{test} | {len(score['test'])} | {valid}"
        lines.append(
            f"| {score['name']}{blind} | {values} | {score['parameters']:,} | {costs} | {score['peak_memory_mb']:,} |"
        )
    for name, values in summary["baselines"].items():
        lines.append(f"| *{name}* | {metric_value(metric, values.get(metric))} | | | | | | | |")
    return lines


def _ablation(summary: dict[str, Any]) -> list[str]:
    metric = summary["metric"]
    lines = [
        f"| variant | test {metric_name(metric)} | seeds | difference | beyond noise | parameters |",
        "|---|---|---|---|---|---|",
    ]
    for score in summary["scores"]:
        if not score["test"]:
            lines.append(f"| {score['name']} | no result | 0 | | | |")
            continue
        told, sure = difference_told(metric, score["difference"], score["verdict"])
        value = f"{metric_mean_std(metric, score['test'])} | {len(score['test'])}"
        lines.append(f"| {score['name']} | {value} | {told} | {sure} | {score['parameters']:,} |")
    return lines


def main() -> None:
    """Holds what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = {held.name: held for held in CONTESTS}
    parser.add_argument("--run", nargs="+", required=True, choices=[*names, "all"], help="which of them")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on its share of the cores")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where data are (else $S7_DATA, else ~/.cache/s7)")
    options = parser.parse_args()
    for name in names if "all" in options.run else options.run:
        hold(names[name], options.jobs, options.data)


if __name__ == "__main__":
    main()
