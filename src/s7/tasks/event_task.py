"""What tasks have in common that say of which class a recording of events is."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from s7.data.samples import Samples
from s7.encoders import Encoder
from s7.events.augmentation import EventAugmentation
from s7.events.recordings import Recordings, Sensor, samples_of
from s7.heads import Head
from s7.tasks.task import Problem, Say, Task, most_frequent
from s7.training.objectives import CrossEntropy


@dataclass(frozen=True)
class EventTask(Task):
    """`augment` varies the training recordings.

    `repair` puts events in the order of time and leaves empty recordings out; without it both are errors.
    """

    sensor: ClassVar[Sensor]
    classes: ClassVar[int]
    augment: EventAugmentation = EventAugmentation()
    repair: bool = False

    def samples(self, parts: Iterable[Recordings], name: str, say: Say) -> Samples:
        """The recordings of a split, which come part by part."""
        return samples_of(self._repaired(parts, name, say) if self.repair else parts, self.sensor, name)

    def _repaired(self, parts: Iterable[Recordings], name: str, say: Say) -> Iterator[Recordings]:
        empty, disordered = 0, 0
        for part in parts:
            empty += int(np.count_nonzero(part.sizes == 0))
            disordered += int(np.count_nonzero(part.goes_back()))
            yield part.repaired()
        if empty or disordered:
            say(f"{name}: left {empty} empty recordings out, and sorted where {disordered} events go back in time")

    def problem(
        self, splits: Mapping[str, Samples], encoder: Encoder, head: Head, names: tuple[str, ...] = ()
    ) -> Problem:
        """The question: of which class is a recording? Without a split "valid" the epoch is chosen on the test."""
        train, test = splits["train"], splits["test"]
        objective = CrossEntropy(self.classes, names)
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
