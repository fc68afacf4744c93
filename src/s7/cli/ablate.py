"""Train S7 with one component changed at a time, and show which changes matter.

Runs the paper's ablations (no reparameterization, other values of a and b) and more: static B, C, D or Λ, other ranks,
gains and pooling. Repeat the command to resume unfinished runs and retry failed ones.
"""

import argparse
from pathlib import Path

from s7.cli.options import names
from s7.cli.study import add_study, run_study, study_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("task", help="task to train on (s7 tasks lists them)")
    parser.add_argument(
        "--only", type=names, metavar="A,B,…", help="run these ablations only (an unknown name lists all names)"
    )
    add_study(parser)


def run(options: argparse.Namespace) -> int:
    """Run the unfinished trials and print the effect of each change."""
    from s7.data.folder import DataFolder
    from s7.job import Job
    from s7.settings import unknown
    from s7.study import Study
    from s7.study.ablations import variants

    config = study_config(options)
    job = Job(config.task, preset=config.preset, protocol=config.protocol, settings=config.settings)
    job.check()
    data = DataFolder(options.data)
    missing = job.data().missing(data)
    if missing:
        raise FileNotFoundError(f"{options.task}: {missing}")
    problem = job.problem(data, print if not options.json else lambda text: None)
    settings, irregular = job.config(problem), problem.train.dt is not None
    rate = settings["train"]["learning_rate"]
    base, *ablations = variants(settings["model"], irregular=irregular, learning_rate=rate)
    if options.only:
        by_name = {variant.name: variant for variant in ablations}
        for name in options.only:
            if name not in by_name:
                raise ValueError(f"--only: {unknown('ablation', name, by_name)}")
        ablations = [by_name[name] for name in options.only]
    out = options.out or Path("runs") / f"ablate-{options.task.replace(':', '.')}"
    study = Study(config, (base, *ablations), options.seeds, out)
    return run_study(study, options, lambda summary: summary.ablation(), lambda summary: summary.scores)
