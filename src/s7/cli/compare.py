"""s7 compare: several models on one task, the same data and the same budget.

Each run is a process of its own: one that fails does not stop the others. Called again, the command goes on where it
was, and tries again what failed.
"""

import argparse
from pathlib import Path

from s7.cli.train import add_job


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("task", help="what to train on; s7 tasks lists them")
    parser.add_argument("--models", required=True, metavar="A,B,…", help="such as s7,s5,lstm; s7 models lists them")
    add_common(parser)


def add_common(parser: argparse.ArgumentParser) -> None:
    """Options of all commands that make several runs."""
    parser.add_argument(
        "--seeds", type=int, default=3, metavar="N", help="runs of each, with seeds 0 to N - 1 (default 3)"
    )
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument(
        "--epochs", type=int, metavar="N", help="train each for so many epochs (else as the preset says)"
    )
    budget.add_argument("--minutes", type=float, metavar="M", help="train each for about so many minutes")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the runs are kept (default below runs/)")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="runs at a time, each on its share of the cores"
    )
    add_job(parser)


def run(options: argparse.Namespace) -> int:
    """Runs what is not done, then shows how all did."""
    from s7.study import Study, Variant
    from s7.study.study import StudyConfig

    models = [name.strip() for name in options.models.split(",") if name.strip()]
    if not models:
        raise ValueError("--models: names none; try --models s7,s5,lstm")
    study = Study(
        StudyConfig(**rules_of(options)),
        tuple(Variant(name) for name in models),
        options.seeds,
        options.out or Path("runs") / f"compare-{options.task.replace(':', '.')}",
    )
    return hold(study, options, lambda summary: summary.table(), lambda summary: summary.ranked())


def rules_of(options: argparse.Namespace) -> dict:
    """What is the same for all runs."""
    settings = [*options.set] + ([f"train.epochs={options.epochs}"] if options.epochs is not None else [])
    shared = {name: getattr(options, name) for name in ("task", "preset", "protocol", "minutes")}
    return shared | {"set": tuple(settings), "test": not options.no_test}


def hold(study, options: argparse.Namespace, shown, order) -> int:
    """Makes the runs and writes the table, for people or machines, and the page; 1 if a run failed.

    `shown` makes the table of a summary, `order` the order of its scores on the page.
    """
    import json
    import signal

    from s7.cli.trials import listener_for
    from s7.data.folder import DataFolder
    from s7.report import write
    from s7.storage import write_atomically
    from s7.study import Summary
    from s7.study.runner import Runner

    study.check()
    missing = study.job(study.variants[0], 0).data().missing(DataFolder(options.data))
    if missing:
        raise FileNotFoundError(f"{options.task}: {missing}")
    listener = listener_for(options.json)
    runner = Runner(study, options.data, options.jobs, listener)
    study.open()
    # Asked to stop either way, the runs save and end.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        failures = runner.run()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; what is done is kept in {study.out}, the same command goes on") from None
    finally:
        signal.signal(signal.SIGTERM, before)
    summary = Summary.of(study, failures)
    write_atomically(study.out / "comparison.json", json.dumps(summary.record(), indent=1).encode())
    print(json.dumps(summary.record()) if options.json else f"\n{shown(summary)}")
    names = [score.name for score in order(summary)]
    trials = sorted(study.trials(), key=lambda trial: names.index(trial.variant.name))
    begun = [trial.folder.path for trial in trials if trial.folder.is_begun]
    try:
        page = write(begun, study.out / "report.html") if begun else None
    except ValueError as error:  # matplotlib is an extra
        listener.say(f"no page: {error}")
    else:
        if page is not None:
            listener.say(f"page: {page}")
    return 1 if failures else 0
