"""s7 data: makes data that a task needs and that are not simulated on the way.

`s7 data make walker2d` walks a robot in MuJoCo, for people without the original rollouts.
"""

import argparse
import json
import sys
import time
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("action", choices=("make",), help="make: simulate the task's data")
    parser.add_argument("task", help="walker2d")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where to put them (else $S7_DATA, else ~/.cache/s7)")
    parser.add_argument("--rollouts", type=int, default=400, metavar="N", help="how many (default 400)")
    parser.add_argument("--seed", type=int, default=0, help="of the simulation (default 0)")


def run(options: argparse.Namespace) -> None:
    """Makes them and says where they are."""
    from s7.data.folder import DataFolder
    from s7.tasks import find_task, walker_rollouts
    from s7.tasks.walker2d import MADE

    find_task(options.task)
    if options.task != "walker2d":
        raise ValueError(f"{options.task}: its data are simulated when it is trained; there is nothing to make")
    if options.rollouts < 1:
        raise ValueError(f"--rollouts {options.rollouts}: must be at least 1")
    path = DataFolder(options.data).places[0] / MADE
    if path.exists():
        raise FileExistsError(f"{path}: is there already; remove it first, or give another --data")
    started = time.perf_counter()

    def watch(done: int, total: int) -> None:
        if sys.stderr.isatty():
            left = (time.perf_counter() - started) / done * (total - done)
            print(f"\r{done}/{total} rollouts, {left:.0f} s left\033[K", end="", file=sys.stderr, flush=True)

    made = walker_rollouts.generate(options.rollouts, options.seed, watch=watch)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    walker_rollouts.write(path, made)
    if options.json:
        print(json.dumps({"path": str(path), "rollouts": options.rollouts, "steps": len(made.obs)}))
    else:
        print(f"{options.rollouts} rollouts, {len(made.obs):,} steps: {path}")
        print("Not the original data: errors on them are not comparable with published ones.")
