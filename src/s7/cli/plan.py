"""Predict the speed and memory of training on many devices, and what limits them.

Measures a few training steps on this machine and extends them by a cost model to n devices like this one.
"""

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s7.cli.options import count, duration
from s7.cli.train import add_settings, expand_preset

if TYPE_CHECKING:
    from s7.plan.cost import Cost, Measurements, Prediction

UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def size(text: str) -> float:
    """A number of bytes, such as 16GB."""
    found = re.fullmatch(r"\s*([\d.]+(?:e\d+)?)\s*([kmgt]?)b?\s*", text, re.IGNORECASE)
    try:
        value = float(found[1]) * UNITS[found[2].lower()] if found else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a size in bytes, such as 16GB, not {text!r}")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("task", help="task to plan (s7 tasks lists them), or module:Class")
    parser.add_argument("--model", default="s7", help="architecture (default: s7); `s7 models` lists them")
    parser.add_argument(
        "--devices", type=count, default=1000, metavar="N", help="largest number of devices (default 1000)"
    )
    parser.add_argument("--memory", type=size, metavar="SIZE", help="memory of each device, such as 16GB")
    parser.add_argument("--batch", type=count, metavar="B", help="sequences per device (default: as set, if they fit)")
    parser.add_argument(
        "--bandwidth", type=size, default=1.25e9, metavar="SIZE", help="bytes per second of a link (default 1.25GB)"
    )
    parser.add_argument(
        "--latency", type=duration, default=50.0, metavar="US", help="microseconds of a message (default 50)"
    )
    parser.add_argument(
        "--speed",
        type=duration,
        default=1.0,
        metavar="X",
        help="speed of a device relative to this machine (default 1)",
    )
    parser.add_argument(
        "--measurements", type=Path, metavar="FILE", help="file of the measurements; written if it does not exist"
    )
    add_settings(parser)


def run(options: argparse.Namespace) -> int:
    """Measure, predict and print the tables."""
    from s7.plan.cost import Assumptions, Cost, counts

    measured = _measurements(options)
    cost = Cost(measured, Assumptions(options.bandwidth, options.latency * 1e-6, options.speed))
    largest = None if options.memory is None else cost.largest_batch(options.memory)
    batch = options.batch or (measured.batch if largest is None else max(1, min(measured.batch, largest)))
    rows = {
        "data parallel": [cost.data_parallel(devices, batch) for devices in counts(options.devices)],
        "sequence parallel": [cost.sequence_parallel(devices, batch) for devices in counts(options.devices)],
    }
    if not measured.exchange_bytes:  # the recurrence of other layers cannot be split
        del rows["sequence parallel"]
    if options.json:
        print(json.dumps(_record(options, cost, rows, largest)))
        return 0
    print("\n".join(_text(options, cost, rows, largest, batch)))
    return 0


def _measurements(options: argparse.Namespace) -> "Measurements":
    """Those of the file, or new ones. JAX is imported only to measure."""
    from s7.plan.cost import Measurements

    path = options.measurements
    if path is not None and path.exists():
        measured = Measurements.read(path)
        for name in ("task", "model"):
            theirs = measured.about.get(name)
            if theirs != getattr(options, name) and (name == "task" or name in options.given):
                raise ValueError(f"{path}: measurements of {name} {theirs}, not {getattr(options, name)}")
        if options.set or "preset" in options.given:
            raise ValueError(f"{path}: holds measurements; omit --set and --preset, or choose another file")
        return measured
    from s7 import progress
    from s7.data.folder import DataFolder
    from s7.job import Job
    from s7.machine import keep_compiled_code
    from s7.plan.measuring import measure
    from s7.settings import from_assignments

    expand_preset(options)
    settings = from_assignments(options.set)
    job = Job(options.task, options.model, options.preset, options.protocol, settings=settings, test=False)
    job.check()
    keep_compiled_code()
    with progress.status(f"measuring {options.task}") as status:
        measured = measure(job, DataFolder(options.data), say=status.update)
    if path is not None:
        measured.write(path)
    return measured


def _text(
    options: argparse.Namespace, cost: "Cost", rows: "dict[str, list[Prediction]]", largest: int | None, batch: int
) -> list[str]:
    from s7.publishing.text import number, table

    measured, about = cost.measured, cost.measured.about
    lines = [
        f"{about['task']}, {about['model']}: {measured.parameters:,} parameters, "
        f"{measured.length:,} events per sequence",
        "",
        f"measured ({about.get('machine', 'unknown machine')}):",
        f"  step, batch {measured.batch}: {_milliseconds(measured.step_seconds)}; "
        f"batch {measured.other_batch}: {_milliseconds(measured.other_seconds)}; "
        f"input: {_milliseconds(measured.input_seconds)}",
        f"  memory: {_bytes(measured.fixed_bytes)} and {measured.event_bytes:,.0f} bytes per event; "
        f"{measured.filled:.0%} of the events in a batch are real",
        "assumed:",
        f"  links of {_bytes(cost.assumed.bandwidth)}/s and {1e6 * cost.assumed.latency:g} µs, "
        f"devices {cost.assumed.speed:g} times as fast as this machine, nothing overlaps the all-reduce",
    ]
    if not measured.is_consistent:
        lines += ["", "the smaller batch took longer: the machine is busy, and the predictions are not reliable"]
    if largest is not None:
        lines += ["", _memory_line(cost, options.memory, largest, batch)]
    for title, predictions in rows.items():
        shared = "per device" if title == "data parallel" else "in all, split along time"
        lines += ["", f"{title}, {batch} sequences {shared}"]
        heads = ["devices", "events/s", "efficiency", "ms/step", "memory/device", "limit"]
        cells = [
            [
                f"{one.devices:,}",
                number(one.events_per_second, 3),
                f"{one.efficiency:.0%}",
                number(1e3 * one.seconds, 3),
                _bytes(one.memory_bytes) + ("" if _fits(one, options.memory) else " (too much)"),
                one.limit,
            ]
            for one in predictions
        ]
        lines.append(table(heads, cells, ">"))
    return lines


def _memory_line(cost: "Cost", memory: float, largest: int, batch: int) -> str:
    if largest >= 1:
        most = "any batch fits" if largest >= 10**6 else f"the largest batch per device is {largest:,}"
        return f"{_bytes(memory)} per device: {most}"
    split = cost.devices_for_one_sequence(memory)
    if split is None:
        return f"{_bytes(memory)} per device: nothing fits; the model alone takes {_bytes(cost.measured.fixed_bytes)}"
    need = _bytes(cost.memory(1))
    return f"{_bytes(memory)} per device: no whole sequence fits ({need}); split sequences over {split} devices or more"


def _record(
    options: argparse.Namespace, cost: "Cost", rows: "dict[str, list[Prediction]]", largest: int | None
) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "measured": asdict(cost.measured),
        "assumed": asdict(cost.assumed),
        "memory": options.memory,
        "largest_batch": largest,
        **{title.replace(" ", "_"): [asdict(one) for one in predictions] for title, predictions in rows.items()},
    }


def _fits(prediction: "Prediction", memory: float | None) -> bool:
    return memory is None or prediction.memory_bytes <= memory


def _milliseconds(seconds: float) -> str:
    from s7.publishing.text import number

    return f"{number(1e3 * seconds, 3)} ms"


def _bytes(value: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.0f} bytes"
