"""Tasks: the source of data, their splits, and the prediction that is asked for.

A task is a frozen dataclass of data settings with a `load` method, in a file of its own. It never sees a model: it
names the encoder that reads the data, the head that answers, and the objective that judges the answer.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

import s7
from s7.data.download import Download
from s7.data.folder import DataFolder
from s7.data.loader import Augmentation
from s7.data.samples import Samples
from s7.registry import Registered
from s7.settings import Table

Say = Callable[[str], None]


@dataclass(frozen=True)
class Problem:
    """The data of a task with the encoder, the head and the objective.

    Args:
        train: The training data.
        valid: The validation data, which choose the epoch.
        test: The test data, which are evaluated once.
        encoder: Reads the inputs.
        head: Makes the outputs.
        objective: The loss and the metrics.
        baselines: Test metrics of predictions that need no model, by a description of the prediction.
        model: Model settings that the protocol requires. They override the preset.
        columns: Names of the components of a target, for reports.
        augmentation: Changes the training samples at random.
    """

    train: Samples
    valid: Samples
    test: Samples
    encoder: "s7.Encoder"
    head: "s7.Head"
    objective: "s7.Objective"
    baselines: Mapping[str, dict[str, float]] = field(default_factory=dict)
    model: Table = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    augmentation: Augmentation | None = None


@dataclass(frozen=True)
class Task(Registered, ABC, package="s7.tasks"):
    """The base class of tasks. Fields are data settings, `data.…` on the command line.

    Class attributes:
        name: The name that commands use.
        title: The question in one line.
        source: The source of the data, for users.
        downloads: The published files.
        downloads_are_optional: Whether the task can generate data of the same kind itself.
        manual_download: How to get the files by hand, if they cannot be downloaded automatically.
        protocols: Ways to split the data, each described by one sentence.
        settings: The initial tables data, model and train, for a task without presets.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    downloads: ClassVar[tuple[Download, ...]] = ()
    downloads_are_optional: ClassVar[bool] = False
    manual_download: ClassVar[str] = ""
    protocols: ClassVar[dict[str, str]] = {"strict": "as the task splits its data"}
    settings: ClassVar[Table] = {}

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(name=vars(cls).get("name"), **keywords)

    @abstractmethod
    def load(self, folder: DataFolder, protocol: str, say: Say) -> Problem:
        """Read or generate the data and split them.

        Args:
            folder: The folders to search for data.
            protocol: One of `protocols`.
            say: Called with a message before each slow operation.
        """

    def missing(self, folder: DataFolder) -> str | None:
        """A message about missing data and how to get them, or None if the task can be loaded."""
        return None


def most_frequent(train: Samples, test: Samples, classes: int) -> dict[str, dict[str, float]]:
    """The accuracy of always answering the most frequent class of the training data."""
    learnt, tested = (q.targets if q.counts is None else q.targets[q.counts] for q in (train, test))
    answer = int(np.argmax(np.bincount(learnt, minlength=classes)))
    return {"most frequent class": {"accuracy": float(np.mean(tested == answer))}}
