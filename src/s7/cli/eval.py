"""Evaluate a trained model on a split of its task's data."""

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="a run's folder")
    parser.add_argument("--split", default="test", choices=("train", "valid", "test"), help="which data (default test)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where data are (else $S7_DATA, else ~/.cache/s7)")


def run(options: argparse.Namespace) -> None:
    """Prints the metrics."""
    from s7.cli.screen import number
    from s7.data.folder import DataFolder
    from s7.files import load
    from s7.job import Job
    from s7.machine import keep_compiled_code, keep_freed_memory
    from s7.run_folder import RunFolder
    from s7.training import evaluate

    folder = RunFolder(options.run_folder)
    job = Job.of(folder.record().config)
    if not folder.best.exists():
        raise FileNotFoundError(f"{folder.best}: not there; no epoch of this run is done (s7 train --resume goes on)")
    keep_freed_memory()
    keep_compiled_code()
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
