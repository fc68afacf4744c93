"""Tasks that classify recordings of events."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import s7
from s7.data.samples import Samples
from s7.events.augmentation import EventAugmentation
from s7.events.recordings import Recordings, Sensor, samples_of
from s7.tasks.task import Problem, Say, Task, most_frequent


@dataclass(frozen=True)
class EventTask(Task):
    """The base class of tasks that classify recordings of events.

    Args:
        augment: Varies the training recordings.
        repair: Sort events by time and drop empty recordings. Otherwise both are errors.
    """

    sensor: ClassVar[Sensor]
    classes: ClassVar[int]
    augment: EventAugmentation = EventAugmentation()
    repair: bool = False

    def samples(self, parts: Iterable[Recordings], name: str, say: Say) -> Samples:
        """The samples of a split, from recordings that are read part by part."""
        return samples_of(self._repaired(parts, name, say) if self.repair else parts, self.sensor, name)

    def _repaired(self, parts: Iterable[Recordings], name: str, say: Say) -> Iterator[Recordings]:
        empty, disordered = 0, 0
        for part in parts:
            empty += int(np.count_nonzero(part.sizes == 0))
            disordered += int(np.count_nonzero(part.goes_back()))
            yield part.repaired()
        if empty or disordered:
            say(f"{name}: dropped {empty} empty recordings and sorted {disordered} events that go back in time")

    def problem(
        self, splits: Mapping[str, Samples], encoder: "s7.Encoder", head: "s7.Head", names: tuple[str, ...] = ()
    ) -> Problem:
        """Classify recordings. Without a split "valid", the best epoch is chosen on the test split."""
        train, test = splits["train"], splits["test"]
        objective = s7.CrossEntropy(self.classes, names)
        for samples in splits.values():
            objective.check(samples)
        return Problem(
            train,
            splits.get("valid", test),
            test,
            encoder=encoder,
            head=head,
            objective=objective,
            baselines=most_frequent(train, test, self.classes),
            augmentation=self.augment.on(self.sensor, self.classes),
        )
