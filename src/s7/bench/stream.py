"""Events as they arrive: microseconds for each, through a layer and through a whole model.

`step` in a Python loop takes one event and waits for its answer, as a live stream does; within a `lax.scan` there is no
Python between events; `chunk` takes many at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax import lax

from s7.bench.cases import INPUTS, paper_config
from s7.bench.implementations import backend_names, require_agreement, under
from s7.bench.measures import Row
from s7.bench.timing import Run, best_of
from s7.layer import S7Layer
from s7.model import S7Model

EVENTS = 1000
# In a Python loop an event takes long enough for fewer of them to do.
LOOPED = 200
CHUNKS = (100, 1000)


def rows(
    tasks: Sequence[str],
    *,
    runs: int = 10,
    chunks: Sequence[int] = CHUNKS,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Row]:
    """A row for each task's layer and model, each manner of streaming and each backend; ratios are to the first."""
    for task in tasks:
        # Not the batch norm of some: with the statistics of a model that was never trained, numbers grow from block to
        # block until they are none.
        config = replace(paper_config(task), norm="layer")
        model = S7Model(config, key=jax.random.key(0))
        for part, streamed, size in (("layer", model.blocks[0].layer, config.width), ("model", model, INPUTS)):
            events = np.random.default_rng(0).standard_normal((EVENTS, size), np.float32)
            manners: list[tuple[str, int, Callable]] = [
                ("step in Python", LOOPED, _looped),
                ("step in a scan", EVENTS, _scanned),
            ]
            if part == "model":
                manners += [(f"chunk of {chunk}", chunk, _chunked) for chunk in chunks]
            for manner, count, make in manners:
                where = f"{task}, {part}, {manner}"
                implementations, answers = {}, {}
                for backend in backend_names():
                    say(f"{where}, compiling {backend}")
                    implementations[backend] = make(streamed, events[:count], backend)
                    answers[backend] = implementations[backend]()
                require_agreement(answers, where)
                say(f"{where}, timing")
                seconds = best_of(runs, implementations)
                for way, took in seconds.items():
                    yield {
                        "benchmark": "stream",
                        "task": task,
                        "part": part,
                        "depth": len(model.blocks) if part == "model" else 1,
                        "width": config.width,
                        "state": config.state,
                        "manner": manner,
                        "way": way,
                        "event_us": took / count * 1e6,
                        "event_ratio": took / next(iter(seconds.values())),
                    }


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
