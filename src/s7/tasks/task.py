"""What a task is: where its data come from, how they are split, and the question that a model is asked.

A task is one small file: a frozen dataclass of data settings with a `load`. It never sees a model; it says what the
model reads (an encoder), what it answers (a head) and how the answer is judged (an objective).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from s7.data.folder import DataFolder
from s7.data.loader import Augmentation
from s7.data.samples import Samples
from s7.encoders import Encoder
from s7.heads import Head
from s7.settings import Table
from s7.training.objectives import Objective

Say = Callable[[str], None]


@dataclass(frozen=True)
class Problem:
    """A task with its data in hand.

    `baselines` are metrics on the test split of answers that take no model. `model` are settings that the protocol
    demands, whatever the preset says. `columns` name the numbers of a target, for reports. `augmentation` varies the
    training samples.
    """

    train: Samples
    valid: Samples
    test: Samples
    encoder: Encoder
    head: Head
    objective: Objective
    baselines: Mapping[str, dict[str, float]] = field(default_factory=dict)
    model: Table = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    augmentation: Augmentation | None = None


@dataclass(frozen=True)
class Task(ABC):
    """What every task has. Its fields are the settings of its data, `data.…` on the command line.

    `settings` are the tables data, model and train to start from, of a task that has no file of presets.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    protocols: ClassVar[dict[str, str]] = {"strict": "as the task splits its data"}
    settings: ClassVar[Table] = {}

    @abstractmethod
    def load(self, folder: DataFolder, protocol: str, say: Say) -> Problem:
        """The data, split as the protocol wants; `say` hears of anything that takes time."""

    def missing(self, folder: DataFolder) -> str | None:
        """What is not here and how to get it; None if all is. Simulated data are always to be had."""
        return None


def most_frequent(train: Samples, test: Samples, classes: int) -> dict[str, dict[str, float]]:
    """The baseline of always answering what is most frequent in training."""
    learnt, tested = (q.targets if q.counts is None else q.targets[q.counts] for q in (train, test))
    answer = int(np.argmax(np.bincount(learnt, minlength=classes)))
    return {"most frequent class": {"accuracy": float(np.mean(tested == answer))}}
