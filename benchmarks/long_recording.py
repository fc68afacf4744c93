"""One long recording, divided over processes: `python -m benchmarks.long_recording --events 10000000 --processes 4`.

Trains a small model on a recording of random events of an event camera, on this machine. Prints, for each process, the
memory that the compiled training step plans, the peak memory, and that of the same training on SHORT events before: of
Python, JAX, compilation and the recording. The loss does not depend on the number of processes.
"""

import argparse
import json
import sys
import time
from typing import Any

from s7 import processes
from s7.launching import Workers

SENSOR = (128, 128)
SHORT = 65536


def work(events: int, shards: int, steps: int, width: int) -> None:
    """Train, as one of `shards` processes."""
    place = processes.place()
    if place is not None:
        processes.join(place)
    import jax
    import numpy as np

    import s7
    from s7.machine import peak_memory_mb
    from s7.training.callbacks import Callback
    from s7.training.group import Group
    from s7.training.steps import arrays_of

    class KeepTrainer(Callback):
        def on_step(self, trainer, progress):
            self.trainer = trainer

    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 2 * SENSOR[0] * SENSOR[1], events, np.int32)
    gaps = rng.standard_exponential(events, np.float32)
    recording = s7.Samples.of([tokens], np.array([1]), [gaps])
    short = s7.Samples.of([tokens[:4096]], np.array([1]), [gaps[:4096]])
    stages = (s7.Stage(1, stride=8), s7.Stage(1, stride=8), s7.Stage(1))
    model = s7.S7Model(
        encoder=s7.EventEncoder(sensor=SENSOR),
        head=s7.Mean(2),
        width=width,
        state=width // 2,
        form=s7.Factored(rank=8),
        stages=stages,
        time_unit=1.0,
        key=jax.random.key(0),
    )
    options: dict[str, Any] = {"objective": s7.CrossEntropy(2), "batch_size": 1, "progress": False}
    options |= {"sequence_shards": shards}
    s7.train(model, s7.Samples.of([tokens[:SHORT]], np.array([1]), [gaps[:SHORT]]), short, steps=1, **options)
    before, start = peak_memory_mb(), time.perf_counter()
    kept = KeepTrainer()
    trained = s7.train(model, recording, short, steps=steps, callbacks=[kept], **options)
    seconds, peak = time.perf_counter() - start, peak_memory_mb()
    trainer = kept.trainer
    batch = trainer.loader.batch(trainer.loader.plans(0)[0], 0)
    planned = trainer.train_step.memory(arrays_of(trainer.optimizer), trainer.state, batch, jax.random.key(0))
    memory = Group.current().gather(np.array([planned / 2**20, before, peak])).round()
    if place is None or place.index == 0:
        names = ("step_memory_mb", "short_peak_mb", "peak_mb")
        about = {"events": events, "width": width, "processes": shards, "steps": steps, "seconds": round(seconds, 1)}
        about |= {name: column.tolist() for name, column in zip(names, memory.T, strict=True)}
        print(json.dumps(about | {"loss": trained.history[-1]["train"]["loss"]}), flush=True)


def main() -> None:
    """Start the processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--width", type=int, default=64)
    options = parser.parse_args()
    if options.processes > 1 and processes.place() is None:
        status, text, _ = Workers(sys.argv[1:], options.processes, "benchmarks.long_recording").run()
        sys.exit(text or status)
    work(options.events, options.processes, options.steps, options.width)


if __name__ == "__main__":
    main()
