"""Streaming inference: microseconds per event through a layer and through a whole model.

`step` in a Python loop takes one event and waits for its answer, as a live stream does. In a `lax.scan` there is no
Python between events. `chunk` takes many events at once. `s7.Stream` does the same without JAX; in the loop it also
answers after each event. onnxruntime, if it is installed, runs the exported step on one thread in the same loop.

The mode "push" feeds `s7.Stream` events without asking for answers, with percentiles of single calls. In a model that
pools, the blocks above the first run once per window. `s7.Stream` runs one of these blocks at each of the events that
follow the end of a window, so that no event takes much longer than the others.

The same events are pushed several times from the same state. The shortest time at each position is what the event takes
by itself: an interruption by the machine rarely hits the same position every time. A wait of the same length in Python
shows the interruptions alone.
"""

import gc
import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np
from jax import lax

from s7 import native
from s7.bench.cases import INPUTS, ours_config, paper_config
from s7.bench.implementations import backend_names, require_agreement, under
from s7.bench.measures import Row
from s7.bench.timing import Run, best_of
from s7.export.onnx import NEXT, write_onnx
from s7.layer import S7Layer
from s7.model import S7Model
from s7.stream import Stream

ENGINE, ONNX, WAIT = "s7.Stream", "onnxruntime", "wait"
# Tasks with pooled models that read tokens. Their `ours` presets are measured too.
POOLED = ("nmnist", "dvs-gesture")
EVENTS = 1000
# Number of calls for percentiles, and how often they are measured. The series with the shortest tail counts: the other
# processes of a shared machine interrupt every series, but not equally often.
PUSHED, SERIES = 20_000, 8
PERCENTILES = (50, 99, 99.9)
# Number of events in the Python loop, which is slow enough to be timed with fewer.
LOOPED = 200
CHUNKS = (100, 1000)


def rows(
    tasks: Sequence[str],
    *,
    pooled: Sequence[str] = (),
    runs: int = 10,
    chunks: Sequence[int] = CHUNKS,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Row]:
    """Yield a row per task, layer or model, streaming mode and implementation.

    Args:
        tasks: Tasks whose `paper` model is measured.
        pooled: Tasks whose `ours` model is measured.
        runs: Repetitions, of which the fastest counts.
        chunks: Numbers of events per chunk.
        say: Called with a line about what is being done.

    Yields:
        Rows. Ratios are relative to the first implementation.
    """
    for task in tasks:
        # Layer norm instead of batch norm: with the running statistics of an untrained model, values would overflow.
        model = S7Model(replace(paper_config(task), norm="layer"), key=jax.random.key(0))
        layer = model.blocks[0].layer
        yield from _rows_of(task, "layer", layer, _vectors(model.config.width), runs, (), say)
        yield from _rows_of(task, "model", model, _vectors(INPUTS), runs, chunks, say)
    for task in pooled:
        model = S7Model(ours_config(task), key=jax.random.key(0))
        tokens = np.random.default_rng(0).integers(0, model.config.encoder.size, PUSHED)  # type: ignore[attr-defined]
        yield from _rows_of(f"{task} (ours)", "model", model, tokens.astype(np.int32), runs, chunks, say)


def _vectors(size: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((PUSHED, size), np.float32)


def _rows_of(task: str, part: str, streamed: Any, events: np.ndarray, runs: int, chunks, say) -> Iterator[Row]:
    """Yield the rows of one layer or model."""
    modes: list[tuple[str, int, Callable]] = [
        ("step in Python", LOOPED, _looped),
        ("step in a scan", EVENTS, _scanned),
    ]
    modes += [(f"chunk of {chunk}", chunk, _chunked) for chunk in chunks]
    depth = len(streamed.blocks) if part == "model" else 1
    config = streamed.config if part == "model" else streamed
    about = {"benchmark": "stream", "task": task, "part": part, "depth": depth}
    about |= {"width": config.width, "state": config.state}
    streams = part == "model" and native.available()
    for mode, count, make in modes:
        where = f"{task}, {part}, {mode}"
        implementations: dict[str, Run] = {}
        for backend in backend_names():
            say(f"{where}, compiling {backend}")
            implementations[backend] = make(streamed, events[:count], backend)
        if streams and make is not _scanned:
            implementations[ENGINE] = _engine(streamed, events[:count], one_by_one=make is _looped)
        if part == "model" and make is _looped and _has_onnx():
            implementations[ONNX] = _onnx(streamed, events[:count])
        answers = {name: run() for name, run in implementations.items()}
        require_agreement(answers, where)
        say(f"{where}, timing")
        seconds = best_of(runs, implementations)
        for name, took in seconds.items():
            ratio = took / next(iter(seconds.values()))
            yield about | {"mode": mode, "implementation": name, "event_us": took / count * 1e6, "event_ratio": ratio}
    if streams:
        say(f"{task}, {part}, timing single calls")
        series = _single_calls(streamed, events)
        pushed, own = _percentiles(_shortest_tail(series)), _percentiles(series.min(0))
        alone = {f"event_own{name.removeprefix('event')}": value for name, value in own.items()}
        yield about | {"mode": "push", "implementation": ENGINE, "event_ratio": None} | pushed | alone
        waits = [_timed_waits(len(events), int(pushed["event_p50_us"] * 1e3)) for _ in range(SERIES)]
        waited = _percentiles(_shortest_tail(np.stack(waits)))
        yield about | {"mode": "push", "implementation": WAIT, "event_ratio": None} | waited


def _engine(model: S7Model, events: np.ndarray, one_by_one: bool) -> Run:
    """Return a run of `s7.Stream` from the first event. The model is packed beforehand, as others are compiled."""
    stream = Stream(model)
    calls = list(events) if one_by_one else [events]

    def run() -> Any:
        stream.reset()
        for event in calls:
            stream.push(event)
            answer = stream.answer()
        return answer

    return run


def _has_onnx() -> bool:
    return all(importlib.util.find_spec(package) for package in ("onnx", "onnxruntime"))


def _onnx(model: S7Model, events: np.ndarray) -> Run:
    """Return a run of the exported step in onnxruntime from the first event."""
    import onnxruntime

    with TemporaryDirectory() as folder:
        path = Path(folder) / "step.onnx"
        write_onnx(model, path, gaps=False)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = settings.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    initial = {q.name: np.zeros(q.shape, np.float32) for q in session.get_inputs() if q.name != "event"}
    outputs = ["answer", *(NEXT + name for name in initial)]
    calls = list(events.astype(np.int64)[:, None] if events.ndim == 1 else events)

    def run() -> Any:
        state = list(initial.values())
        for event in calls:
            answer, *state = session.run(outputs, {"event": event, **dict(zip(initial, state, strict=True))})
        return answer

    return run


def _single_calls(model: S7Model, events: np.ndarray) -> np.ndarray:
    """Return the nanoseconds of each push with a gap, after a warm-up, for each series: (SERIES, events)."""
    stream = Stream(model)
    gaps = np.random.default_rng(1).exponential(1, len(events)).tolist()
    calls = list(zip(events.tolist() if events.ndim == 1 else events, gaps, strict=True))
    for event, gap in calls[: len(calls) // 10]:
        stream.push(event, gap)
    series = []
    collecting = gc.isenabled()
    gc.disable()  # a collection would be counted as part of whatever push it falls on
    try:
        for _ in range(SERIES):
            stream.reset()
            series.append(_timed_pushes(stream, calls))
    finally:
        if collecting:
            gc.enable()
    return np.stack(series)


def _shortest_tail(series: np.ndarray) -> np.ndarray:
    return min(series, key=lambda took: np.percentile(took, PERCENTILES[-1]))


def _timed_pushes(stream: Stream, calls: list[tuple[Any, float]]) -> np.ndarray:
    clock, took = time.perf_counter_ns, np.empty(len(calls), np.int64)
    for k, (event, gap) in enumerate(calls):
        start = clock()
        stream.push(event, gap)
        took[k] = clock() - start
    return took


def _timed_waits(count: int, nanoseconds: int) -> np.ndarray:
    """Return the nanoseconds that waits of this length take, with the clock read as around a push."""
    clock, took = time.perf_counter_ns, np.empty(count, np.int64)
    for k in range(count):
        start = clock()
        while clock() - start < nanoseconds:
            pass
        took[k] = clock() - start
    return took


def _percentiles(took: np.ndarray) -> Row:
    """Return the mean and percentiles of nanoseconds per call, in microseconds."""
    found = dict(zip(PERCENTILES, (np.percentile(took, PERCENTILES) / 1e3).tolist(), strict=True))
    row: Row = {"event_us": float(took.mean() / 1e3), "event_tail": found[99.9] / found[50]}
    return row | {f"event_p{percentile:g}_us": us for percentile, us in found.items()}


def _looped(streamed: S7Layer | S7Model, events: np.ndarray, backend: str) -> Run:
    step = jax.jit(lambda streamed, event, state: streamed.step(event, state))
    initial: Any = streamed.init_state()

    def run() -> Any:
        state = initial
        with under(backend):
            for event in events:
                answer, state = step(streamed, event, state)
                answer.block_until_ready()
        return answer

    return run


def _scanned(streamed: S7Layer | S7Model, events: np.ndarray, backend: str) -> Run:
    @jax.jit
    def scan(streamed, events):
        def step(state, event):
            answer, state = streamed.step(event, state)
            return state, answer

        return lax.scan(step, streamed.init_state(), events)

    def run() -> Any:
        with under(backend):
            return jax.block_until_ready(scan(streamed, events))[1]

    return run


def _chunked(model: S7Model, events: np.ndarray, backend: str) -> Run:
    chunk = jax.jit(lambda model, events, state: model.chunk(events, state))
    state = model.init_state()

    def run() -> Any:
        with under(backend):
            return jax.block_until_ready(chunk(model, events, state))[0]

    return run
