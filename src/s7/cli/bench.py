"""Measure the speed and memory use of layers, training steps and streams on this machine.

Save measurements with --out and turn the files into a Markdown page with `s7 bench page`.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from s7.cli.options import add_json, count, counts, names, shapes

SUMMARIES = {
    "layer": "Measure one layer, forward and backward, and a plain version that materialises B_k and C_k.",
    "block": "Measure one block, forward and backward, relative to the speed of a matrix product.",
    "scan": "Measure the recurrence alone, JAX's scans and a memory copy of the same size.",
    "train": "Measure complete training steps of the models of the presets.",
    "stream": "Measure inference one event at a time and in chunks.",
    "files": "Measure how fast event files of every format are read, next to a copy of the file.",
    "page": "Write a Markdown page with tables and figures from files saved with --out.",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one subcommand per benchmark, with its options."""
    kinds = parser.add_subparsers(metavar="benchmark", dest="benchmark", required=True)
    parsers = {name: kinds.add_parser(name, help=text, description=text) for name, text in SUMMARIES.items()}
    for one in parsers.values():
        add_json(one, nested=True)
    page = parsers.pop("page")
    page.add_argument("files", type=Path, nargs="+", metavar="FILE", help="files saved with s7 bench … --out")
    page.add_argument("--out", type=Path, required=True, metavar="PAGE", help="output file, such as docs/speed.md")
    for name, one in parsers.items():
        if name not in ("block", "scan", "files"):
            one.add_argument("--tasks", type=names, metavar="A,B", help="tasks whose presets to use (default: all)")
        if name in ("layer", "train"):
            default = "256,2048,16384,131072" if name == "layer" else "1024, or those of the data with --preset ours"
            one.add_argument("--lengths", type=counts, metavar="N,N", help=f"sequence lengths (default {default})")
        one.add_argument(
            "--runs", type=count, default=10, metavar="N", help="repetitions; the fastest counts (default 10)"
        )
        one.add_argument("--out", type=Path, metavar="FILE", help="save the measurements as JSON lines")
    layer = parsers["layer"]
    layer.add_argument(
        "--shapes",
        type=shapes(4, "8x4096x48x8"),
        metavar="BxLxHxP,…",
        help="measure default layers of these shapes (batch, length, width, state) instead of the paper's",
    )
    layer.add_argument("--quick", action="store_true", help="measure default layers of four shapes only")
    layer.add_argument("--memory", action="store_true", help="measure peak memory too, which takes twice the time")
    parsers["files"].add_argument("--formats", type=names, metavar="A,B", help="formats to measure (default: all)")
    parsers["files"].add_argument(
        "--events", type=count, default=4_000_000, metavar="N", help="events per file (default 4,000,000)"
    )
    parsers["train"].add_argument(
        "--models",
        type=names,
        metavar="A,B",
        help="compare these models with the first and with their arithmetic, in processor time, on each of --tasks "
        "(default: walker2d)",
    )
    parsers["train"].add_argument(
        "--preset",
        choices=("paper", "ours", "both"),
        default="paper",
        help="paper: the paper's models on random vectors; ours: our models on random data like those of their tasks",
    )
    parsers["block"].add_argument(
        "--shapes",
        type=shapes(4, "16x1024x64x16"),
        metavar="BxLxHxP,…",
        help="measure factored blocks of these shapes (batch, length, width, state) instead of the four default cases",
    )
    parsers["scan"].add_argument(
        "--shapes", type=shapes(3, "8x4096x16"), metavar="BxLxP,…", help="shapes to measure: batch, length, state"
    )


def run(options: argparse.Namespace) -> None:
    """Measure and print each row as it is done, or write the page."""
    if options.benchmark == "page":
        _write_page(options)
    else:
        _measure(options)


def _write_page(options: argparse.Namespace) -> None:
    from s7.bench.page import write

    for path in write(options.files, options.out, options.line):
        print(json.dumps({"written": str(path)}) if options.json else path)


def _measure(options: argparse.Namespace) -> None:
    from s7 import progress

    prepare = {
        "layer": _layer,
        "block": _block,
        "scan": _scan,
        "train": _train,
        "stream": _stream,
        "files": _files,
    }[options.benchmark]
    with progress.status(spinner=False) as status:
        _print_rows(options, prepare(options, status.update), status.update)
    if options.out and not options.json:
        print(f"saved: {options.out}")


def _print_rows(options: argparse.Namespace, measure: "Measurement", say: "Say") -> None:
    from s7.bench.machine import describe
    from s7.bench.records import to_lines
    from s7.bench.table import Table
    from s7.storage import write_atomically

    say("measuring matrix multiplication")
    name = "models" if getattr(options, "models", None) else options.benchmark
    machine = describe(options.line, clock=time.process_time if name == "models" else time.perf_counter)
    table = Table(name, omit=() if getattr(options, "memory", True) else ("memory_mb",))
    if options.json:
        print(json.dumps(machine), flush=True)
    else:
        cores = f"{machine['threads']} of {machine['cores']} cores"
        rate = f"sgemm {machine['sgemm_gflops']:.0f} GFLOP/s"
        print(f"{machine['processor']}, {cores}, JAX {machine['versions']['jax']}, {rate}")
        print(table.head(), flush=True)
    rows = []
    for row in measure():
        rows.append(row)
        print(json.dumps(row) if options.json else table.line(row), flush=True)
        if options.out:  # after every row, so that an interrupted benchmark keeps its rows
            write_atomically(options.out, to_lines(machine, rows).encode())


Measurement = Callable[[], Iterator[dict[str, Any]]]
Say = Callable[[str], None]


def _layer(options: argparse.Namespace, say: Say) -> Measurement:
    from s7.bench import cases, layer, torch_layer
    from s7.machine import keep_compiled_code

    if options.shapes and options.quick:
        raise ValueError("--shapes and --quick cannot be combined")
    if options.shapes or options.quick:
        for name in ("tasks", "lengths"):
            if getattr(options, name) is not None:
                raise ValueError(f"--{name}: selects among the paper's layers; omit it with --shapes or --quick")
        chosen = cases.shape_cases(options.shapes or cases.QUICK)
    else:
        chosen = cases.paper_cases(options.tasks, options.lengths or cases.LENGTHS)
    keep_compiled_code()
    baseline = torch_layer.find()
    if baseline is None:
        print(torch_layer.MISSING, file=sys.stderr)
    settings = {"runs": options.runs, "memory": options.memory, "baseline": baseline, "say": say}
    return lambda: layer.rows(chosen, **settings)


def _scan(options: argparse.Namespace, say: Say) -> Measurement:
    from s7.bench import scan
    from s7.machine import keep_compiled_code

    keep_compiled_code()
    return lambda: scan.rows(options.shapes or scan.SHAPES, runs=options.runs, say=say)


def _block(options: argparse.Namespace, say: Say) -> Measurement:
    from s7.bench import block
    from s7.machine import keep_compiled_code

    chosen = block.shape_cases(options.shapes) if options.shapes else block.CASES
    keep_compiled_code()
    return lambda: block.rows(chosen, runs=options.runs, say=say)


def _train(options: argparse.Namespace, say: Say) -> Measurement:
    import jax

    from s7.bench import train
    from s7.machine import keep_freed_memory

    if options.models:
        return _models(options, say)
    presets = ("paper", "ours") if options.preset == "both" else (options.preset,)
    tasks = train.preset_tasks(presets, options.tasks)
    # As in `s7 train`, except that compiled code is not cached: compilation is timed.
    keep_freed_memory()
    jax.config.update("jax_enable_compilation_cache", False)
    settings = {"lengths": options.lengths or (None,), "runs": options.runs, "say": say}
    return lambda: chain.from_iterable(train.rows(tasks[preset], preset=preset, **settings) for preset in presets)


def _models(options: argparse.Namespace, say: Say) -> Measurement:
    from s7.baselines import find_architecture
    from s7.bench import models, train
    from s7.machine import keep_compiled_code, keep_freed_memory

    if "preset" in options.given and options.preset != "ours":
        raise ValueError(f"--preset {options.preset}: --models are measured with the preset ours; omit --preset")
    for name in options.models:
        find_architecture(name)
    tasks = train.preset_tasks(["ours"], options.tasks or ["walker2d"])["ours"]
    if len(options.lengths or [None]) > 1:
        raise ValueError("--lengths: give one length with --models")
    keep_freed_memory()
    keep_compiled_code()
    length = options.lengths[0] if options.lengths else None
    settings = {"length": length, "runs": options.runs, "say": say}
    return lambda: chain.from_iterable(models.rows(task, options.models, **settings) for task in tasks)


def _stream(options: argparse.Namespace, say: Say) -> Measurement:
    from s7.bench import cases, stream
    from s7.machine import keep_compiled_code

    pooled = [task for task in stream.POOLED if options.tasks is None or task in options.tasks]
    tasks = None if options.tasks is None else [task for task in options.tasks if task != "nmnist"]
    tasks = [] if tasks == [] else cases.paper_tasks(tasks)  # N-MNIST is not one of the paper's
    keep_compiled_code()
    return lambda: stream.rows(tasks, pooled=pooled, runs=options.runs, say=say)


def _files(options: argparse.Namespace, say: Say) -> Measurement:
    from s7.bench import files

    return lambda: files.rows(options.formats, events=options.events, runs=options.runs, say=say)
