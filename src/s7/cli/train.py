"""Train a model on a task and evaluate it on the test set.

The run folder holds settings, metrics, checkpoints and the result. A run that was interrupted continues with --resume.
"""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s7.cli.options import add_data, count, duration, seed

if TYPE_CHECKING:
    from s7.interrupts import Interrupts
    from s7.job import Job
    from s7.processes import Place
    from s7.run_folder import RunFolder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("task", help="task to train on; `s7 tasks` lists them")
    parser.add_argument("--model", default="s7", help="architecture (default: s7); `s7 models` lists them")
    parser.add_argument("--seed", type=seed, default=0, help="random seed of model and batches (default: 0)")
    parser.add_argument("--out", type=Path, metavar="RUN", help="run folder (default: runs/TASK-MODEL-…)")
    parser.add_argument(
        "--minutes", type=duration, metavar="M", help="train for about M minutes: measure the speed, then set the steps"
    )
    parser.add_argument("--variant", default="", metavar="NAME", help="name of these settings in reports")
    parser.add_argument(
        "--init",
        default="",
        metavar="MODEL",
        help="start from the encoder and the blocks of a trained model: a run, a model file or a name such as s7/text",
    )
    parser.add_argument("--resume", action="store_true", help="continue the run in the run folder")
    parser.add_argument(
        "--processes",
        type=count,
        metavar="N",
        help="train with N processes on this machine, each with a part of every batch",
    )
    add_job(parser)


def add_job(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that trains and tests."""
    add_settings(parser)
    parser.add_argument("--no-test", action="store_true", help="do not use the test set, while choosing settings")


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that trains."""
    parser.add_argument("--preset", default="ours", help="settings: ours (default), paper, or a file FILE.toml")
    parser.add_argument("--protocol", default="strict", help="data splits and evaluation: strict (default) or paper")
    add_data(parser)
    parser.add_argument(
        "--set",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="change settings, such as model.width=32 train.epochs=6",
    )


def expand_preset(options: argparse.Namespace) -> None:
    """Replace a preset file by its settings, which are then part of the run and do not depend on the file."""
    from s7.presets.user_file import SUFFIX, PresetFile
    from s7.settings import from_assignments, to_assignments

    if not options.preset.endswith(SUFFIX):
        return
    path = Path(options.preset)
    file = PresetFile.read_for(path, options.task)
    if "model" in options and "model" not in options.given:
        options.model = file.model
    models = options.models if "models" in options else [options.model] if "model" in options else ["s7"]
    if models != [file.model]:
        raise ValueError(f"--preset {path}: for the model {file.model}, not for {', '.join(models)}")
    options.preset = file.preset
    options.set = to_assignments(file.changed(from_assignments(options.set)))


def run(options: argparse.Namespace) -> int:
    """Train and print the result."""
    # JAX is imported only after the request is on disk and signals are handled: an interrupt leaves a run to resume.
    from s7 import processes
    from s7.interrupts import Interrupts
    from s7.run_folder import RunFolder

    place = processes.place()
    epochs = next((one for one in options.set if one.startswith("train.epochs=")), None)
    preset = Path(options.preset).stem
    expand_preset(options)
    task = options.task.replace(":", ".")  # not allowed in paths on some systems
    name = f"{task}-{options.model}-{preset}-{options.protocol}-{options.seed}"
    folder = RunFolder(options.out or Path("runs") / name)
    if place is None or place.index == 0:
        if options.resume and not folder.is_begun:
            raise FileNotFoundError(f"{folder.path}: no run to resume; omit --resume to start one")
        if folder.is_begun and not options.resume:
            raise ValueError(f"{folder.path}: holds a run; continue it (--resume) or choose another folder (--out)")
    if options.minutes is not None and epochs is not None:
        raise ValueError(f"--minutes {options.minutes:g} and --set {epochs}: omit one of them")
    again = ["s7", "train", options.task, "--out", str(folder.path), "--resume"]
    if options.processes is not None:
        again += ["--processes", str(options.processes)]
        if place is None and options.processes > 1:
            return _launch(options, shlex.join(again))
        if place is not None and place.count != options.processes:
            raise ValueError(
                f"--processes {options.processes}: this is one of {place.count} processes; omit the option"
            )
    interrupts = Interrupts(early_exit=f"s7 train: stopped; to continue: {shlex.join(again)}")
    # In this order, so that whoever finds the request on disk can stop the run with a message.
    with interrupts.installed(), _requested(folder, options, place) as withdraw:
        job = _job(options, folder, place, withdraw)
        return _train(job, options, folder, place, interrupts, shlex.join(again))


def _launch(options: argparse.Namespace, again: str) -> int:
    """Run the command in several processes."""
    from s7.launching import Workers

    status, text, lost = Workers(options.words, options.processes).run()
    if text:
        print(f"s7 train: {text}; to continue: {again}" if lost else text, file=sys.stderr)
    return status


@contextmanager
def _requested(folder: "RunFolder", options: argparse.Namespace, place: "Place | None") -> Iterator[Callable[[], None]]:
    """Write the request to config.toml, and remove it if the run cannot start. Of several processes the first does.

    Yields:
        A function that removes the request of a run that has not started, for an end without an exception.
    """
    from s7.records import CONFIG, RunRecord

    if (place is not None and place.index > 0) or folder.is_begun:
        yield lambda: None
        return
    new = [path for path in (folder.path, *folder.path.parents) if not path.exists()]
    RunRecord(_request(options)).write_config(folder.path)

    def withdraw() -> None:
        # The settings are resolved once the data are read; an error before that is one of the command.
        if "train" not in RunRecord.read(folder.path).config:
            for name in (CONFIG, ".lock"):
                (folder.path / name).unlink(missing_ok=True)
            with suppress(OSError):
                for path in new:
                    path.rmdir()

    try:
        yield withdraw
    except Exception:
        withdraw()
        raise


def _request(options: argparse.Namespace) -> dict[str, Any]:
    request = {name: getattr(options, name) for name in ("task", "preset", "protocol", "seed", "variant", "init")}
    request |= {"test": not options.no_test, "set": list(options.set)}
    request |= {} if options.minutes is None else {"minutes": options.minutes}
    return request | {"model": {"kind": options.model}}


def _train(
    job: "Job",
    options: argparse.Namespace,
    folder: "RunFolder",
    place: "Place | None",
    interrupts: "Interrupts",
    again: str,
) -> int:
    from s7 import native, processes
    from s7.data.folder import DataFolder
    from s7.machine import keep_compiled_code, keep_freed_memory
    from s7.tasks import find_task
    from s7.training import Diverged, Interrupted, StopOnSignal
    from s7.training.display import display

    first = place is None or place.index == 0
    native.available()  # settings such as S7_THREADS are checked before anything is written
    keep_freed_memory()
    keep_compiled_code()

    def say(text: str) -> None:
        if first and not options.json:
            print(text, flush=True)

    together = "" if place is None else f" · {place.count} processes"
    settings = f"preset {job.preset} · protocol {job.protocol} · seed {job.seed}{together}"
    say(f"{job.task} · {job.model} · {settings} → {folder.path}")
    if job.protocol == "paper":
        say(f"protocol paper: {find_task(job.task).protocols['paper']}")
    callbacks = (StopOnSignal(interrupts), *([display(as_json=options.json)] if first else []))
    try:
        trained = job.run(folder.path, DataFolder(options.data), resume=True, callbacks=callbacks, say=say)
    except Interrupted:
        if first:
            print(f"s7 train: stopped; to continue: {again}", file=sys.stderr)
        return 130
    except Diverged as error:
        if not first:  # the first process says so
            return 2
        kept = f"; the last good checkpoint is {folder.last}" if folder.last.exists() else ""
        raise Diverged(f"{error}{kept}") from None
    except processes.ProcessLost as error:
        if os.environ.get(processes.LAUNCHED):  # the launcher says which
            return processes.LOST
        raise processes.ProcessLost(f"{error}; to continue: {again}") from None
    if first:
        print(json.dumps(trained.result) if options.json else "\n".join(_summary(folder)))
    return 0


def _job(
    options: argparse.Namespace, folder: "RunFolder", place: "Place | None", withdraw: Callable[[], None]
) -> "Job":
    """The job, once this process has joined the others."""
    from s7 import processes
    from s7.job import Job

    if place is None:
        job = Job.of(folder.record().config)
        if options.resume:
            _check_same(job, folder, options)
        job.check()
        return job
    if not options.resume:
        job = Job.of(_request(options))
        job.check()
        processes.join(place, withdraw)
        return job
    processes.join(place, withdraw)
    from s7.training.group import Group

    group = Group.current()
    with group.watched():
        job = Job.of(group.from_first(folder.record().config if group.is_first else None))
    _check_same(job, folder, options)
    job.check()
    return job


def _summary(folder: "RunFolder") -> list[str]:
    from s7.publishing.text import clock, number

    def metrics(values: dict[str, float]) -> str:
        return "  ".join(f"{name} {number(value)}" for name, value in values.items() if name != "loss")

    result = folder.result()
    split, values = ("test", result.test) if result.test else ("valid", result.valid)
    when = f"best epoch {result.best_epoch} of {result.epochs}, {clock(result.seconds or 0)}"
    lines = ["", f"{split}: {metrics(values)}   ({when})"]
    lines += [f"{name}: {metrics(values)}" for name, values in result.baselines.items()]
    if result.stopped:
        lines.append(f"stopped early: {result.stopped}")
    lines.append(
        f"{result.steps_per_second:.1f} steps/s, of which {result.waits_for_data:.1%} waiting for data; "
        f"peak memory {result.peak_memory_mb} MB; report: s7 report {folder.path}"
    )
    return lines


def _check_same(job: "Job", folder: "RunFolder", options: argparse.Namespace) -> None:
    """Raise ValueError if an option that was given differs from the run in the folder."""
    from s7.settings import from_assignments

    if job.task != options.task:
        raise ValueError(f"{folder.path}: a run of {job.task}, not of {options.task}; choose another folder (--out)")
    for name in ("model", "preset", "protocol", "seed", "variant", "minutes", "init"):
        mine, given = getattr(job, name), getattr(options, name)
        if mine != given and name in options.given:
            has = f"without --{name}" if mine in (None, "") else f"with {name} {mine}, not {given}"
            raise ValueError(f"{folder.path}: a run {has}; omit --{name} or choose another --out")
    if options.no_test and job.test:
        raise ValueError(f"{folder.path}: a run with a test; omit --no-test or choose another --out")
    different = job.difference(from_assignments(options.set))
    if different is not None:
        raise ValueError(f"{folder.path}: a run with {different}; omit --set or choose another --out")
