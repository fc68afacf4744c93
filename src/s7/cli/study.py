"""Shared code of `s7 compare` and `s7 ablate`: their options, and running a study."""

import argparse
import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from s7.cli.options import count, duration
from s7.cli.train import add_job, expand_preset

if TYPE_CHECKING:  # they import JAX
    from s7.study import Study, Summary
    from s7.study.search import Search
    from s7.study.study import StudyConfig
    from s7.study.summary import Score


def add_study(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that run several trials."""
    parser.add_argument(
        "--seeds", type=count, default=3, metavar="N", help="runs per variant, with seeds 0 to N-1 (default 3)"
    )
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument(
        "--epochs", type=count, metavar="N", help="train every run for N epochs (default: the preset's number)"
    )
    budget.add_argument("--steps", type=count, metavar="N", help="train every run on N batches")
    budget.add_argument("--minutes", type=duration, metavar="M", help="train every run for about M minutes")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the runs (default: below runs/)")
    parser.add_argument(
        "--jobs", type=count, default=1, metavar="N", help="parallel runs, which share the cores equally (default 1)"
    )
    add_job(parser)


def study_config(options: argparse.Namespace) -> "StudyConfig":
    """The configuration that all trials share."""
    from s7.settings import from_assignments
    from s7.study.study import StudyConfig

    expand_preset(options)
    assignments = [*options.set]
    for name in ("epochs", "steps"):
        if getattr(options, name) is not None:
            assignments.append(f"train.{name}={getattr(options, name)}")
    return StudyConfig(
        options.task,
        preset=options.preset,
        protocol=options.protocol,
        minutes=options.minutes,
        settings=from_assignments(assignments),
        test=not options.no_test,
    )


def run_study(
    study: "Study",
    options: argparse.Namespace,
    to_text: "Callable[[Summary], str]",
    in_order: "Callable[[Summary], Sequence[Score]]",
    search: "Search | None" = None,
) -> int:
    """Run the trials, print the summary and write comparison.json and report.html.

    Args:
        to_text: Formats the summary for the terminal.
        in_order: The order of the variants in the report.
        search: The search of a setting on validation data, which is run first.

    Returns:
        1 if a trial failed, otherwise 0.
    """
    from s7.data.folder import DataFolder
    from s7.report import write
    from s7.storage import write_atomically
    from s7.study import Summary
    from s7.study.display import display_for
    from s7.study.runner import Runner
    from s7.study.search import applied, outcomes
    from s7.study.search import write as write_outcomes

    study.check()
    if search is not None:
        search.study(study).check()
    folder = DataFolder(options.data)
    missing = study.job(study.variants[0], 0).data().missing(folder)
    if missing:
        raise FileNotFoundError(f"{options.task}: {missing}")
    display = display_for(options.json)
    study.check_data(folder, display.say)
    Runner(study, options.data, options.jobs)  # checks the number of jobs before anything is written
    study.open()

    def run(study: "Study") -> dict[str, str]:
        study.open()
        return Runner(study, options.data, options.jobs, display).run()

    # SIGTERM is handled like Ctrl-C: the trials save their state and exit.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    searched = None
    try:
        with display:
            if search is not None:
                run(search.study(study))
                searched = outcomes(search, study)
                write_outcomes(search, searched, study.out)
                study = applied(search, study, searched)
            failures = run(study)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; repeat the command to resume the runs in {study.out}") from None
    finally:
        signal.signal(signal.SIGTERM, before)
    summary = Summary.of(study, failures, searched)
    write_atomically(study.out / "comparison.json", json.dumps(summary.record(), indent=1).encode())
    print(json.dumps(summary.record()) if options.json else f"\n{to_text(summary)}")
    names = [score.name for score in in_order(summary)]
    trials = sorted(study.trials(), key=lambda trial: names.index(trial.variant.name))
    begun = [trial.folder.path for trial in trials if trial.folder.is_begun]
    try:
        page = write(begun, study.out / "report.html") if begun else None
    except ValueError as error:  # matplotlib is optional
        display.say(f"no report: {error}")
    else:
        if page is not None:
            display.say(f"report: {page}")
    return 1 if failures else 0
