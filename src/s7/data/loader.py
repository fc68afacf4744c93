"""Training batches, augmented at random and prepared in a background thread.

A batch is a pure function of (seed, epoch, plan), whichever thread builds it.
"""

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int

from s7.data.batching import WHOLE, Batch, Batching, Plan, Share
from s7.data.samples import Samples
from s7.registry import Registered

# Batches prepared ahead of time.
AHEAD = 2


@dataclass(frozen=True)
class Augmentation(Registered, ABC):
    """The base class of augmentations, which change training samples at random.

    A subclass is a frozen dataclass. A run resumes only with equal fields.
    """

    @abstractmethod
    def longest(self, lengths: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """Returns the largest possible lengths of augmented sequences, given their original lengths."""

    @abstractmethod
    def __call__(self, samples: Samples, chosen: Int[np.ndarray, " M"], seed: int, epoch: int) -> Samples:
        """Returns the chosen samples, each augmented as a function of (seed, epoch, index)."""


@dataclass(frozen=True)
class Loader:
    """Batches of training samples, of which only the rows of a share are built."""

    samples: Samples
    batching: Batching
    seed: int
    augmentation: Augmentation | None = None
    share: Share = WHOLE

    @cached_property
    def lengths(self) -> Int[np.ndarray, " N"]:
        """The largest possible length of each sample."""
        lengths = self.samples.lengths
        return lengths if self.augmentation is None else self.augmentation.longest(lengths)

    def plans(self, epoch: int) -> list[Plan]:
        """Returns the plans of an epoch in order."""
        return self.batching.epoch(self.lengths, self.seed, epoch)

    def batch(self, plan: Plan, epoch: int) -> Batch:
        """Builds one batch, given the plan of all of its rows."""
        plan = self.share.plan(plan, self.batching.size)
        if self.augmentation is None:
            return self.share.batch(self.batching, self.samples, plan)
        chosen = np.concatenate(plan.rows)
        varied = self.augmentation(self.samples, chosen, self.seed, epoch)
        places = np.split(np.arange(len(chosen)), np.cumsum([len(row) for row in plan.rows])[:-1])
        # Their new lengths are known only now.
        return self.share.batch(self.batching, varied, plan._replace(rows=places, even=False))

    def batches(self, plans: list[Plan], epoch: int) -> Generator[Batch]:
        """Yields the batches of some plans, built by a background thread."""
        made: queue.Queue[Batch | BaseException] = queue.Queue(AHEAD)
        done = threading.Event()

        def hand_over(item: Batch | BaseException) -> bool:
            while not done.is_set():
                with suppress(queue.Full):
                    made.put(item, timeout=0.1)
                    return True
            return False

        def make() -> None:
            try:
                for plan in plans:
                    if not hand_over(self.batch(plan, epoch)):
                        return
            except BaseException as error:
                hand_over(error)

        threading.Thread(target=make, daemon=True, name="s7 loader").start()
        try:
            for _ in plans:
                item = made.get()
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            done.set()
