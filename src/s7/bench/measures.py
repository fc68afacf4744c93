"""The columns and measurements of each benchmark, for the terminal and the page."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Row = dict[str, Any]


class Column(NamedTuple):
    """A property of a case."""

    title: str
    text: Callable[[Row], str]


class Measure(NamedTuple):
    """A measured number.

    Attributes:
        field: Its field in a row.
        name: Its name on the page.
        head: Its column title on a terminal.
        ratio: The field with its ratio to the first implementation.
        paged: Whether the page shows it. Numbers that follow from others are shown on terminals only.
    """

    field: str
    name: str
    head: str
    ratio: str | None = None
    paged: bool = True


class Benchmark(NamedTuple):
    """The columns that identify a case, and the measured numbers."""

    title: str
    case: tuple[Column, ...]
    measures: tuple[Measure, ...]

    def key(self, row: Row) -> tuple[str, ...]:
        """Return the values of the case's columns, which all rows of one case share."""
        return tuple(column.text(row) for column in self.case)


def _layer_name(row: Row) -> str:
    return ", ".join(row["tasks"]) or "layer"


_LENGTH = Column("L", lambda row: f"{row['length']:,}" if "length" in row else "")
_BATCH = Column("batch", lambda row: str(row.get("batch", "")))
_WIDTH = Column("H", lambda row: str(row["width"]))
_STATE = Column("P", lambda row: str(row["state"]))
_TASK = Column("task", lambda row: row["task"])
_DEPTH = Column("depth", lambda row: str(row["depth"]))

# The times of one layer or block over a batch.
_FORWARD = (
    Measure("forward_ns", "Forward, ns per step", "fwd ns", "forward_ratio"),
    Measure("forward_gflops", "Forward, GFLOP/s", "GFLOP/s", paged=False),
    Measure("forward_of_sgemm", "Forward, rate relative to sgemm", "/sgemm"),
)
_GRADIENT = (
    Measure("gradient_ns", "Forward and backward, ns per step", "f+b ns", "gradient_ratio"),
    Measure("gradient_gflops", "Forward and backward, GFLOP/s", "GFLOP/s", paged=False),
    Measure("gradient_of_sgemm", "Forward and backward, rate relative to sgemm", "/sgemm"),
)

BENCHMARKS = {
    "layer": Benchmark(
        "The layer",
        (Column("task", _layer_name), _BATCH, _LENGTH, _WIDTH, _STATE, Column("D", lambda row: row["D"])),
        (
            *_FORWARD,
            *_GRADIENT,
            Measure("memory_mb", "Peak memory of forward and backward, MB above the import", "MB"),
        ),
    ),
    "block": Benchmark(
        "The block",
        (Column("block", lambda row: row["case"]), _BATCH, _LENGTH, _WIDTH, _STATE),
        (
            *_FORWARD,
            *_GRADIENT,
            Measure("dropout_share", "Share of dropout in forward and backward", "dropout"),
            Measure("thread_speedup", "Speed-up of forward and backward from one thread to all", "threads"),
        ),
    ),
    "scan": Benchmark(
        "The recurrence alone",
        (Column("numbers", lambda row: row["number"]), _BATCH, _LENGTH, _STATE),
        (
            Measure("forward_ns", "Forward, ns per step", "fwd ns", "forward_ratio"),
            Measure("forward_gb_per_s", "Forward, GB/s", "GB/s", paged=False),
            Measure("gradient_ns", "Forward and backward, ns per step", "f+b ns", "gradient_ratio"),
            Measure("gradient_gb_per_s", "Forward and backward, GB/s", "GB/s", paged=False),
        ),
    ),
    "train": Benchmark(
        "Training steps",
        (_TASK, Column("preset", lambda row: row.get("preset", "paper")), _DEPTH, _WIDTH, _STATE, _BATCH, _LENGTH),
        (
            Measure("step_ms", "Training step, ms", "step ms", "step_ratio"),
            Measure("steps_per_s", "Steps per second", "steps/s", paged=False),
            Measure("step_of_sgemm", "Training step, rate relative to sgemm", "/sgemm"),
            Measure("compile_s", "Compilation of a step, s", "compile s"),
            Measure("memory_mb", "Memory of the step's program, MB", "MB"),
        ),
    ),
    "models": Benchmark(
        "Training steps of other models",
        (_TASK, _BATCH, _LENGTH),
        (
            Measure("step_ms", "Step, ms of processor time", "step ms"),
            Measure("step_relative", "Time relative to the first model", "relative"),
            Measure("step_mflop", "Million operations", "Mflop"),
            Measure("step_of_sgemm", "Rate relative to sgemm", "/sgemm"),
            Measure("slowness", "Time relative to its arithmetic at a fifth of sgemm", "× bar"),
        ),
    ),
    "stream": Benchmark(
        "Event by event",
        (
            _TASK,
            Column("part", lambda row: row["part"]),
            _DEPTH,
            _WIDTH,
            _STATE,
            Column("mode", lambda row: row["mode"]),
        ),
        (
            Measure("event_us", "Time per event, µs", "event µs", "event_ratio"),
            Measure("event_p50_us", "Median of single calls, µs", "p50"),
            Measure("event_p99_us", "99th percentile of single calls, µs", "p99"),
            Measure("event_p99.9_us", "99.9th percentile of single calls, µs", "p99.9"),
            Measure("event_tail", "99.9th percentile relative to the median", "p99.9/50"),
            Measure("event_own_p50_us", "Median of single calls without interruptions, µs", "own p50"),
            Measure("event_own_p99.9_us", "99.9th percentile of single calls without interruptions, µs", "own 99.9"),
            Measure("event_own_tail", "99.9th percentile relative to the median, without interruptions", "own tail"),
        ),
    ),
    "files": Benchmark(
        "Event files",
        (
            Column("format", lambda row: row["format"]),
            Column("events", lambda row: f"{row['events']:,}"),
            Column("MB", lambda row: f"{row['bytes'] / 1e6:.1f}"),
        ),
        (
            Measure("million_events_per_s", "Million events per second", "M ev/s"),
            Measure("mb_per_s", "MB per second", "MB/s"),
        ),
    ),
}


def implementations_of(rows: Sequence[Row]) -> list[str]:
    """Return the implementations in these rows, in order of appearance."""
    return list(dict.fromkeys(row["implementation"] for row in rows))
