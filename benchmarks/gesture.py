"""A long recording of an event camera: `python -m benchmarks.gesture`.

One recording of DVS-Gesture, whole: a training step, and a stream that reads it as it would arrive, in pieces and event
by event. Each in a process of its own, for its peak memory. The figures go to docs/results/gesture.json, from where
`python -m benchmarks.results` takes them.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

KEPT = Path(__file__).parent.parent / "docs" / "results" / "gesture.json"
PIECE = 1000
REPEATS = 3


def prepared() -> tuple[Any, Any]:
    """The model of the preset, untrained, and the longest recording."""
    import numpy as np

    from s7.data.folder import DataFolder
    from s7.job import Job

    job = Job("dvs-gesture")
    problem = job.problem(DataFolder(), lambda text: None)
    longest = int(np.argmax(problem.train.lengths))
    return job.new_model(problem), problem.train.take([longest])


def training_step() -> dict[str, Any]:
    """Forward, backward and update over the whole recording, and what it takes to compile."""
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


def stream(piece: int) -> dict[str, Any]:
    """All events in pieces of so many, each with an answer; the last is compared with that of a call on all of them."""
    import equinox as eqx
    import jax
    import numpy as np

    model, recording = prepared()
    tokens, dt = recording.inputs, recording.dt
    advance = eqx.filter_jit(model.chunk) if piece > 1 else eqx.filter_jit(_steps(model))
    # Event by event, a thousand at a time within one loop of XLA's: Python's own would take most of the time.
    size = piece if piece > 1 else PIECE
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


FIGURES: dict[str, Callable[[], dict[str, Any]]] = {
    "training step on the whole recording": training_step,
    f"stream, pieces of {PIECE:,} events": lambda: stream(PIECE),
    "stream, event by event": lambda: stream(1),
}


def main() -> None:
    """Prints each figure and keeps them all; with a name, that one, in this process."""
    if len(sys.argv) > 1:
        from s7.machine import description, peak_memory_mb

        found = FIGURES[sys.argv[1]]()
        print(json.dumps(found | {"peak_memory_mb": round(peak_memory_mb()), "machine": description()}))
        return
    figures = []
    for name in FIGURES:
        done = subprocess.run([sys.executable, "-m", "benchmarks.gesture", name], check=True, stdout=subprocess.PIPE)
        figures.append({"what": name} | json.loads(done.stdout))
        print(row(figures[-1]), flush=True)
    KEPT.write_text(json.dumps(figures, indent=1) + "\n")


def row(figure: dict[str, Any]) -> str:
    """A figure in words."""
    per_event = figure["seconds"] / figure["events"] * 1e6
    same = f", {figure['difference']:.0e} (relative) from the answer to all at once" if "difference" in figure else ""
    return (
        f"{figure['what']}: {figure['events']:,} events in {figure['seconds']:.2f} s, {per_event:.2f} µs each{same}; "
        f"{figure['first']:.1f} s the first time; at most {figure['peak_memory_mb']:,} MB"
    )


if __name__ == "__main__":
    main()
