"""Batches of a few fixed shapes, so that few programs are compiled.

The batches of an epoch are a pure function of (seed, epoch). Processes that train together make the same plan, and each
assembles its share of the rows of every batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from s7.data.samples import Samples


class Batch(NamedTuple):
    """Rows of events with their targets.

    Padded batches hold one sample in each row, `length` events of it real (None: all); a sample of two documents takes
    two lines of its row. Packed batches hold several samples in a row: `segments` numbers the one that each event
    belongs to, -1 on padding. `weight` is 1 where a target counts, else 0. A batch may hold a segment of each sequence:
    the first one where `starts` is True, else the one after that of the previous batch. None: whole sequences.
    """

    inputs: Shaped[np.ndarray, "B L ..."]
    dt: Float[np.ndarray, "B *D L"] | None
    length: Int[np.ndarray, " B *D"] | None
    segments: Int[np.ndarray, "B L"] | None
    targets: Shaped[np.ndarray, "B ..."]
    weight: Float[np.ndarray, " B *T"]
    starts: Bool[np.ndarray, " B"] | None = None


class Plan(NamedTuple):
    """A planned batch: the samples of each row, the length of a row, and how many samples a row can hold.

    `even` means that all sequences have one length, so that no batch has padding. `counted` is the number of rows whose
    targets count (None: all); the others fill the share of a process that would have none. `first` is the number of the
    first event of a segment; None if a row holds whole sequences.
    """

    rows: list[Int[np.ndarray, " n"]]
    length: int
    samples: int = 1
    even: bool = False
    counted: int | None = None
    first: int | None = None


_Batching = TypeVar("_Batching", bound="Batching")


@dataclass(frozen=True)
class Share:
    """What one process holds of every batch: share `index` of `count` of the rows, and of these part `part` of `parts`.

    Shares are consecutive rows, equally many for each. Parts are consecutive events.
    """

    index: int = 0
    count: int = 1
    part: int = 0
    parts: int = 1

    def batching(self, whole: _Batching) -> _Batching:
        """Returns how the rows of the share are assembled."""
        return replace(whole, size=-(-whole.size // self.count))

    def batch(self, whole: "Batching", samples: Samples, plan: Plan) -> Batch:
        """Builds the share of a batch, given the plan of its rows."""
        batching = self.batching(whole)
        if self.parts == 1:
            return batching.assemble(samples, plan)
        return batching.assemble_part(samples, plan, self.part, self.parts)

    def plan(self, plan: Plan, size: int) -> Plan:
        """Returns the share of a planned batch of `size` rows."""
        if self.count == 1:
            return plan
        each = -(-size // self.count)
        rows = plan.rows[self.index * each : (self.index + 1) * each]
        # Filled as the whole batch is, since batch norms count these rows too.
        return plan._replace(rows=rows + plan.rows[:1] * (each - len(rows)), counted=len(rows))


WHOLE = Share()


@dataclass(frozen=True)
class Batching(ABC):
    """How batches are made; `size` is the number of rows, and the length of rows is a multiple of `multiple`."""

    size: int
    multiple: int = field(default=1, kw_only=True)

    def __post_init__(self):
        if self.size < 1:
            raise ValueError(f"batch_size={self.size} must be at least 1")

    def rounded(self, length: int) -> int:
        """Returns the length of rows that hold `length` events."""
        return -(-length // self.multiple) * self.multiple

    @abstractmethod
    def plan(self, lengths: Int[np.ndarray, " N"], order: Int[np.ndarray, " N"]) -> list[Plan]:
        """Plans batches that hold each sample of `order` once, given the largest length of each."""

    @abstractmethod
    def assemble(self, samples: Samples, plan: Plan) -> Batch:
        """Builds the batch of a plan."""

    def assemble_part(self, samples: Samples, plan: Plan, part: int, parts: int) -> Batch:
        """Builds part `part` of the events of each row. Of targets of whole sequences only those of part 0 count."""
        batch = self.assemble(samples, plan)
        length = plan.length // parts
        events = slice(part * length, (part + 1) * length)
        dt, segments = (None if q is None else q[:, events] for q in (batch.dt, batch.segments))
        targets, weight = (q[:, events] if samples.per_step else q for q in (batch.targets, batch.weight))
        weight = weight if samples.per_step or part == 0 else np.zeros_like(weight)
        return batch._replace(inputs=batch.inputs[:, events], dt=dt, segments=segments, targets=targets, weight=weight)

    def epoch(self, lengths: Int[np.ndarray, " N"], seed: int, epoch: int) -> list[Plan]:
        """Plans one epoch in random order."""
        rng = np.random.default_rng([seed, epoch])
        plans = self.plan(lengths, rng.permutation(len(lengths)))
        return [plans[n] for n in rng.permutation(len(plans))]

    def in_order(self, samples: Samples) -> list[Plan]:
        """Plans batches of all samples in a fixed order, for validation and testing."""
        return self.plan(samples.lengths, np.arange(len(samples)))

    def batches(self, samples: Samples, plans: list[Plan], share: Share = WHOLE) -> Iterator[Batch]:
        """Builds the batches of some plans, or the share of each, one after another."""
        return (share.batch(self, samples, share.plan(plan, self.size)) for plan in plans)

    def waste(self, lengths: Int[np.ndarray, " N"]) -> float:
        """Returns the fraction of padding in all batches."""
        places = sum(self.size * plan.length for plan in self.plan(lengths, np.arange(len(lengths))))
        return 1 - int(lengths.sum()) / places


@dataclass(frozen=True)
class Buckets(Batching):
    """Groups sequences of similar length and pads them to the longest length of their bucket.

    At most `buckets` lengths occur. They are chosen to minimise padding.
    """

    buckets: int = 4

    def plan(self, lengths, order):
        bounds = bucket_bounds(lengths, self.buckets)
        bucket = np.searchsorted(bounds, lengths[order])
        even = bool((lengths == lengths[0]).all())
        plans = []
        for number, bound in enumerate(bounds):
            members = order[bucket == number]
            for start in range(0, len(members), self.size):
                rows = [members[n : n + 1] for n in range(start, min(start + self.size, len(members)))]
                plans.append(Plan(rows, self.rounded(int(bound)), even=even and self.rounded(int(bound)) == bound))
        return plans

    def assemble(self, samples, plan):
        filled = self._filled(plan)
        starts, length = samples.spans(filled)
        if plan.first is not None:
            starts = starts + np.minimum(plan.first, length - 1)
            length = np.clip(length - plan.first, 0, plan.length)
        places, real = _places(starts, length, plan.length)
        counted = len(plan.rows) if plan.counted is None else plan.counted
        weight = (np.arange(self.size) < counted).astype(np.float32)
        if plan.first is not None:
            weight = weight * (length > 0)
        targets = samples.targets[filled]
        if samples.per_step:
            targets = samples.targets[places]
            weight = weight[:, None] * real
            if samples.counts is not None:
                weight = weight * samples.counts[places]
        dt = None if samples.dt is None else samples.dt[places] * real
        # Without padding the model needs no mask.
        known = None if plan.even and samples.even else length.astype(np.int32)
        starting = None if plan.first is None else np.full(self.size, plan.first == 0)
        return Batch(samples.inputs[places], dt, known, None, targets, weight.astype(np.float32), starting)

    def assemble_part(self, samples, plan, part, parts):
        """As a segment, so that the whole batch is never in memory."""
        length = plan.length // parts
        batch = self.assemble(samples, plan._replace(first=part * length, length=length))
        known = None if plan.even and samples.even else samples.spans(self._filled(plan))[1].astype(np.int32)
        weight = batch.weight if samples.per_step or part == 0 else np.zeros_like(batch.weight)
        return batch._replace(length=known, weight=weight, starts=None)

    def _filled(self, plan: Plan) -> Int[np.ndarray, " B"]:
        """The samples of a batch. One that is not full repeats its first sample: one shape, and no empty sequence."""
        chosen = np.concatenate(plan.rows)
        return np.concatenate([chosen, np.full(self.size - len(chosen), chosen[0])])


@dataclass(frozen=True)
class Segments(Buckets):
    """Batches of an epoch are cut into segments of `longest` events, which follow each other.

    Batches in order, for validation, hold whole sequences.
    """

    longest: int = 1

    def epoch(self, lengths, seed, epoch):
        return [part for plan in super().epoch(lengths, seed, epoch) for part in self._cut(plan)]

    def _cut(self, plan: Plan) -> list[Plan]:
        if plan.length <= self.longest:
            return [plan._replace(first=0)]
        cut = plan._replace(length=self.longest, even=False)
        return [cut._replace(first=first) for first in range(0, plan.length, self.longest)]


@dataclass(frozen=True)
class Packing(Batching):
    """Packs sequences into rows of `length` events (0: the longest length), each starting at a multiple of `stride`.

    There is hardly any padding, even if lengths differ widely. `S7Model.packed` keeps the sequences separate.
    """

    length: int = 0
    stride: int = 1

    def plan(self, lengths, order):
        taken = -(-lengths // self.stride) * self.stride
        length = self.row_length(lengths)
        rows: list[list[int]] = []
        free: list[int] = []
        # Fixed for a data set, so that there is one shape.
        most = max(1, int(2 * length // lengths.mean()))
        for n in order:
            # First fit among the most recent rows: close to the optimum without a search through all rows.
            for row in range(max(0, len(rows) - 32), len(rows)):
                if free[row] >= taken[n] and len(rows[row]) < most:
                    break
            else:
                row = len(rows)
                rows.append([])
                free.append(length)
            rows[row].append(int(n))
            free[row] -= int(taken[n])
        arrays = [np.array(row) for row in rows]
        return [Plan(arrays[start : start + self.size], length, most) for start in range(0, len(arrays), self.size)]

    def row_length(self, lengths: Int[np.ndarray, " N"]) -> int:
        """Returns the length of a row."""
        longest = int(lengths.max())
        if self.length and self.length < longest:
            raise ValueError(f"pack={self.length} is shorter than the longest sequence, {longest}")
        return self.rounded(-(-(self.length or longest) // self.stride) * self.stride)

    def assemble(self, samples, plan):
        if samples.documents > 1:
            raise ValueError(f"train.pack: {samples.name} are pairs of documents, which cannot be packed")
        shape = (self.size, plan.length)
        places = np.zeros(shape, np.int64)
        segments = np.full(shape, -1, np.int32)
        chosen = np.zeros((self.size, plan.samples), np.int64)
        weight = np.zeros((self.size, plan.samples), np.float32)
        for row, members in enumerate(plan.rows[: plan.counted]):
            sizes = samples.lengths[members]
            taken = -(-sizes // self.stride) * self.stride
            starts = np.concatenate([[0], np.cumsum(taken)])[:-1]
            within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            at = within + np.repeat(starts, sizes)
            places[row, at] = within + np.repeat(samples.offsets[members], sizes)
            segments[row, at] = np.repeat(np.arange(len(members)), sizes)
            chosen[row, : len(members)] = members
            weight[row, : len(members)] = 1
        real = segments >= 0
        targets = samples.targets[chosen]
        if samples.per_step:
            targets = samples.targets[places]
            weight = real.astype(np.float32)
            if samples.counts is not None:
                weight = weight * samples.counts[places]
        dt = None if samples.dt is None else samples.dt[places] * real
        return Batch(samples.inputs[places], dt, None, segments, targets, weight)


def bucket_bounds(lengths: Int[np.ndarray, " N"], buckets: int) -> Int[np.ndarray, " K"]:
    """Returns at most `buckets` lengths to pad to that minimise padding, by dynamic programming."""
    if buckets < 1:
        raise ValueError(f"buckets={buckets} must be at least 1")
    # The best bounds are lengths that occur. Of many lengths, 128 evenly spread ones suffice.
    candidates = np.unique(lengths)
    if len(candidates) > 128:
        candidates = candidates[np.unique(np.linspace(0, len(candidates) - 1, 128).round().astype(int))]
    members = np.searchsorted(np.sort(lengths), candidates, side="right")
    count = len(candidates)
    before = np.concatenate([[0], members])
    # cost[i, j]: places taken when all sequences above candidate i - 1 and up to candidate j are padded to the latter.
    cost = (members[None, :] - before[:count, None]) * candidates[None, :].astype(float)
    cost[np.tril_indices(count, -1)] = np.inf
    best = cost[0]
    cuts: list[np.ndarray] = []
    for _ in range(min(buckets, count) - 1):
        through = best[:-1, None] + cost[1:, :]
        cut = np.argmin(through, 0)
        better = through[cut, np.arange(count)] < best
        cuts.append(np.where(better, cut, -1))
        best = np.where(better, through[cut, np.arange(count)], best)
    bounds, at = [count - 1], count - 1
    for cut in reversed(cuts):
        if cut[at] >= 0:
            at = int(cut[at])
            bounds.append(at)
    return candidates[sorted(bounds)]


def _places(
    starts: Int[np.ndarray, "*B"], lengths: Int[np.ndarray, "*B"], length: int
) -> tuple[Int[np.ndarray, "*B L"], Bool[np.ndarray, "*B L"]]:
    """The index of the event at each place of a batch, and whether it is an event rather than padding."""
    within = np.arange(length)
    real = within < lengths[..., None]
    return starts[..., None] + np.minimum(within, np.maximum(lengths[..., None], 1) - 1), real
