"""The C library against JAX: `python -m benchmarks.edge golden`, `... rounding` and `... soak`.

`golden` exports the model of each preset, runs the library on random events, and compares its answers with those of
JAX, with gaps and without, every 10,000 events. Parameters are new; the running statistics of batch norms are those
of random events. Where the answers differ by more than 1e-5, the comparison ends, and both are compared with double
precision on the events so far.
`rounding` compares the rounding errors of the library and of JAX over many short streams.
`soak` runs one stream for as long as asked and compares it with the same model in double precision; the resident
memory must not grow.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

import s7
from benchmarks.edge_models import preset_model, preset_names
from s7.backend_selection import backend
from s7.export.edge import MODEL, in_double, random_events, write_edge
from s7.export.runtime import EdgeModel, EdgeStream

TOLERANCE = 1e-5
CHUNK = 10_000
# `rounding` runs this many streams of this many events.
STREAMS, SHORT = 48, 256
# A soak repeats this many events, a multiple of the chunk and of all strides.
PERIOD = 640_000
# Periods between two lines of a soak.
REPORT = 50
# Resident memory may vary by this much after the first period, in bytes.
SLACK = 8 << 20


class LibraryStream:
    """A stream in the library."""

    def __init__(self, edge: EdgeModel):
        self._stream = EdgeStream(edge)
        self._rows = bool(edge.inputs)

    def push(self, events: np.ndarray, dt: np.ndarray | None) -> None:
        """Read events."""
        self._stream.push(events.reshape(len(events), -1) if self._rows else events, dt)

    def answer(self) -> np.ndarray:
        """The answer for all events so far."""
        return self._stream.answer()


class JaxStream:
    """A stream in JAX, in the precision of the model."""

    _advance = staticmethod(eqx.filter_jit(lambda model, events, state, dt: model.advance(events, state, dt)[1]))
    _read = staticmethod(eqx.filter_jit(lambda model, state: model.readout(state)))

    def __init__(self, model: s7.S7Model):
        self._model, self._state = model, model.init_state()

    def push(self, events: np.ndarray, dt: np.ndarray | None) -> None:
        """Read events."""
        self._state = self._advance(self._model, events, self._state, dt)

    def answer(self) -> np.ndarray:
        """The answer for all events so far."""
        return np.asarray(self._read(self._model, self._state))


def compare(
    model: s7.S7Model, stream: Any, reference: JaxStream, count: int, timed: bool, most: float = float("inf")
) -> tuple[float, int]:
    """Run two streams on the same random events and compare their answers after each chunk.

    Args:
        model: The model, for the kind of its inputs.
        stream: A stream in the library or in JAX.
        reference: The stream to compare it with.
        count: The number of events, rounded up to whole chunks.
        timed: Whether the events have gaps.
        most: The difference after which the streams end.

    Returns:
        The largest difference, relative to the largest answer of the reference so far, and the number of events.
    """
    worst, largest, number = 0.0, 0.0, 0
    while number * CHUNK < count and worst <= most:
        events, gaps = random_events(model, CHUNK, seed=number)
        dt = gaps if timed else None
        stream.push(events, dt)
        reference.push(events, dt)
        wanted = reference.answer()
        largest = max(largest, float(np.abs(wanted).max()))
        difference = float(np.abs(stream.answer() - wanted).max()) / largest
        worst = max(worst, difference) if np.isfinite(difference) else float("inf")
        number += 1
    return worst, number * CHUNK


def golden(options: argparse.Namespace) -> int:
    """Compare the library with JAX for the presets.

    Returns:
        The number of comparisons in which the library differs from double precision by more than 1e-5 and by more than
        ten times as much as JAX.
    """
    failed = differ = 0
    print("| preset | gaps | events | library and JAX | JAX and float64 | library and float64 |")
    print("|---|---|---|---|---|---|", flush=True)
    for task, name in preset_names():
        where = f"{task}/{name}"
        if options.presets and where not in options.presets:
            continue
        for timed in (True, False):
            try:
                model = preset_model(task, name, timed, options.norm)
                edge = exported(model, options.library)
            except ValueError as error:
                print(f"{where}: not compared, {error}", flush=True)
                break
            worst, count = compare(model, LibraryStream(edge), JaxStream(model), options.events, timed, TOLERANCE)
            numbers = [worst]
            if not worst <= TOLERANCE:
                for stream in (JaxStream(model), LibraryStream(edge)):
                    numbers.append(compare(model, stream, JaxStream(in_double(model)), count, timed)[0])
                differ += 1
                failed += not numbers[2] <= max(TOLERANCE, 10 * numbers[1])
            columns = [f"{number:.1e}" for number in numbers] + ["–"] * (3 - len(numbers))
            print(f"| {where} | {'yes' if timed else 'no'} | {count:,} | {' | '.join(columns)} |", flush=True)
    print(f"{differ} differ by more than {TOLERANCE:.0e}; in {failed} of them the library is far less exact than JAX")
    return failed


def rounding(options: argparse.Namespace) -> int:
    """Print the median rounding errors of JAX and of the library over short streams of random events.

    Returns:
        The number of rows in which the library's error is more than twice that of JAX.
    """
    worse = 0
    run = eqx.filter_jit(lambda model, events, dt: model.readout(model.advance(events, model.init_state(), dt)[1]))
    print("| preset | gaps | JAX | library, arrays | library, single events |\n|---|---|---|---|---|", flush=True)
    for where in options.presets or ["dvs-gesture/paper", "shd/paper"]:
        for timed in (True, False):
            task, _, name = where.partition("/")
            model = preset_model(task, name, timed)
            double, edge = in_double(model), exported(model, options.library)
            errors = []
            for seed in range(STREAMS):
                events, gaps = random_events(model, SHORT, seed=1000 + seed)
                dt = gaps if timed else None
                with backend("xla"):
                    exact, single = (np.asarray(run(q, events, dt)) for q in (double, model))
                answers = [single, *(_library_answer(edge, events, dt, part) for part in (SHORT, 1))]
                errors.append([_relative(answer, exact) for answer in answers])
            of_jax, *of_library = np.median(errors, 0)
            worse += max(of_library) > 2 * of_jax
            numbers = " | ".join(f"{q:.1e}" for q in (of_jax, *of_library))
            print(f"| {where} | {'yes' if timed else 'no'} | {numbers} |", flush=True)
    return worse


def _library_answer(edge: EdgeModel, events: np.ndarray, dt: np.ndarray | None, part: int) -> np.ndarray:
    """The library's answer after all events, pushed in arrays of `part` events."""
    stream = LibraryStream(edge)
    for first in range(0, len(events), part):
        stream.push(events[first : first + part], None if dt is None else dt[first : first + part])
    return stream.answer()


def soak(options: argparse.Namespace) -> int:
    """Run one long stream of events that repeat with a period. Returns 1 if it drifts or if the memory grows.

    A state forgets, so in double precision all periods but the first add the same to the mean that the answer is
    computed from. The answers after two periods therefore tell those after any number of them. The third is computed
    too, to check this.
    """
    task, _, name = (options.presets or ["nmnist/ours"])[0].partition("/")
    model = preset_model(task, name)
    if not isinstance(model.config.head, s7.Mean) or PERIOD % model.stride:
        raise ValueError(f"{task}/{name}: soak needs a mean over events, and windows that end with the period")
    edge = exported(model, options.library)
    chunks = [random_events(model, CHUNK, seed=number) for number in range(PERIOD // CHUNK)]
    first, second, third = _double_answers(model, chunks * 3)[len(chunks) - 1 :: len(chunks)]
    expected = lambda periods: second + (periods - 2) / periods * (second - first)  # noqa: E731
    print(f"double precision: the third answer is known from two up to {_relative(expected(3), third):.1e}", flush=True)
    stream, start, memory, worst = EdgeStream(edge), time.perf_counter(), 0, 0.0
    for period in range(1, -(-options.events // PERIOD) + 1):
        for chunk in chunks:
            stream.push(*chunk)
        difference = _relative(stream.answer(), expected(period))
        worst, resident = max(worst, difference), resident_bytes()
        memory = memory or resident
        if period % REPORT == 0 or period in (1, 2, 3, 10) or stream.events >= options.events:
            print(
                f"{stream.events:,} events, {time.perf_counter() - start:.0f} s: difference {difference:.1e}, largest "
                f"{worst:.1e}; resident {resident / 2**20:.1f} MB, {(resident - memory) / 2**20:+.1f} MB",
                flush=True,
            )
        if not worst <= TOLERANCE or resident > memory + SLACK:
            print("the memory grows" if worst <= TOLERANCE else "the stream drifts")
            return 1
    return 0


def _double_answers(model: s7.S7Model, chunks: list[tuple[np.ndarray, np.ndarray]]) -> list[np.ndarray]:
    """The answers in double precision after each of these chunks of events and gaps."""
    stream, answers = JaxStream(in_double(model)), []
    for events, gaps in chunks:
        stream.push(events, gaps)
        answers.append(stream.answer())
    return answers


def _relative(answer: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(answer - wanted).max() / np.abs(wanted).max())


def exported(model: s7.S7Model, library: str | None) -> EdgeModel:
    """The model in the library, through its file."""
    with tempfile.TemporaryDirectory() as folder:
        write_edge(model, Path(folder))
        return EdgeModel(Path(folder) / MODEL, library)


def resident_bytes() -> int:
    """The resident memory of this process, from /proc."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def main() -> int:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("golden", "rounding", "soak"))
    parser.add_argument("--events", type=float, default=1e6, help="number of events (default: 1e6)")
    parser.add_argument("--library", help="path of libs7.so (default: that of the package)")
    parser.add_argument(
        "--presets",
        nargs="+",
        metavar="TASK/PRESET",
        help="presets (default: all for golden, dvs-gesture/paper and shd/paper for rounding, nmnist/ours for soak)",
    )
    parser.add_argument("--norm", help="for golden: the norm in place of that of the presets, such as layer")
    options = parser.parse_args()
    options.events = int(options.events)
    jax.config.update("jax_enable_x64", True)
    return min({"golden": golden, "rounding": rounding, "soak": soak}[options.what](options), 1)


if __name__ == "__main__":
    raise SystemExit(main())
