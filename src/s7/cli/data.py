"""Download, check or simulate the data of a task.

`fetch` downloads the official files. `check` reads all data of a task and describes them or reports errors. `make`
simulates walker2d in MuJoCo.
"""

import argparse
import json
import sys
from typing import Any

from s7.cli.options import add_data, add_json, count, seed

SUMMARIES = {
    "fetch": "Download a task's official files. Repeat the command to resume an interrupted download.",
    "check": "Read a task's data and describe them, or report what is wrong.",
    "make": "Simulate the data of walker2d, for use without the original rollouts.",
}
SPLITS = ("train", "valid", "test")
# With more classes than this, only the smallest and the largest class size are shown.
FEW = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one subcommand per action, with its options."""
    actions = parser.add_subparsers(metavar="action", dest="action", required=True)
    parsers = {name: actions.add_parser(name, help=text, description=text) for name, text in SUMMARIES.items()}
    for name, one in parsers.items():
        one.add_argument("task", help="walker2d" if name == "make" else "task (s7 tasks lists them)")
        add_data(one)
        add_json(one, nested=True)
    make = parsers["make"]
    make.add_argument("--rollouts", type=count, default=400, metavar="N", help="number of rollouts (default 400)")
    make.add_argument("--seed", type=seed, default=0, metavar="N", help="seed of the simulation (default 0)")


def run(options: argparse.Namespace) -> None:
    """Run the action."""
    {"fetch": _fetch, "check": _check, "make": _make}[options.action](options)


def _fetch(options: argparse.Namespace) -> None:
    """Download the files and print their paths."""
    from s7 import progress
    from s7.data.download import Progress, fetch
    from s7.data.folder import DataFolder
    from s7.tasks import TASKS, find_task

    kind = find_task(options.task)
    folder = DataFolder(options.data)
    downloads = kind.downloads
    if not downloads:
        missing = kind().missing(folder)
        if missing is not None:
            raise FileNotFoundError(f"{options.task}: it has no known download address; {missing}")
        why = "its data are simulated when it is trained" if options.task in TASKS else "its data are here"
        print(json.dumps({"task": options.task, "files": 0}) if options.json else f"nothing to fetch: {why}")
        return
    place = folder.places[0]
    if not options.json:
        print(f"{options.task}: {len(downloads)} file{'s'[: len(downloads) > 1]} into {place}", flush=True)
        if kind.downloads_are_optional:
            print("Training generates the data. This downloads the published data (7.7 GB), for data.origin=lra.")
    for download in downloads:
        path = place / download.path
        before = path.exists()
        if kind.manual_download and not before:
            raise FileNotFoundError(f"{kind.manual_download}. Put it at {path}, then repeat the command")
        with progress.bar(download.path, unit="bytes") as bar:

            def watch(at: Progress, bar: progress.Bar = bar) -> None:
                bar.update(done=at.done, total=at.total)

            held = fetch(download, place, watch, _warn)
        _show_file(held, options.json, {"url": download.url, "fetched": not before})
    if not options.json:
        print(f"Next: s7 data check {options.task}")


def _warn(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _check(options: argparse.Namespace) -> None:
    """Check the files, then describe the data that are read from them."""
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
    """Describe a split: number and lengths of sequences, values, classes and gaps."""
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
    """The description of a split as text."""
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


def _make(options: argparse.Namespace) -> None:
    """Simulate the rollouts and print their path."""
    from s7 import progress
    from s7.data.folder import DataFolder
    from s7.tasks import find_task, walker_rollouts
    from s7.tasks.walker2d import MADE

    find_task(options.task)
    if options.task != "walker2d":
        raise ValueError(f"{options.task}: its data are simulated when it is trained; there is nothing to make")
    path = DataFolder(options.data).places[0] / MADE
    if path.exists():
        raise FileExistsError(f"{path}: already exists; remove it, or choose another folder with --data")
    with progress.bar("simulating", options.rollouts) as bar:
        made = walker_rollouts.generate(
            options.rollouts, options.seed, watch=lambda done, total: bar.update(done=done, total=total)
        )
    walker_rollouts.write(path, made)
    if options.json:
        print(json.dumps({"path": str(path), "rollouts": options.rollouts, "steps": len(made.obs)}))
    else:
        print(f"{options.rollouts} rollouts, {len(made.obs):,} steps: {path}")
        print("These are not the original data: errors on them cannot be compared with published results.")
