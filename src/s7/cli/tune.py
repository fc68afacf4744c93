"""Search for better settings of a task by Bayesian optimization on validation data.

Workers join a search by running the same command: with the same --out on one machine, or with the same --storage and
--name anywhere. Repeat the command to continue a search. The result is a preset for s7 train --preset FILE. The test
data are never used.
"""

import argparse
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from s7.cli.options import count, duration, names, seed
from s7.cli.train import add_settings, expand_preset

if TYPE_CHECKING:  # they import JAX
    from s7.tune.search import Search, SearchConfig

# The share of --minutes that each trial gets, unless --trial-minutes is given.
SHARE = 0.1


def fractions(text: str) -> tuple[float, ...]:
    """Numbers between 0 and 1, separated by commas; "none" for no numbers."""
    try:
        found = () if text == "none" else tuple(sorted(float(word) for word in text.split(",")))
    except ValueError:
        found = (0.0,)
    if not all(0 < fraction < 1 for fraction in found) or len({round(100 * f) for f in found}) < len(found):
        raise argparse.ArgumentTypeError(f"expected fractions between 0 and 1, such as 0.25,0.5, or none, not {text!r}")
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("task", help="task to tune (s7 tasks lists them), or module:Class")
    parser.add_argument("--model", default="s7", help="architecture (default: s7); `s7 models` lists them")
    parser.add_argument(
        "--minutes",
        type=duration,
        metavar="M",
        help="total wall-clock time of all trials of all workers (default: that of the search, or no limit)",
    )
    parser.add_argument("--trials", type=count, metavar="N", help="stop when the search has N trials, of all workers")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument(
        "--trial-minutes",
        type=duration,
        metavar="M",
        help="train each trial for M minutes (default: a tenth of --minutes)",
    )
    budget.add_argument("--trial-epochs", type=count, metavar="N", help="train each trial for N epochs")
    parser.add_argument(
        "--rungs",
        type=fractions,
        default=(0.25, 0.5),
        metavar="F,…",
        help="fractions of a trial's budget after which the worse half is stopped (default 0.25,0.5), or none",
    )
    parser.add_argument(
        "--space",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=RANGE",
        help="search a setting: LOW:HIGH, LOW:HIGH:log, LOW:HIGH:STEP or A,B,…; replaces its declared range",
    )
    parser.add_argument(
        "--only", type=names, default=[], metavar="KEY,…", help="search these settings or tables only, such as train"
    )
    parser.add_argument("--seed", type=seed, default=0, help="random seed of all trials and of the search (default: 0)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the search (default: below runs/)")
    parser.add_argument("--storage", metavar="URL", help="database of the search (default: a file in its folder)")
    parser.add_argument("--name", help="name of the search in the database (default: the task)")
    add_settings(parser)


def run(options: argparse.Namespace) -> int:
    """Run trials and print the best ones."""
    from s7.tune.display import display_for
    from s7.tune.storages import require_optuna
    from s7.tune.worker import Worker

    require_optuna()
    if options.name is not None and options.storage is None:
        raise ValueError("--name names a search in a database; give --storage URL, too, or choose --out")
    out = options.out or Path("runs") / f"tune-{options.task.replace(':', '.')}"
    display = display_for(options.json)
    search = _search(options, out)
    if options.minutes is not None:
        search.allow(options.minutes)
    display.say(
        f"{options.task}: searching {len(search.config.space.ranges)} settings, "
        f"{search.budget} per trial, {search.spending()} → {out}"
    )
    # SIGTERM is handled like Ctrl-C: the trial saves its state and is put back.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with display:
            summary = Worker(search, options.data, options.trials, display).run()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; repeat the command to continue the search in {out}") from None
    else:
        spending = search.spending()
    finally:
        signal.signal(signal.SIGTERM, before)
        search.close()
    print(json.dumps(summary.record()) if options.json else f"\n{summary.text()}")
    if not spending.has_room:
        display.say(f"{spending}, too little for another trial; a larger --minutes continues the search")
    if summary.best is None:
        return 1
    display.say(f"\npreset: {out / 'best.toml'} (s7 train {options.task} --preset {out / 'best.toml'})")
    display.say(f"report: s7 report {out}")
    return 0


def _search(options: argparse.Namespace, out: Path) -> "Search":
    from s7.data.folder import DataFolder
    from s7.tune.search import Search

    config = search_config(options)
    missing = config.job.data().missing(DataFolder(options.data))
    if missing:
        raise FileNotFoundError(f"{options.task}: {missing}")
    return Search.open(config, out, options.storage, options.name)


def search_config(options: argparse.Namespace) -> "SearchConfig":
    """The configuration that all workers share."""
    from s7.job import Job
    from s7.settings import from_assignments
    from s7.tune.search import Budget, SearchConfig
    from s7.tune.space import Space

    expand_preset(options)
    job = Job(
        options.task,
        options.model,
        options.preset,
        options.protocol,
        options.seed,
        settings=from_assignments(options.set),
        test=False,
    )
    job.check()
    given = options.trial_minutes is not None or options.trial_epochs is not None
    budget = Budget(options.trial_minutes, options.trial_epochs) if given else None
    default = Budget() if options.minutes is None else Budget(minutes=round(SHARE * options.minutes, 3))
    return SearchConfig(job, Space.of(job, options.space, options.only), budget, default, options.rungs)
