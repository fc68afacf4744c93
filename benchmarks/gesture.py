"""A long recording of an event camera: `python -m benchmarks.gesture`.

Measures a training step on a whole recording of DVS-Gesture, and streaming it in chunks and event by event. Each
measurement has a process of its own, for its peak memory. The results are stored in docs/results/gesture.json, from
which `python -m benchmarks.results` reads them.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STORED = Path(__file__).parent.parent / "docs" / "results" / "gesture.json"
CHUNK = 1000
REPEATS = 3


def prepared() -> tuple[Any, Any]:
    """The untrained model of the preset, and the longest recording."""
    import numpy as np

    from s7.data.folder import DataFolder
    from s7.job import Job

    job = Job("dvs-gesture")
    problem = job.problem(DataFolder(), lambda text: None)
    longest = int(np.argmax(problem.train.lengths))
    return job.new_model(problem), problem.train.take([longest])


def training_step() -> dict[str, Any]:
    """A training step on the whole recording. The first one includes compilation."""
    import jax

    from s7.training.config import TrainConfig
    from s7.training.objectives import CrossEntropy
    from s7.training.steps import arrays_of
    from s7.training.trainer import Trainer

    model, recording = prepared()
    trainer = Trainer.start(model, CrossEntropy(11), recording, recording, TrainConfig(epochs=1, batch_size=1), 0)
    batch = trainer.loader.batch(trainer.loader.plans(0)[0], 0)
    state, key = trainer.state, jax.random.key(0)
    seconds = []
    for _ in range(1 + REPEATS):
        start = time.perf_counter()
        state, outcome = trainer.train_step.train(arrays_of(trainer.optimizer), state, batch, key)
        assert bool(outcome.good)
        seconds.append(time.perf_counter() - start)
    return {"events": int(recording.lengths[0]), "first": seconds[0], "seconds": min(seconds[1:])}


def stream(chunk: int) -> dict[str, Any]:
    """Stream all events in chunks, with an output after each, and compare the last one with a call on all events."""
    import equinox as eqx
    import jax
    import numpy as np

    model, recording = prepared()
    tokens, dt = recording.inputs, recording.dt
    advance = eqx.filter_jit(model.chunk) if chunk > 1 else eqx.filter_jit(_steps(model))
    # Single events go through a loop of XLA, a thousand per call: a loop in Python would take most of the time.
    size = chunk if chunk > 1 else CHUNK
    starts = range(0, len(tokens), size)

    def run() -> Any:
        state = model.init_state()
        for start in starts:
            answer, state = advance(tokens[start : start + size], state, dt[start : start + size])
            jax.block_until_ready(answer)
        return answer

    start = time.perf_counter()
    answer = run()
    first = time.perf_counter() - start
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    whole = eqx.filter_jit(model)(tokens, dt)
    difference = float(np.abs(np.asarray(answer) - np.asarray(whole)).max() / np.abs(whole).max())
    return {"events": len(tokens), "first": first, "seconds": min(seconds), "difference": difference}


def _steps(model: Any) -> Callable[..., Any]:
    from jax import lax

    def run(tokens, state, dt):
        def step(state, event):
            answer, state = model.step(event[0], state, event[1])
            return state, answer

        state, answers = lax.scan(step, state, (tokens, dt))
        return answers[-1], state

    return run


MEASUREMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "training step on the whole recording": training_step,
    f"stream, chunks of {CHUNK:,} events": lambda: stream(CHUNK),
    "stream, event by event": lambda: stream(1),
}


def main() -> None:
    """Run and store all measurements, or run the one that is named, in this process."""
    if len(sys.argv) > 1:
        from s7.machine import description, peak_memory_mb

        found = MEASUREMENTS[sys.argv[1]]()
        print(json.dumps(found | {"peak_memory_mb": round(peak_memory_mb()), "machine": description()}))
        return
    figures = []
    for name in MEASUREMENTS:
        done = subprocess.run([sys.executable, "-m", "benchmarks.gesture", name], check=True, stdout=subprocess.PIPE)
        figures.append({"what": name} | json.loads(done.stdout))
        print(row(figures[-1]), flush=True)
    STORED.write_text(json.dumps(figures, indent=1) + "\n")


def row(figure: dict[str, Any]) -> str:
    """A measurement in words."""
    per_event = figure["seconds"] / figure["events"] * 1e6
    same = f"; relative difference from a single call {figure['difference']:.0e}" if "difference" in figure else ""
    return (
        f"{figure['what']}: {figure['events']:,} events in {figure['seconds']:.2f} s, "
        f"{per_event:.2f} µs per event; first run with compilation {figure['first']:.1f} s; "
        f"peak memory {figure['peak_memory_mb']:,} MB{same}"
    )


if __name__ == "__main__":
    main()
