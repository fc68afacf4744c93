"""Training problems with random data of the right kind: tokens, spikes, pixels, sensor readings, with or without gaps.

A preset `ours` is measured with the encoder, head, pooling and objective of its task. Lengths are typical of the task's
data. A preset `paper` is measured with a linear encoder for random inputs and ten classes, at any length.
"""

from dataclasses import dataclass, replace

import numpy as np

import s7
from s7.bench.cases import OUTPUTS, paper_config
from s7.config import ModelConfig
from s7.data.batching import Batch
from s7.data.samples import Samples
from s7.job import Job
from s7.presets import preset
from s7.settings import build
from s7.tasks import Problem
from s7.training.config import TrainConfig

# The most events of a batch.
PAPER_EVENTS, OURS_EVENTS = 16_384, 65_536
PAPER_LENGTH = 1024


@dataclass(frozen=True)
class Kind:
    """What a task's data look like: who reads them, who answers, how long sequences are, and whether they have gaps."""

    encoder: "s7.Encoder"
    head: "s7.Head"
    objective: "s7.Objective"
    length: int
    gaps: bool = False


def _classes(encoder: "s7.Encoder", head: type, classes: int, length: int, *, gaps: bool = False) -> Kind:
    return Kind(encoder, head(classes), s7.CrossEntropy(classes), length, gaps)


KINDS = {
    "dvs-gesture": _classes(s7.EventEncoder((128, 128)), s7.TimeMean, 11, 16_384, gaps=True),
    "eigenworms": _classes(s7.LinearEncoder(6), s7.Mean, 5, 8192),
    "fitzhugh-nagumo": Kind(s7.LinearEncoder(1), s7.PerStep(1), s7.MeanSquared(1), 1000),
    "human-activity": _classes(s7.LinearEncoder(7), s7.PerStep, 7, 32, gaps=True),
    "image": _classes(s7.LinearEncoder(4), s7.Mean, 10, 256),
    "irregular-time": Kind(s7.LinearEncoder(1), s7.Last(2), s7.MeanSquared(2), 48, gaps=True),
    "listops": _classes(s7.TokenEncoder(15), s7.Mean, 10, 1024),
    "nmnist": _classes(s7.EventEncoder((34, 34)), s7.Mean, 10, 4096, gaps=True),
    "path-x": _classes(s7.LinearEncoder(1), s7.Mean, 2, 16_384),
    "pathfinder": _classes(s7.LinearEncoder(1), s7.Mean, 2, 1024),
    "pendulum": Kind(s7.ImageEncoder((24, 24, 1), scale=255), s7.PerStep(4), s7.GaussianNLL(2), 50, gaps=True),
    "retrieval": _classes(s7.TokenEncoder(128), s7.Retrieval, 2, 4000),
    "shd": _classes(s7.TokenEncoder(700), s7.Mean, 20, 8192, gaps=True),
    "spoken-digits": _classes(s7.TokenEncoder(200), s7.Mean, 10, 2048, gaps=True),
    "ssc": _classes(s7.TokenEncoder(700), s7.Mean, 35, 8192, gaps=True),
    "text": _classes(s7.TokenEncoder(135), s7.Mean, 2, 4096),
    "walker2d": Kind(s7.LinearEncoder(18), s7.PerStep(17), s7.MeanSquared(17), 64, gaps=True),
}


@dataclass(frozen=True)
class TrainCase:
    """A model and its training settings, with the kind of data that it is trained on."""

    task: str
    preset: str
    config: ModelConfig
    training: TrainConfig
    objective: "s7.Objective"
    batch: int
    length: int
    gaps: bool

    def data(self) -> Batch:
        """Return a random batch, without padding."""
        return _batch(self.config.encoder, self.config.head, self.objective, self.batch, self.length, self.gaps)


def train_case(task: str, name: str, length: int | None = None, model: str = "s7") -> TrainCase:
    """Return the case of a preset at a length; by default the one that is typical of the task.

    Args:
        task: The task.
        name: The preset, "paper" or "ours".
        length: The length of sequences.
        model: The architecture, with the preset "ours".
    """
    if name == "paper":
        length = length or PAPER_LENGTH
        training = build(TrainConfig, preset(task, name)["train"], "train")
        size = min(training.batch_size, max(1, PAPER_EVENTS // length))
        return TrainCase(task, name, paper_config(task), training, s7.CrossEntropy(OUTPUTS), size, length, False)
    kind = KINDS[task]
    length = length or kind.length
    job = Job(task, model, preset=name)
    training = job.training()
    size = min(training.batch_size, max(1, OURS_EVENTS // (length * kind.head.documents)))
    config = job.model_config(_problem(replace(kind, length=2)))
    return TrainCase(task, name, config, training, kind.objective, size, length, kind.gaps)


def _problem(kind: Kind) -> Problem:
    """A problem whose splits are one random sample."""
    batch = _batch(kind.encoder, kind.head, kind.objective, 1, kind.length, kind.gaps)
    documents = kind.head.documents
    inputs, dt = ((None if q is None else q[0] if documents > 1 else q) for q in (batch.inputs, batch.dt))
    samples = Samples.of(inputs, batch.targets, dt, per_step=kind.head.per_step, documents=documents)
    return Problem(samples, samples, samples, encoder=kind.encoder, head=kind.head, objective=kind.objective)


def _batch(
    encoder: "s7.Encoder", head: "s7.Head", objective: "s7.Objective", size: int, length: int, gaps: bool
) -> Batch:
    random = np.random.default_rng(0)
    shape = (size, head.documents, length) if head.documents > 1 else (size, length)
    inputs: np.ndarray
    if hasattr(encoder, "size"):
        inputs = random.integers(0, encoder.size, shape).astype(np.int32)
    else:
        inputs = random.standard_normal((*shape, *encoder.event_shape), np.float32)
    dt = random.exponential(1, shape).astype(np.float32) if gaps else None
    answered = (size, length) if head.per_step else (size,)
    targets: np.ndarray
    if isinstance(objective, s7.CrossEntropy):
        targets = random.integers(0, objective.classes, answered)
    else:
        targets = random.standard_normal((*answered, objective.size), np.float32)  # type: ignore[attr-defined]
    return Batch(inputs, dt, None, None, targets, np.ones(answered, np.float32))
