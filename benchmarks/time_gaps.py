"""What S7 gains from time gaps, and which part of it is responsible: the numbers of docs/time.md.

    python -m benchmarks.time_gaps simulated                              variants of S7 on the task irregular-time
    python -m benchmarks.time_gaps simulated --variants "gaps read;gaps mixed" --seeds 0,1,2
    python -m benchmarks.time_gaps models                                 other models on the same data
    python -m benchmarks.time_gaps ucr                                    sets of the UCR archive, 30 % of the steps
    python -m benchmarks.time_gaps table                                  print all results as tables, draw the figure

Each result is one line of docs/results/time.jsonl. A run that was interrupted continues with what is missing. Results
are those of validation data; test data are not read. All runs of a part have the same number of steps. Costs are
processor time, because the runs may share a core with others.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

import s7
from benchmarks.time_variants import VARIANTS
from benchmarks.ucr import load
from s7.config import ModelConfig
from s7.data.folder import DataFolder
from s7.job import Job
from s7.machine import keep_compiled_code
from s7.model import S7Model
from s7.publishing import plots
from s7.standardization import mean_gap
from s7.version import __version__

OUT = Path(__file__).parents[1] / "docs" / "results" / "time.jsonl"
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "time-tasks.svg"
KINDS = ("phase", "delay", "decay")
MODELS = ("gru-d", "cfc", "ode-lstm", "s5", "eventssm")
SETS = ("OSULeaf", "Fish", "EOGVerticalSignal")
UCR = [f"{states}gaps {setting}" for states in ("", "real states, ") for setting in ("mixed", "read", "ignored")]
KEYS = ("part", "data", "variant", "model", "rate", "seed")
Trial = tuple[str, str, str, str, float, int]


def trained(
    config: ModelConfig, splits: tuple[Any, Any], objective: Any, seed: int, metric: str, **settings: Any
) -> dict[str, Any]:
    """Train a model and return its record."""
    began = time.process_time()
    model = S7Model(config, key=jax.random.key(seed))
    result = s7.train(model, *splits, objective=objective, seed=seed, progress=False, **settings)
    layers = (getattr(block.layer, "rates", {}) for block in result.model.blocks)
    shares = [jax.nn.sigmoid(rates["mix"]) for rates in layers if "mix" in rates]
    return {
        "metric": metric,
        "valid": result.result["valid"][metric],
        "parameters": result.result["parameters"],
        "cpu_seconds": round(time.process_time() - began, 1),
        "share of time": [round(float(s), 3) for each in shares for s in each],
    }


def simulated(data: str, variant: str, model: str, rate: float, seed: int) -> dict[str, Any]:
    """One of the six simulated tasks."""
    kind, clock = data.split(" by ")
    elapsed, change = VARIANTS[variant]
    table: dict[str, Any] = {"kind": kind, "informative": clock == "time", "elapsed": elapsed}
    job = Job("irregular-time", model, seed=seed, settings={"data": table, "train": {"learning_rate": rate}})
    problem = job.problem(DataFolder(), lambda text: None)
    metric = "accuracy" if kind == "delay" else "mse"
    splits = problem.train, problem.valid
    return trained(change(job.model_config(problem)), splits, problem.objective, seed, metric, **job.tables["train"])


def ucr(data: str, variant: str, model: str, rate: float, seed: int) -> dict[str, Any]:
    """A set of the UCR archive with 30 % of the steps: two thirds of the training series, validated on the others."""
    from sklearn.model_selection import train_test_split

    folder = Path(os.environ.get("S7_DATA", "data")) / "ucr"
    found = load(folder, data, 0.3)
    x, y = found["train_x"][..., None].astype(np.float32), found["train_y"]
    gaps = np.diff(found["train_times"], axis=1, prepend=found["train_times"][:, :1]).astype(np.float32)
    parts = train_test_split(np.arange(len(y)), test_size=1 / 3, stratify=y, random_state=seed)
    train, valid = (s7.Samples.of(x[rows], y[rows], gaps[rows]) for rows in parts)
    config = ModelConfig(
        encoder=s7.LinearEncoder.of(train),
        head=s7.Mean(len(np.unique(y))),
        width=24,
        state=16,
        form=s7.Factored(8),
        transition=s7.Stable(oscillate=True, tau=(1.0, x.shape[1] / 3)),
        time_unit=mean_gap(np.asarray(train.dt), train.offsets),
    )
    _, change = VARIANTS[variant]
    return trained(change(config), (train, valid), None, seed, "accuracy", learning_rate=rate, steps=400, batch_size=16)


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "simulated": simulated,
    "models": simulated,
    "ucr": ucr,
}


def trials(part: str, options: argparse.Namespace) -> Iterator[Trial]:
    """The trials of a part, seed by seed."""
    tasks = [f"{kind} by {clock}" for kind in KINDS for clock in ("time", "events")]
    data = SETS if part == "ucr" else tasks
    variants = {"models": ["gaps read"], "ucr": UCR}.get(part, VARIANTS)
    for seed in map(int, options.seeds.split(",")):
        for variant in options.variants.split(";") if options.variants else variants:
            for model in options.models.split(",") if part == "models" else ["s7"]:
                for one in options.data.split(",") if options.data else data:
                    yield part, one, variant, model, options.rate, seed


def table(lines: list[dict[str, Any]], part: str) -> str:
    """The results of a part: one row per variant and model, the mean over seeds for each data set."""
    lines = [line for line in lines if line["part"] == part]
    data = {line["data"]: 3 if line["metric"] == "accuracy" else 4 for line in lines}
    rows: dict[str, dict[str, list[float]]] = {}
    for line in lines:
        name = line["variant"] if part != "models" else f"{line['model']}, rate {line['rate']:g}"
        rows.setdefault(name, {}).setdefault(line["data"], []).append(line["valid"])
    text = [f"| {part} | {' | '.join(data)} | seeds |", "|---" * (len(data) + 2) + "|"]
    for name, found in rows.items():
        cells = [_cell(found.get(one, []), digits) for one, digits in data.items()]
        text.append(f"| {name} | {' | '.join(cells)} | {max(len(values) for values in found.values())} |")
    return "\n".join(text)


def _cell(values: list[float], digits: int) -> str:
    if not values:
        return ""
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def chart(lines: list[dict[str, Any]]) -> Figure:
    """The errors on the simulated tasks: the mean squared error, or the share of wrong classes."""
    named = {
        "S7, gaps mixed": ("s7", "gaps mixed"),
        "S7, gaps read": ("s7", "gaps read"),
        "S7, gaps ignored": ("s7", "gaps ignored"),
        "gru-d": ("gru-d", "gaps read"),
        "eventssm": ("eventssm", "gaps read"),
    }
    tasks = [f"{kind} by {clock}" for kind in KINDS for clock in ("time", "events")]
    figure = Figure(figsize=(plots.WIDTH, 3.4), layout="constrained")
    axes = figure.subplots()
    for number, (label, key) in enumerate(named.items()):
        found: dict[str, list[float]] = {task: [] for task in tasks}
        for line in lines:
            if (line["model"], line["variant"]) == key and line["data"] in found:
                error = 1 - line["valid"] if line["metric"] == "accuracy" else line["valid"]
                found[line["data"]].append(max(error, 1 / 1024))  # no error among 512 sequences is drawn as half of one
        points = [(place, np.mean(errors)) for place, errors in enumerate(found.values()) if errors]
        x = [place + 0.12 * (number - 2) for place, _ in points]
        colour, marker = plots.COLOURS[number], plots.MARKERS[number]
        axes.plot(x, [error for _, error in points], marker, color=colour, label=label)
    plots.log_scale(axes, 1e-3, 1)
    axes.set_xticks(range(len(tasks)), [plots.wrapped(task, 9) for task in tasks])
    axes.set_ylabel("validation error")
    axes.legend(ncols=5, loc="upper center", bbox_to_anchor=(0.5, 1.18), columnspacing=1, handletextpad=0.2)
    return figure


def main() -> None:
    """Run what is missing in the file of results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*PARTS, "table"])
    parser.add_argument("--data", default="", help="data sets, separated by commas")
    parser.add_argument("--variants", default="", help="variants of S7, separated by semicolons")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--rate", type=float, default=0.01, help="learning rate")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    text = options.out.read_text(encoding="utf-8") if options.out.exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    if options.part == "table":
        print("\n\n".join(table(lines, part) for part in PARTS))
        plots.save(FIGURE, chart, lines)
        return
    keep_compiled_code()
    done = {tuple(line[name] for name in KEYS) for line in lines}
    for trial in trials(options.part, options):
        if trial in done:
            continue
        record = dict(zip(KEYS, trial, strict=True)) | PARTS[options.part](*trial[1:]) | {"version": __version__}
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
