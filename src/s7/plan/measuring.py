"""Calibration of the cost model: a few training steps of a task on this machine."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from s7.bench.timing import best_of
from s7.bench.train import Training
from s7.data.batching import Plan
from s7.data.folder import DataFolder
from s7.job import Job
from s7.machine import description, versions, working_clock
from s7.model import S7Model
from s7.plan.cost import Measurements
from s7.training.run import Run
from s7.training.splits import prepare
from s7.training.trainer import Trainer

# Steps of each batch size; fewer if they are slow.
RUNS = 60


def measure(
    job: Job, data: DataFolder, runs: int = RUNS, say: Callable[[str], None] = lambda text: None
) -> Measurements:
    """Time the training step of a job with two batch sizes, and the preparation of its input.

    Args:
        job: The task and its settings.
        data: Where to find the data.
        runs: Repetitions, of which the fastest counts.
        say: Called with a line about what is being done.
    """
    missing = job.data().missing(data)
    if missing:
        raise FileNotFoundError(f"{job.task}: {missing}")
    problem = job.problem(data, say)
    model = job.new_model(problem)
    prepared = prepare(model, problem.train, problem.valid, None, objective=problem.objective, seed=job.seed)
    batch = job.training().batch_size
    other = batch // 2 or 2
    steps, trainers = {}, {}
    for size in (batch, other):
        say(f"compiling the step for a batch of {size}")
        trainers[size] = trainer = Run(
            *prepared, replace(job.training(), batch_size=size), job.seed, problem.augmentation
        ).trainer()
        first = trainer.loader.batch(typical(trainer), 0)
        steps[size] = Training(trainer.train_step, trainer.optimizer, trainer.state, first, None)  # type: ignore[arg-type]
    plan, loader = typical(trainers[batch]), trainers[batch].loader
    say("timing")
    clock = working_clock()
    seconds = best_of(runs, {str(size): step for size, step in steps.items()}, clock=clock)
    made = best_of(runs, {"input": lambda: loader.batch(plan, 0)}, clock=clock)["input"]
    memory = {size: 2**20 * (step.memory_mb or 0) for size, step in steps.items()}
    real = np.concatenate([loader.lengths[np.concatenate(one.rows)] for one in loader.plans(0)]).sum()
    padded = sum(len(one.rows) * one.length for one in loader.plans(0))
    config = job.model_config(problem)
    return Measurements(
        parameters=model.parameter_count,
        length=plan.length,
        filled=min(1.0, float(real / padded)),
        blocks=config.depth,
        exchange_bytes=exchange_bytes(model),
        batch=len(plan.rows),
        step_seconds=seconds[str(batch)],
        memory_bytes=memory[batch],
        other_batch=len(typical(trainers[other]).rows),
        other_seconds=seconds[str(other)],
        other_bytes=memory[other],
        input_seconds=made,
        about={
            "task": job.task,
            "model": job.model,
            "preset": job.preset,
            "set": " ".join(job.changes(problem)),
            "machine": description(),
            **versions(),
        },
    )


def typical(trainer: Trainer) -> Plan:
    """A batch of the most frequent shape of an epoch."""
    plans = trainer.loader.plans(0)
    shapes = [(len(plan.rows), plan.length) for plan in plans]
    most = max(sorted(set(shapes)), key=shapes.count)
    return plans[shapes.index(most)]


def exchange_bytes(model: S7Model) -> int:
    """The bytes of the product of transitions and the last state of one block, for one sequence; 0 for other layers."""
    config = model.config
    if config.layer is not None:
        return 0
    number = 8 if config.dtype == "float64" else 4
    parts = 2 if config.transition.complex_state else 1
    return 2 * config.state * parts * number * (2 if config.bidirectional else 1)
