"""The C library against JAX, over long streams: `python -m benchmarks.edge golden` and `... soak`.

`golden` exports the model of each preset with new parameters, runs the library on random events, and compares its
answers with those of JAX, with gaps and without. `soak` runs one stream for as long as asked and compares it with the
same model in double precision; the resident memory must not grow. Both compare after every chunk of events.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
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
# Chunks of events between two lines of a soak.
REPORT = 100
# The resident memory of this process, most of which is JAX's, may vary by this much after the first report, in bytes.
SLACK = 64 << 20


class Comparison(NamedTuple):
    """The state of a comparison: events so far, the relative difference of the last answer and the worst so far."""

    events: int
    difference: float
    worst: float
    microseconds: float  # per event, in the library


def compare(model: s7.S7Model, reference: s7.S7Model, edge: EdgeModel, count: int, timed: bool) -> Iterator[Comparison]:
    """Run a stream in the library and in JAX, and compare their answers after each chunk.

    Args:
        model: The model in the library, whose range the random events have.
        reference: The model that JAX runs.
        edge: The model in the library.
        count: The number of events, rounded up to whole chunks.
        timed: Whether the events have gaps.

    Yields:
        The comparison after each chunk.
    """
    advance = eqx.filter_jit(lambda reference, events, state, dt: reference.advance(events, state, dt)[1])
    read = eqx.filter_jit(lambda reference, state: reference.readout(state))
    state, stream = reference.init_state(), EdgeStream(edge)
    worst, largest, seconds = 0.0, 0.0, 0.0
    for number in range(-(-count // CHUNK)):
        events, gaps = random_events(model, CHUNK, seed=number)
        dt = gaps if timed else None
        start = time.perf_counter()
        stream.push(events.reshape(CHUNK, -1) if edge.inputs else events, dt)
        seconds += time.perf_counter() - start
        state = advance(reference, events, state, dt)
        wanted = np.asarray(read(reference, state))
        largest = max(largest, float(np.abs(wanted).max()))
        difference = float(np.abs(stream.answer() - wanted).max()) / largest
        worst = max(worst, difference)
        yield Comparison(stream.events, difference, worst, seconds / stream.events * 1e6)


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
            *_, last = compare(model, model, edge, options.events, timed)
            failed += not last.worst <= TOLERANCE
            print(
                f"{where}, {'with' if timed else 'without'} gaps: {last.events:,} events, largest difference "
                f"{last.worst:.1e} of the largest output, {last.microseconds:.2f} us per event in the library",
                flush=True,
            )
    print(f"{failed} differ by more than {TOLERANCE:.0e}")
    return failed


def soak(options: argparse.Namespace) -> int:
    """Run one long stream. Returns 1 if it drifts or if the memory grows."""
    task, _, name = (options.presets or ["nmnist/ours"])[0].partition("/")
    model = preset_model(task, name)
    edge = exported(model, options.library)
    start, memory = time.perf_counter(), 0
    for number, now in enumerate(compare(model, in_double(model), edge, options.events, timed=True), 1):
        if number % REPORT and now.events < options.events:
            continue
        resident = resident_bytes()
        memory = memory or resident
        print(
            f"{now.events:,} events, {time.perf_counter() - start:.0f} s: difference from double precision "
            f"{now.difference:.1e}, largest {now.worst:.1e}; resident {resident / 2**20:.1f} MB, "
            f"{(resident - memory) / 2**20:+.1f} MB; {now.microseconds:.2f} us per event in the library",
            flush=True,
        )
        if not now.worst <= TOLERANCE or resident > memory + SLACK:
            print("the stream drifts" if now.worst > TOLERANCE else "the memory grows")
            return 1
    return 0


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
