"""s7 bench: how fast this machine computes, each backend beside the others and beside plain versions.

`layer`, `scan`, `train` and `stream` measure; `page` makes a Markdown page of what they saved with --out.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

SUMMARIES = {
    "layer": "one layer, forward and backward, beside a version that writes out B_k and C_k",
    "scan": "the recurrence alone, beside JAX's scans and a copy of its memory",
    "train": "whole training steps of the paper's models",
    "stream": "one event at a time, and chunks of them",
    "page": "a Markdown page with tables and figures, from files that --out saved",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    kinds = parser.add_subparsers(metavar="benchmark", dest="benchmark", required=True)
    parsers = {name: kinds.add_parser(name, help=text, description=text) for name, text in SUMMARIES.items()}
    page = parsers.pop("page")
    page.add_argument("files", type=Path, nargs="+", metavar="FILE", help="saved by s7 bench … --out")
    page.add_argument("--out", type=Path, required=True, metavar="PAGE", help="the page, such as docs/speed.md")
    for name, one in parsers.items():
        if name != "scan":
            one.add_argument("--tasks", metavar="A,B", help="only the paper's settings for these (default: for all)")
        if name in ("layer", "train"):
            lengths = "256,2048,16384,131072" if name == "layer" else "1024"
            one.add_argument("--lengths", metavar="N,N", help=f"of the sequences (default {lengths})")
        one.add_argument("--runs", type=int, default=10, metavar="N", help="of which the best counts (default 10)")
        one.add_argument("--out", type=Path, metavar="FILE", help="save it as JSON lines, for s7 bench page")
    layer = parsers["layer"]
    layer.add_argument("--shapes", metavar="BxLxHxP,…", help="default layers of these shapes instead of the paper's")
    layer.add_argument("--quick", action="store_true", help="default layers of four shapes instead of the paper's")
    layer.add_argument("--memory", action="store_true", help="also peak memory: twice the time")
    parsers["scan"].add_argument("--shapes", metavar="BxLxP,…", help="batch, length and state")
    # Here too, for people write it last; without a default, or it would undo one that was given first.
    for one in (*parsers.values(), page):
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="write JSON lines for machines")


def run(options: argparse.Namespace) -> None:
    """Measures, showing each row as it comes; or makes the page."""
    if options.benchmark == "page":
        from s7.bench.page import write

        written = write(options.files, options.out, options.line)
        for path in written:
            print(json.dumps({"written": str(path)}) if options.json else path)
        return
    if options.runs < 1:
        raise ValueError(f"--runs {options.runs}: must be at least 1")
    progress = _Progress(sys.stderr)
    measure = {"layer": _layer, "scan": _scan, "train": _train, "stream": _stream}[options.benchmark](options, progress)

    from s7.bench.machine import describe
    from s7.bench.records import to_lines
    from s7.bench.table import Table
    from s7.storage import write_atomically

    progress("multiplying matrices")
    machine = describe(options.line)
    table = Table(options.benchmark, memory=getattr(options, "memory", False))
    if options.json:
        print(json.dumps(machine), flush=True)
    else:
        progress.clear()
        cores = f"{machine['threads']} of {machine['cores']} cores"
        rate = f"sgemm {machine['sgemm_gflops']:.0f} GFLOP/s"
        print(f"{machine['processor']}, {cores}, JAX {machine['versions']['jax']}, {rate}")
        print(table.head(), flush=True)
    rows = []
    for row in measure():
        rows.append(row)
        progress.clear()
        print(json.dumps(row) if options.json else table.line(row), flush=True)
        if options.out:  # each time: a run that is stopped keeps what it has
            write_atomically(options.out, to_lines(machine, rows).encode())
    progress.clear()
    if options.out and not options.json:
        print(f"saved: {options.out}")


Measurement = Callable[[], Iterator[dict[str, Any]]]


def _layer(options: argparse.Namespace, progress: "_Progress") -> Measurement:
    from s7.bench import cases, layer, torch_layer
    from s7.training.machine import keep_compiled_code

    chosen = [name for name in ("tasks", "lengths") if getattr(options, name) is not None]
    if options.shapes and options.quick:
        raise ValueError("--shapes, --quick: give one of them")
    if (options.shapes or options.quick) and chosen:
        raise ValueError(f"--{chosen[0]}: goes with the paper's layers, not with --shapes or --quick")
    if options.shapes:
        wanted = cases.shape_cases(_shapes(options.shapes, 4, "8x4096x48x8"))
    elif options.quick:
        wanted = cases.shape_cases(cases.QUICK)
    else:
        wanted = cases.paper_cases(_names(options.tasks), _lengths(options.lengths) or cases.LENGTHS)
    keep_compiled_code()
    peer = torch_layer.find()
    if peer is None:
        print(torch_layer.MISSING, file=sys.stderr)
    settings = {"runs": options.runs, "memory": options.memory, "peer": peer, "say": progress}
    return lambda: layer.rows(wanted, **settings)


def _scan(options: argparse.Namespace, progress: "_Progress") -> Measurement:
    from s7.bench import scan
    from s7.training.machine import keep_compiled_code

    shapes = _shapes(options.shapes, 3, "8x4096x16") if options.shapes else scan.SHAPES
    keep_compiled_code()
    return lambda: scan.rows(shapes, runs=options.runs, say=progress)


def _train(options: argparse.Namespace, progress: "_Progress") -> Measurement:
    from s7.bench import cases, train
    from s7.training.machine import keep_freed_memory

    tasks, lengths = cases.paper_tasks(_names(options.tasks)), _lengths(options.lengths) or (train.LENGTH,)
    # As `s7 train` does; but compiled code is not kept, for compiling is timed.
    keep_freed_memory()
    return lambda: train.rows(tasks, lengths, runs=options.runs, say=progress)


def _stream(options: argparse.Namespace, progress: "_Progress") -> Measurement:
    from s7.bench import cases, stream
    from s7.training.machine import keep_compiled_code

    tasks = cases.paper_tasks(_names(options.tasks))
    keep_compiled_code()
    return lambda: stream.rows(tasks, runs=options.runs, say=progress)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _lengths(text: str | None) -> Sequence[int] | None:
    if text is None:
        return None
    if not all(_is_count(word) for word in text.split(",")):
        raise ValueError(f"--lengths {text}: expected whole numbers, such as 256,2048")
    return [int(word) for word in text.split(",")]


def _shapes(text: str, count: int, example: str) -> list[tuple[int, ...]]:
    """`8x4096x48x8,…` as numbers, so many in each."""
    for shape in text.split(","):
        words = shape.split("x")
        if len(words) != count or not all(map(_is_count, words)):
            raise ValueError(f"--shapes {shape}: expected {count} whole numbers, such as {example}")
    return [tuple(map(int, shape.split("x"))) for shape in text.split(",")]


def _is_count(word: str) -> bool:
    return word.strip().isdecimal() and int(word) > 0


class _Progress:
    """What is being done, in one line of a terminal that rewrites itself; nothing elsewhere."""

    def __init__(self, stream: Any):
        self.stream = stream

    def __call__(self, text: str) -> None:
        """Shows it in place of what was there."""
        if self.stream.isatty():
            width = shutil.get_terminal_size().columns
            print(f"\r{text[: width - 1]}\033[K", end="", file=self.stream, flush=True)

    def clear(self) -> None:
        """Before a line that stays."""
        self("")
