"""Batches that a background thread prepares equal those built directly, and its errors are raised."""

import time
from contextlib import closing
from dataclasses import dataclass
from threading import active_count, current_thread

import numpy as np
import pytest

from s7.data.batching import Buckets, Packing
from s7.data.loader import Augmentation, Loader
from s7.data.samples import Samples


@dataclass(frozen=True)
class Halved(Augmentation):
    """Half of each sequence, from a place drawn by (seed, epoch, sample)."""

    def longest(self, lengths):
        return -(-lengths // 2)

    def __call__(self, samples, chosen, seed, epoch):
        parts = []
        for n in chosen:
            one = samples.take([int(n)]).inputs
            size = -(-len(one) // 2)
            start = np.random.default_rng([seed, epoch, n]).integers(len(one) - size + 1)
            parts.append(one[start : start + size])
        return Samples.of(parts, samples.targets[chosen], per_step=False, name=samples.name)


@pytest.fixture
def samples():
    lengths = [5, 8, 3, 9, 4, 7, 2]
    inputs = [100 * n + np.arange(length) for n, length in enumerate(lengths)]
    return Samples.of(inputs, np.arange(len(lengths)), per_step=False, name="train")


def as_lists(batch):
    return [None if q is None else q.tolist() for q in batch]


@pytest.mark.parametrize("batching", [Buckets(3, 2), Packing(2, 16)], ids=["padded", "packed"])
@pytest.mark.parametrize("augmentation", [None, Halved()], ids=["as it is", "varied"])
def test_prefetched_batches_equal_those_built_directly(samples, batching, augmentation):
    loader = Loader(samples, batching, 3, augmentation)
    plans = loader.plans(1)
    one_by_one = [as_lists(loader.batch(plan, 1)) for plan in plans]
    assert [as_lists(batch) for batch in loader.batches(plans, 1)] == one_by_one
    # From the middle, as after a restart.
    assert [as_lists(batch) for batch in loader.batches(plans[1:], 1)] == one_by_one[1:]


def test_augmentation_depends_on_the_sample_and_the_epoch_only(samples):
    def varied(size, epoch):
        loader = Loader(samples, Buckets(size, 1), 3, Halved())
        rows = {}
        for plan in loader.plans(epoch):
            batch = loader.batch(plan, epoch)
            for row, length, members in zip(batch.inputs, batch.length, plan.rows, strict=False):
                rows[int(members[0])] = row[:length].tolist()
        return rows

    assert varied(2, 0) == varied(5, 0)
    assert varied(2, 0) != varied(2, 1)
    assert all(row[0] // 100 == n for n, row in varied(2, 0).items())


def test_batches_are_as_long_as_varied_samples_can_get(samples):
    assert max(plan.length for plan in Loader(samples, Buckets(3), 0).plans(0)) == 9
    assert max(plan.length for plan in Loader(samples, Buckets(3), 0, Halved()).plans(0)) == 5


class Broken(Halved):
    """Fails at one sample, in any thread."""

    def __call__(self, samples, chosen, seed, epoch):
        if 3 in chosen:
            raise ValueError(f"sample 3 is bad ({current_thread().name})")
        return super().__call__(samples, chosen, seed, epoch)


def test_an_error_is_raised_where_the_batch_is_asked_for(samples):
    loader = Loader(samples, Buckets(1, 1), 0, Broken())
    plans = loader.plans(0)
    before = [plan.rows[0][0] for plan in plans].index(3)
    batches = loader.batches(plans, 0)
    for _ in range(before):
        next(batches)
    with pytest.raises(ValueError, match=r"^sample 3 is bad \(s7 loader\)$"):
        next(batches)


def test_a_reader_that_stops_early_leaves_no_thread_behind(samples):
    loader = Loader(samples, Buckets(1, 1), 0)
    before = active_count()
    with closing(loader.batches(loader.plans(0) * 50, 0)) as batches:
        next(batches)
        assert active_count() == before + 1
    deadline = time.monotonic() + 10
    while active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert active_count() == before


def test_pairs_of_documents_share_a_row():
    documents = [np.arange(n) + 10 * n for n in (3, 5, 2, 4)]
    samples = Samples.of(documents, np.array([0, 1]), name="pairs", documents=2)
    assert len(samples) == 2
    assert samples.lengths.tolist() == [5, 4]
    (batch,) = Buckets(2, 1).batches(samples, Buckets(2, 1).in_order(samples))
    assert batch.inputs.shape == (2, 2, 5)
    assert batch.length.tolist() == [[3, 5], [2, 4]]
    assert batch.inputs[1, 1, :4].tolist() == [40, 41, 42, 43]
    assert batch.targets.tolist() == [0, 1]
    assert samples.take([1]).inputs.tolist() == [20, 21, 40, 41, 42, 43]
    with pytest.raises(ValueError, match=r"^pairs: 4 sequences but 3 targets, 2 documents each$"):
        Samples.of(documents, np.array([0, 1, 1]), name="pairs", documents=2)
    with pytest.raises(ValueError, match=r"^train.pack: pairs are pairs of documents, which cannot be packed$"):
        Packing(2).assemble(samples, Packing(2).in_order(samples)[0])
