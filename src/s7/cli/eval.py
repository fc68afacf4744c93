"""Evaluate a trained model on a split of its task's data."""

import argparse
import json
from pathlib import Path

from s7.cli.options import add_data


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="run folder")
    parser.add_argument("--split", default="test", choices=("train", "valid", "test"), help="data (default: test)")
    add_data(parser)


def run(options: argparse.Namespace) -> None:
    """Print the metrics."""
    from s7.run_folder import RunFolder

    folder = RunFolder(options.run_folder)
    record = folder.record()
    if not record.task:
        raise ValueError(
            f"{folder.path}: made by s7.train on arrays, which a run does not hold; in Python: "
            f"s7.evaluate(s7.load({str(folder.path)!r}), (inputs, targets))"
        )
    if not folder.best.exists():
        raise FileNotFoundError(f"{folder.best}: no such file; no epoch of this run is finished (s7 train --resume)")

    from s7.data.folder import DataFolder
    from s7.files import load
    from s7.job import Job
    from s7.machine import keep_compiled_code, keep_freed_memory
    from s7.publishing.text import number
    from s7.training import evaluate

    keep_freed_memory()
    keep_compiled_code()
    job = Job.of(record.config)
    model = load(folder.best)
    problem = job.problem(DataFolder(options.data), (lambda text: None) if options.json else print)
    samples = getattr(problem, options.split)
    metrics = evaluate(model, samples, problem.objective, job.training().batching(model.stride))
    about = {"task": job.task, "protocol": job.protocol, "split": options.split, "sequences": len(samples)}
    if options.json:
        print(json.dumps(about | {"metrics": metrics}))
        return
    print(f"{job.task}, protocol {job.protocol}, {options.split} ({len(samples):,} sequences)")
    for name, value in metrics.items():
        print(f"  {name:<10}{number(value)}")
