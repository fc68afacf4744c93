"""Train a model on a task and evaluate it on the test set.

The run's folder keeps all of it; a run that was stopped, by whatever it was, goes on with --resume.
"""

import argparse
import json
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("task", help="what to train on; s7 tasks lists them")
    parser.add_argument("--model", default="s7", help="the architecture (default s7); s7 models lists them")
    parser.add_argument("--seed", type=int, default=0, help="of the model and the order of batches (default 0)")
    parser.add_argument("--out", type=Path, metavar="RUN", help="the run's folder (default runs/TASK-MODEL-…)")
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="train for about so long: the pace is measured, then epochs follow"
    )
    parser.add_argument("--variant", default="", metavar="NAME", help="what is special about this run, for reports")
    parser.add_argument("--resume", action="store_true", help="go on with the run in the folder")
    add_job(parser)


def add_job(parser: argparse.ArgumentParser) -> None:
    """Options of every command that trains."""
    parser.add_argument("--preset", default="ours", help="settings: ours (default) or the paper's")
    parser.add_argument("--protocol", default="strict", help="how data are split and judged: strict (default) or paper")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where data are (else $S7_DATA, else ~/.cache/s7)")
    parser.add_argument(
        "--set",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="change settings, such as model.width=32 train.epochs=6",
    )
    parser.add_argument("--no-test", action="store_true", help="leave the test data alone, to try settings")


def run(options: argparse.Namespace) -> int:
    """Trains, and prints what came out."""
    from s7.cli.screen import clock, number, screen_for
    from s7.data.folder import DataFolder
    from s7.job import Job
    from s7.machine import keep_compiled_code, keep_freed_memory
    from s7.run_folder import RunFolder
    from s7.settings import from_assignments
    from s7.training import Diverged, Interrupted

    settings = from_assignments(options.set)
    if options.minutes is not None and not options.minutes > 0:
        raise ValueError(f"--minutes {options.minutes:g}: a training takes more than no time; try --minutes 3")
    who = (options.task, options.model, options.preset, options.protocol, options.seed)
    job = Job(*who, settings=settings, test=not options.no_test, variant=options.variant)
    job.check()
    name = job.task.replace(":", ".")  # which no path may have on some systems
    out = options.out or Path("runs") / f"{name}-{job.model}-{job.preset}-{job.protocol}-{job.seed}"
    folder = RunFolder(out)
    if options.resume and folder.is_begun:
        job = _resumed(job, folder, options)
    elif folder.is_begun:
        raise ValueError(f"{out}: holds a run; go on with it (--resume) or choose another folder (--out)")
    keep_freed_memory()
    keep_compiled_code()
    screen = screen_for(options.json)
    screen.say(f"{job.task} · {job.model} · preset {job.preset} · protocol {job.protocol} · seed {job.seed} → {out}")
    if job.protocol == "paper":
        from s7.tasks import find_task

        screen.say(f"protocol paper: {find_task(job.task).protocols['paper']}")
    try:
        how = {"resume": options.resume, "minutes": options.minutes, "watch": screen, "say": screen.say}
        trained = job.run(out, DataFolder(options.data), **how)
    except Interrupted:
        print(f"s7 train: stopped; go on with: s7 train {job.task} --out {out} --resume", file=sys.stderr)
        return 130
    except Diverged as error:
        kept = f"; the last good checkpoint is {folder.last}" if folder.last.exists() else ""
        raise Diverged(f"{error}{kept}") from None
    result = trained.result
    if options.json:
        print(json.dumps(result))
        return 0
    split = "test" if result["test"] else "valid"
    shown = "  ".join(f"{name} {number(value)}" for name, value in result[split].items() if name != "loss")
    when = f"best epoch {result['best_epoch']} of {result['epochs']}, {clock(result['seconds'])}"
    screen.say(f"\n{split}: {shown}   ({when})")
    for name, metrics in result["baselines"].items():
        screen.say(f"{name}: " + "  ".join(f"{metric} {number(value)}" for metric, value in metrics.items()))
    screen.say(
        f"{result['steps_per_second']:.1f} steps/s, of which {result['waits_for_data']:.1%} waiting for data; "
        f"at most {result['peak_memory_mb']} MB; report: s7 report {out}"
    )
    return 0


def _resumed(job, folder, options):
    """The job that is in the folder, which must be the one that was asked for."""
    from dataclasses import replace

    from s7.job import Job
    from s7.settings import merge

    held = Job.of(folder.record().config)
    if held.task != job.task:
        raise ValueError(f"{folder.path}: a run of {held.task}, not of {job.task}; choose another folder (--out)")
    for name in ("model", "preset", "protocol", "seed"):
        mine, theirs = getattr(job, name), getattr(held, name)
        if mine != theirs and name in options.given:
            raise ValueError(
                f"{folder.path}: a run with {name} {theirs}, not {mine}; leave --{name} away or choose another --out"
            )
    return replace(held, settings=merge(held.settings, job.settings))
