"""The C library against JAX, over long streams: `python -m benchmarks.edge golden` and `... soak`.

`golden` exports the model of each preset with new parameters, runs the library on random events, and compares its
answers with those of JAX, with gaps and without, every 10,000 events. `soak` runs one stream for as long as asked and
compares it with the same model in double precision; the resident memory must not grow.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import s7
from benchmarks.edge_models import preset_model, preset_names
from s7.export.edge import MODEL, random_events, write_edge
from s7.export.runtime import EdgeModel, EdgeStream

TOLERANCE = 1e-5
CHUNK = 10_000
# A soak repeats this many events, a multiple of the chunk and of all strides.
PERIOD = 640_000
# Periods between two lines of a soak.
REPORT = 50
# Resident memory may vary by this much after the first period, in bytes.
SLACK = 8 << 20


class Comparison(NamedTuple):
    """A number of events, the largest relative difference of answers, and microseconds per event in the library."""

    events: int
    worst: float
    microseconds: float


def compare(model: s7.S7Model, edge: EdgeModel, count: int, timed: bool) -> Comparison:
    """Run a stream in the library and in JAX, and compare their answers after each chunk.

    Args:
        model: The model in JAX.
        edge: The model in the library.
        count: The number of events, rounded up to whole chunks.
        timed: Whether the events have gaps.
    """
    advance = eqx.filter_jit(lambda model, events, state, dt: model.advance(events, state, dt)[1])
    read = eqx.filter_jit(lambda model, state: model.readout(state))
    state, stream = model.init_state(), EdgeStream(edge)
    worst, largest, seconds = 0.0, 0.0, 0.0
    for number in range(-(-count // CHUNK)):
        events, gaps = random_events(model, CHUNK, seed=number)
        dt = gaps if timed else None
        start = time.perf_counter()
        stream.push(events.reshape(CHUNK, -1) if edge.inputs else events, dt)
        seconds += time.perf_counter() - start
        state = advance(model, events, state, dt)
        wanted = np.asarray(read(model, state))
        largest = max(largest, float(np.abs(wanted).max()))
        worst = max(worst, float(np.abs(stream.answer() - wanted).max()) / largest)
    return Comparison(stream.events, worst, seconds / stream.events * 1e6)


def golden(options: argparse.Namespace) -> int:
    """Compare the library with JAX for the presets. Returns the number of comparisons that differ too much."""
    failed = 0
    for task, name in preset_names():
        where = f"{task}/{name}"
        if options.presets and where not in options.presets:
            continue
        for timed in (True, False):
            try:
                model = preset_model(task, name, timed)
                edge = exported(model, options.library)
            except ValueError as error:
                print(f"{where}: not compared, {error}", flush=True)
                break
            last = compare(model, edge, options.events, timed)
            failed += not last.worst <= TOLERANCE
            print(
                f"{where}, {'with' if timed else 'without'} gaps: {last.events:,} events, largest difference "
                f"{last.worst:.1e} of the largest output, {last.microseconds:.2f} us per event in the library",
                flush=True,
            )
    print(f"{failed} differ by more than {TOLERANCE:.0e}")
    return failed


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
    double = in_double(model)
    advance = eqx.filter_jit(lambda double, events, state, dt: double.advance(events, state, dt)[1])
    read = eqx.filter_jit(lambda double, state: double.readout(state))
    state, answers = double.init_state(), []
    for events, gaps in chunks:
        state = advance(double, events, state, gaps)
        answers.append(np.asarray(read(double, state)))
    return answers


def _relative(answer: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(answer - wanted).max() / np.abs(wanted).max())


def exported(model: s7.S7Model, library: str | None) -> EdgeModel:
    """The model in the library, through its file."""
    with tempfile.TemporaryDirectory() as folder:
        write_edge(model, Path(folder))
        return EdgeModel(Path(folder) / MODEL, library)


def in_double(model: s7.S7Model) -> s7.S7Model:
    """The model with the same parameters in double precision."""
    double = s7.S7Model(replace(model.config, dtype="float64"), key=jax.random.key(0))
    parameters, rest = eqx.partition(double, eqx.is_inexact_array)
    values = [q.astype(jnp.float64) for q in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(parameters), values), rest)


def resident_bytes() -> int:
    """The resident memory of this process, from /proc."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def main() -> int:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("golden", "soak"))
    parser.add_argument("--events", type=float, default=1e6, help="number of events (default: 1e6)")
    parser.add_argument("--library", help="path of libs7.so (default: that of the package)")
    parser.add_argument(
        "--presets", nargs="+", metavar="TASK/PRESET", help="presets (default: all for golden, nmnist/ours for soak)"
    )
    options = parser.parse_args()
    options.events = int(options.events)
    jax.config.update("jax_enable_x64", options.what == "soak")
    return min((golden if options.what == "golden" else soak)(options), 1)


if __name__ == "__main__":
    raise SystemExit(main())
