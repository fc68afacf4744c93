"""The stored results of a finished run: metrics and a few examples."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from s7 import machine, storage
from s7.data.samples import Samples
from s7.records import Result
from s7.settings import Table
from s7.training.evaluation import confusion, measure, outputs_of, state_of
from s7.training.objectives import CrossEntropy
from s7.training.trainer import Trainer

EXAMPLES = 3


def result_of(trainer: Trainer, test: Samples | None, digests: dict[str, str], about: Table) -> Result:
    """Evaluate the best model and describe the run. `about` adds entries such as the task's name."""
    at, objective, group, state = trainer.position, trainer.objective, trainer.group, state_of(trainer.best_model)
    if not at.history:
        raise ValueError(f"training stopped before the first step: {at.stopped}")
    table = about | {
        "seed": trainer.seed,
        "parameters": int(trainer.state.trained.size),
        "epochs": at.epoch,
        "steps": at.step,
        "steps_per_epoch": trainer.per_epoch,
        "best_epoch": at.best_epoch,
        "stopped": at.stopped,
        "seconds": round(at.seconds, 2),
        "steps_per_second": round(at.step / at.seconds, 3),
        "waits_for_data": round(at.waited / at.seconds, 4),
        "peak_memory_mb": round(machine.peak_memory_mb()),
        "objective": type(objective).__name__,
        "metric": objective.metric,
        "better": objective.better,
        "valid": at.history[at.best_epoch - 1]["valid"],
        "data_sha256": digests,
        "versions": machine.versions(),
        "machine": machine.description(),
        "processes": group.count,
    }
    if test is not None:
        table["test"] = measure(trainer.steps, state, test, trainer.batching, objective, group)
    if isinstance(objective, CrossEntropy):
        table["classes"] = list(objective.names) or [str(n) for n in range(objective.classes)]
        counts = confusion(trainer.steps, state, test or trainer.valid, trainer.batching, objective, group)
        table["confusion"] = counts.tolist()
    return Result.from_json(table)


def write_examples(model: Any, samples: Samples, path: Path, columns: list[str]) -> None:
    """Write the first few samples with the model's outputs; `columns` name the numbers of a target."""
    few = samples.take(np.arange(min(EXAMPLES, len(samples))))
    arrays: dict[str, np.ndarray] = {}
    for n, output in enumerate(outputs_of(model, few)):
        one = few.take([n])
        # Two documents of one sample are cut to the length of the shorter.
        starts, lengths = one.spans(np.array([0]))
        places = starts[0][..., None] + np.arange(lengths.min())
        arrays |= {f"{n}.inputs": one.inputs[places], f"{n}.outputs": output}
        arrays[f"{n}.targets"] = one.targets if few.per_step else one.targets[0]
        if one.dt is not None:
            arrays[f"{n}.dt"] = one.dt[places]
    about = json.dumps({"split": samples.name, "columns": columns})
    storage.write_atomically(path, storage.tensors(arrays, {"s7": about}))
