"""Download, check or simulate the data of a task.

`fetch` downloads the official files, going on where it was stopped; `check` reads all of a task's data and says what is
in them, or what is wrong; `make` walks a robot in MuJoCo, for people without the original rollouts of walker2d.
"""

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

SUMMARIES = {
    "fetch": "Download a task's official files. Repeat the command to resume an interrupted download.",
    "check": "Read a task's data and describe them, or report what is wrong.",
    "make": "Simulate the data of walker2d, for use without the original rollouts.",
}
SPLITS = ("train", "valid", "test")
# Of more classes than this, only how many samples they have at least and at most is shown.
FEW = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    actions = parser.add_subparsers(metavar="action", dest="action", required=True)
    parsers = {name: actions.add_parser(name, help=text, description=text) for name, text in SUMMARIES.items()}
    for name, one in parsers.items():
        what = "walker2d" if name == "make" else "whose data; s7 tasks lists the tasks"
        where = "where data are" if name == "check" else "where to put them"
        one.add_argument("task", help=what)
        one.add_argument("--data", type=Path, metavar="DIR", help=f"{where} (else $S7_DATA, else ~/.cache/s7)")
    parsers["make"].add_argument("--rollouts", type=int, default=400, metavar="N", help="how many (default 400)")
    parsers["make"].add_argument("--seed", type=int, default=0, help="of the simulation (default 0)")
    # Here too, for people write it last; without a default, or it would undo one that was given first.
    for one in parsers.values():
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="write JSON lines for machines")


def run(options: argparse.Namespace) -> None:
    """Does what was asked for."""
    {"fetch": _fetch, "check": _check, "make": _make}[options.action](options)


def _fetch(options: argparse.Namespace) -> None:
    """Downloads the files and says where they are."""
    from s7.data.download import Progress, amount, fetch
    from s7.data.folder import DataFolder
    from s7.publishing.text import clock
    from s7.tasks import TASKS, find_task

    kind = find_task(options.task)
    folder = DataFolder(options.data)
    downloads = kind.downloads
    if not downloads:
        missing = kind().missing(folder)
        if missing is not None:
            raise FileNotFoundError(f"{options.task}: no address is known for its data; {missing}")
        why = "its data are simulated when it is trained" if options.task in TASKS else "its data are here"
        print(json.dumps({"task": options.task, "files": 0}) if options.json else f"nothing to fetch: {why}")
        return
    place = folder.places[0]
    if not options.json:
        print(f"{options.task}: {len(downloads)} file{'s'[: len(downloads) > 1]} into {place}", flush=True)
        if kind.downloads_are_optional:
            print("Its data are made when it is trained. These are the published ones, 7.7 GB, for data.origin=lra.")
    for download in downloads:
        line = _Line()

        def watch(at: Progress, line: _Line = line, name: str = download.path) -> None:
            of = "" if at.total is None else f" of {amount(at.total)}, {at.done / max(at.total, 1):.0%}"
            left = "" if at.seconds_left is None else f", {clock(at.seconds_left)} left"
            line.show(f"{name}  {amount(at.done)}{of}  {amount(at.speed)}/s{left}")

        def say(text: str, line: _Line = line) -> None:
            line.clear()
            print(text, file=sys.stderr, flush=True)

        path = place / download.path
        before = path.exists()
        if kind.manual_download and not before:
            raise FileNotFoundError(f"{kind.manual_download}. Put it at {path}, then give this command again")
        try:
            held = fetch(download, place, watch, say)
        finally:
            line.clear()
        _show_file(held, options.json, {"url": download.url, "fetched": not before})
    if not options.json:
        print(f"Next: s7 data check {options.task}")


def _check(options: argparse.Namespace) -> None:
    """The files, then what is read from them."""
    from s7.data.download import check
    from s7.data.folder import DataFolder
    from s7.tasks import find_task

    kind = find_task(options.task)
    folder = DataFolder(options.data)
    for download in kind.downloads:
        path = folder.find(download.path)
        if path is not None:
            _show_file(check(download, path), options.json)
    task = kind()
    missing = task.missing(folder)
    if missing is not None:
        raise FileNotFoundError(missing)
    problem = task.load(folder, "strict", (lambda text: None) if options.json else print)
    for split in SPLITS:
        samples = getattr(problem, split)
        samples.check()
        problem.objective.check(samples)
        found = describe(samples, problem.objective)
        if options.json:
            print(json.dumps({"split": split} | found))
        else:
            print("\n".join(_lines(split, found)))
    print(json.dumps({"task": options.task, "wrong": None}) if options.json else "nothing wrong")


def describe(samples: Any, objective: Any) -> dict[str, Any]:
    """What is in one split: how many, how long, of which classes, which values, which gaps."""
    import numpy as np

    targets, counted = samples.targets, len(samples)
    if samples.per_step:
        targets = targets if samples.counts is None else targets[samples.counts]
        counted = len(targets)
    found: dict[str, Any] = {
        "sequences": len(samples),
        "documents": samples.documents,
        "events": len(samples.inputs),
        "lengths": _spread(samples.lengths),
        "inputs": {"type": str(samples.inputs.dtype), "shape": list(samples.event_shape)} | _ends(samples.inputs),
        "targets": {"count": counted, "per_step": samples.per_step, "type": str(targets.dtype)} | _ends(targets),
    }
    classes = getattr(objective, "classes", None)
    if classes is not None:
        names = objective.names or tuple(map(str, range(classes)))
        each = np.bincount(targets.ravel(), minlength=classes)
        found["classes"] = {name: int(n) for name, n in zip(names, each, strict=True)}
    if samples.dt is not None:
        found["gaps"] = _spread(samples.dt) | {"zero": float(np.mean(samples.dt == 0))}
    return found


def _ends(array: Any) -> dict[str, Any]:
    return {"min": array.min().item(), "max": array.max().item()}


def _spread(array: Any) -> dict[str, Any]:
    import numpy as np

    return {"min": array.min().item(), "median": float(np.median(array)), "max": array.max().item()}


def _lines(split: str, found: dict[str, Any]) -> list[str]:
    """One split for people."""
    lengths, inputs, targets = found["lengths"], found["inputs"], found["targets"]
    pairs = f" of {found['documents']} documents" if found["documents"] > 1 else ""
    shape = " × ".join(map(str, inputs["shape"]))
    each = "one number" if shape in ("", "1") else f"{shape} numbers"
    long = f"{lengths['min']:,} to {lengths['max']:,} events, half have up to {lengths['median']:,.0f}"
    if lengths["min"] == lengths["max"]:
        long = f"{lengths['min']:,} events each"
    lines = [
        f"{split:<6}{found['sequences']:,} sequences{pairs}, {long}",
        f"      inputs   {each} an event, {inputs['min']:.6g} to {inputs['max']:.6g} ({inputs['type']})",
    ]
    if "gaps" in found:
        gaps = found["gaps"]
        zero = f", {gaps['zero']:.1%} are zero" if gaps["zero"] else ""
        lines.append(
            f"      gaps     {gaps['min']:.6g} to {gaps['max']:.6g}, half are up to {gaps['median']:.6g}{zero}"
        )
    if "classes" in found:
        lines.append(f"      classes  {_class_counts(found['classes'])}")
    else:
        lines.append(f"      targets  {targets['count']:,}, {targets['min']:.6g} to {targets['max']:.6g}")
    return lines


def _class_counts(classes: dict[str, int]) -> str:
    if len(classes) <= FEW:
        return ", ".join(f"{name}: {count:,}" for name, count in classes.items())
    absent = [name for name, count in classes.items() if not count]
    none = f"; none of {', '.join(absent)}" if absent else ""
    return f"{len(classes)}, with {min(classes.values()):,} to {max(classes.values()):,} each{none}"


def _show_file(held: Any, as_json: bool, more: dict[str, Any] | None = None) -> None:
    from s7.data.download import amount

    if as_json:
        about = {"path": str(held.path), "bytes": held.bytes, "digest": held.digest, "against": held.against}
        print(json.dumps(about | (more or {})), flush=True)
        return
    known = {"published": "as published", "first fetch": "as when first fetched", None: "none is published"}
    print(f"{held.path}  {amount(held.bytes)}  {held.digest} ({known[held.against]})", flush=True)


class _Line:
    """A line of a terminal that rewrites itself a few times a second; nothing elsewhere."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.shown = 0.0

    def show(self, text: str) -> None:
        now = time.perf_counter()
        if self.live and now - self.shown > 0.2:
            self.shown = now
            width = shutil.get_terminal_size().columns
            print(f"\r{text[: width - 1]}\033[K", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.live and self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _make(options: argparse.Namespace) -> None:
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
