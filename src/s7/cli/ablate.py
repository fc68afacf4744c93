"""s7 ablate: S7 with one part changed at a time, and whether it matters.

The paper's ablations (no reparameterization, other a and b) and ours: each part static, other ranks, gains, pooling.
"""

import argparse
from pathlib import Path

from s7.cli.compare import add_common, hold, rules_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("task", help="what to train on; s7 tasks lists them")
    parser.add_argument("--only", metavar="A,B,…", help="only these ablations, by name; an unknown name lists them")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    """Runs what is not done, then shows what each change does."""
    from s7.data.folder import DataFolder
    from s7.job import Job
    from s7.settings import from_assignments, unknown
    from s7.study import Study
    from s7.study.ablations import variants
    from s7.study.study import StudyConfig

    rules = StudyConfig(**rules_of(options))
    job = Job(rules.task, preset=rules.preset, protocol=rules.protocol, settings=from_assignments(rules.set))
    job.check()
    missing = job.data().missing(DataFolder(options.data))
    if missing:
        raise FileNotFoundError(f"{options.task}: {missing}")
    problem = job.problem(DataFolder(options.data), print if not options.json else lambda text: None)
    model = job.config(problem)["model"]
    chosen = variants(model, irregular=problem.train.dt is not None)
    if options.only:
        names = [name.strip() for name in options.only.split(",")]
        known = {variant.name: variant for variant in chosen}
        for name in names:
            if name not in known:
                raise ValueError(f"--only: {unknown('ablation', name, known)}")
        chosen = (chosen[0], *(known[name] for name in names if known[name] is not chosen[0]))
    out = options.out or Path("runs") / f"ablate-{options.task.replace(':', '.')}"
    study = Study(rules, chosen, options.seeds, out)
    return hold(study, options, lambda summary: summary.ablation(), lambda summary: summary.scores)
