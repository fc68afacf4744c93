"""Processes against threads: `python -m benchmarks.processes --task walker2d --data DIR`.

Trains one task with one process on one core, with one process on all cores (threads) and with one process per core,
in turn. The speed is that of all epochs after the first, which includes compilation; validation counts. The numbers of
all runs must agree to rounding.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


def measure(options: argparse.Namespace, folder: Path, processes: int, cores: set[int]) -> dict[str, Any]:
    """Train once; return the steps per second, the final validation metrics and the processor time of a step."""
    command = [sys.executable, "-m", "s7", "train", options.task, "--out", str(folder), "--no-test", "--json"]
    command += ["--processes", str(processes)] if processes > 1 else []
    command += ["--data", str(options.data)] if options.data else []
    command += ["--set", f"train.epochs={options.epochs}", *options.set]
    before = os.times()
    done = subprocess.run(
        command, preexec_fn=lambda: os.sched_setaffinity(0, cores), capture_output=True, text=True, check=False
    )
    after = os.times()
    if done.returncode:
        sys.exit(done.stderr)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    first, last = lines[0], lines[-1]
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return {
        "steps_per_second": (last["step"] - first["step"]) / (last["seconds"] - first["seconds"]),
        "processor_seconds": used,
        "valid": last["valid"],
    }


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="walker2d")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, help="a JSON file for the measurements")
    options = parser.parse_args()
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        sys.exit("this benchmark needs two cores")
    kinds = {
        "1 process, 1 core": (1, {min(cores)}),
        f"1 process, {len(cores)} threads": (1, cores),
        f"{len(cores)} processes": (len(cores), cores),
    }
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    for repeat in range(options.repeats):
        for kind, how in kinds.items():
            with tempfile.TemporaryDirectory() as folder:
                found[kind].append(measure(options, Path(folder) / "run", *how))
            print(f"{repeat + 1}/{options.repeats} {kind}: {found[kind][-1]}", file=sys.stderr, flush=True)
    speed = {kind: statistics.median(one["steps_per_second"] for one in runs) for kind, runs in found.items()}
    threads = list(speed.values())[1]
    finals = [list(run["valid"].values()) for runs in found.values() for run in runs]
    spread = np.abs(np.array(finals) / finals[0] - 1).max()
    print("| | steps/s | relative to threads |\n|---|---|---|")
    for kind, rate in speed.items():
        print(f"| {kind} | {rate:.2f} | {rate / threads:.2f} |")
    print(f"\nlargest relative difference of the validation metrics: {spread:.1e}")
    if options.out is not None:
        options.out.write_text(json.dumps({"task": options.task, "set": options.set, "runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
