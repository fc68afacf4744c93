"""Train several models on one task with the same data and budget, and compare them.

Every run has its own process and folder, so a failed run does not stop the others. Repeat the command to resume
unfinished runs and retry failed ones.
"""

import argparse
from pathlib import Path

from s7.cli.options import names
from s7.cli.study import add_study, run_study, study_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("task", help="task to train on (s7 tasks lists them)")
    parser.add_argument(
        "--models", type=names, required=True, metavar="A,B,…", help="models such as s7,s5,lstm (s7 models lists them)"
    )
    add_study(parser)


def run(options: argparse.Namespace) -> int:
    """Run the trials that are not finished and print the comparison, best model first."""
    from s7.study import Study, Variant

    out = options.out or Path("runs") / f"compare-{options.task.replace(':', '.')}"
    study = Study(study_config(options), tuple(Variant(name) for name in options.models), options.seeds, out)
    return run_study(study, options, lambda summary: summary.table(), lambda summary: summary.ranked())
