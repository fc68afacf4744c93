"""Batches contain every sample once, unchanged, in few shapes; results do not depend on the batch of a sample."""

from itertools import combinations, pairwise

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import s7
from s7.data import Buckets, Packing, Samples
from s7.data.batching import Share, bucket_bounds
from s7.data.loader import Loader
from s7.training import CrossEntropy, MeanSquared, evaluate

lengths = st.lists(st.integers(1, 12), min_size=1, max_size=20)
sizes = st.integers(1, 5)
strides = st.integers(1, 4)


def make(lengths, *, per_step=False, counted=False):
    """Samples in which every event and every sequence has a distinct number."""
    starts = np.cumsum([0, *lengths])
    events = [np.arange(start, end) for start, end in pairwise(starts)]
    return Samples.of(
        events,
        events if per_step else np.arange(len(lengths)),
        [0.5 + row[::-1] for row in events],
        [row % 3 == 0 for row in events] if counted else None,
        per_step=per_step,
    )


def both(lengths, size, shapes, stride, extra=0):
    """The two ways to make batches."""
    longest = -(-max(lengths) // stride) * stride
    return Buckets(size, shapes), Packing(size), Packing(size, longest + extra, stride)


def parts(batch, plan):
    """The real events of each sample of a batch: (row, places in the row)."""
    for row, members in enumerate(plan.rows):
        if batch.segments is None:
            count = batch.inputs.shape[1] if batch.length is None else batch.length[row]
            yield row, 0, int(members[0]), np.arange(count)
        else:
            for number, n in enumerate(members):
                yield row, number, int(n), np.flatnonzero(batch.segments[row] == number)


def plans_as_lists(plans):
    return [([row.tolist() for row in plan.rows], plan.length) for plan in plans]


@settings(max_examples=50)
@given(lengths, sizes, st.integers(1, 4), strides, st.integers(0, 9), st.booleans())
def test_an_epoch_holds_every_target_once(lengths, size, shapes, stride, extra, per_step):
    samples = make(lengths, per_step=per_step)
    for batching in both(lengths, size, shapes, stride, extra):
        plans = batching.epoch(samples.lengths, seed=3, epoch=1)
        batches = list(batching.batches(samples, plans))
        targets = np.concatenate([batch.targets[batch.weight > 0].ravel() for batch in batches])
        assert sorted(targets) == sorted(samples.targets)
        assert {float(weight) for batch in batches for weight in batch.weight.ravel()} <= {0.0, 1.0}
        assert len({batch.inputs.shape for batch in batches}) <= (shapes if isinstance(batching, Buckets) else 1)
        assert all(batch.inputs.shape[0] == size for batch in batches)


@settings(max_examples=50)
@given(lengths, sizes, st.integers(1, 4), strides, st.integers(0, 9), st.booleans())
def test_rows_equal_the_samples_and_padding_has_no_gaps(lengths, size, shapes, stride, extra, per_step):
    samples = make(lengths, per_step=per_step, counted=per_step)
    for batching in both(lengths, size, shapes, stride, extra):
        for plan in batching.in_order(samples):
            batch = batching.assemble(samples, plan)
            assert batch.inputs.shape == (size, plan.length)
            real = np.zeros((size, plan.length), bool)
            for row, number, n, places in parts(batch, plan):
                one = samples.take([n])
                real[row, places] = True
                assert batch.inputs[row, places].tolist() == one.inputs.tolist()
                assert batch.dt[row, places].tolist() == one.dt.tolist()
                if per_step:
                    assert batch.targets[row, places].tolist() == one.targets.tolist()
                    assert batch.weight[row, places].tolist() == one.counts.tolist()
                elif batch.segments is None:
                    assert (batch.targets[row], batch.weight[row]) == (n, 1)
                else:
                    assert (batch.targets[row, number], batch.weight[row, number]) == (n, 1)
            rows = len(plan.rows)
            assert not batch.dt[:rows][~real[:rows]].any()
            assert not batch.weight[rows:].any()
            if per_step:
                assert not batch.weight[~real].any()


@settings(max_examples=50)
@given(lengths, sizes, strides, st.integers(0, 9))
def test_packed_sequences_start_at_multiples_of_the_stride_in_rows_of_one_length(lengths, size, stride, extra):
    samples = make(lengths)
    batching = Packing(size, -(-max(lengths) // stride) * stride + extra, stride)
    for plan in batching.in_order(samples):
        assert plan.length % stride == 0
        assert batching.length <= plan.length < batching.length + stride
        batch = batching.assemble(samples, plan)
        for _, _, n, places in parts(batch, plan):
            assert places[0] % stride == 0
            assert places.tolist() == list(range(places[0], places[0] + lengths[n]))


def test_an_epoch_without_gaps_has_none():
    samples = Samples.of([np.zeros(3), np.zeros(2)], [0, 1])
    for batching in (Buckets(2, buckets=1), Packing(2)):
        (batch,) = batching.batches(samples, batching.in_order(samples))
        assert batch.dt is None


def test_sequences_of_one_length_need_no_mask():
    batching = Buckets(2, buckets=1)
    (even,) = batching.batches(make([3, 3]), batching.in_order(make([3, 3])))
    (uneven,) = batching.batches(make([3, 2]), batching.in_order(make([3, 2])))
    assert even.length is None
    assert uneven.length.tolist() == [3, 2]


@given(lengths, st.integers(1, 5))
def test_buckets_waste_least(lengths, shapes):
    def places(bounds):
        return sum(min(bound for bound in bounds if bound >= length) for length in lengths)

    *lower, longest = np.unique(lengths).tolist()
    choices = [(*some, longest) for count in range(shapes) for some in combinations(lower, count)]
    bounds = bucket_bounds(np.array(lengths), shapes)
    assert len(bounds) <= shapes
    assert bounds.tolist() == sorted(set(bounds.tolist()))
    assert places(bounds) == min(map(places, choices))


def test_a_rare_length_has_a_bucket_too():
    assert bucket_bounds(np.array([10] * 400 + [1000, 5000]), 4).tolist() == [10, 1000, 5000]


@settings(max_examples=50)
@given(lengths, sizes, st.integers(1, 4), st.integers(0, 5), st.integers(0, 5))
def test_the_shares_of_all_processes_make_up_the_batches(lengths, size, processes, seed, epoch):
    samples = make(lengths)
    for batching in (Buckets(size), Packing(size)):
        plans = batching.epoch(samples.lengths, seed, epoch)
        assert plans_as_lists(plans) == plans_as_lists(batching.epoch(samples.lengths, seed, epoch))
        shares = [Loader(samples, batching, seed, share=Share(n, processes)) for n in range(processes)]
        for plan in plans:
            whole, parts = batching.assemble(samples, plan), [share.batch(plan, epoch) for share in shares]
            assert len({part.inputs.shape for part in parts}) == 1
            for name in ("inputs", "targets", "weight", "segments"):
                if getattr(whole, name) is None:
                    continue
                joined = np.concatenate([getattr(part, name) for part in parts])
                # The rows that fill the last shares have no weight.
                real = len(plan.rows)
                np.testing.assert_array_equal(joined[:real], getattr(whole, name)[:real])
                assert name != "weight" or not joined[real:].any()


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("batching", [Buckets(3, buckets=1, multiple=6), Packing(3, stride=2, multiple=6)])
def test_the_parts_of_sequences_make_up_the_batches(batching, per_step):
    samples = make([5, 11, 7, 8], per_step=per_step, counted=per_step)
    for plan in batching.epoch(samples.lengths, 0, 0):
        whole = batching.assemble(samples, plan)
        assert whole.inputs.shape[1] == plan.length == 12
        parts = [Share(part=n, parts=3).batch(batching, samples, plan) for n in range(3)]
        for name in ("inputs", "dt", "segments", *(("targets", "weight") if per_step else ())):
            if getattr(whole, name) is not None:
                joined = np.concatenate([getattr(part, name) for part in parts], 1)
                real = whole.weight > 0 if name == "targets" else np.ones(joined.shape, bool)
                np.testing.assert_array_equal(joined[real], getattr(whole, name)[real])
        for part in parts:
            np.testing.assert_array_equal(part.length, whole.length)
        if not per_step:
            np.testing.assert_array_equal(sum(part.weight for part in parts), whole.weight)


@pytest.mark.parametrize("batching", [Buckets(2), Packing(2)])
def test_epochs_and_seeds_differ(batching):
    samples = make([1, 2, 3, 4] * 5)
    orders = [plans_as_lists(batching.epoch(samples.lengths, seed, epoch)) for seed in (0, 1) for epoch in (0, 1)]
    assert all(a != b for a, b in combinations(orders, 2))


@pytest.mark.parametrize(
    ("batching", "waste"),
    [
        (Buckets(2, 1), 1 - 8 / 16),  # two batches of two rows of 4
        (Buckets(1, 1), 1 - 8 / 12),
        (Buckets(1, 3), 0),
        (Packing(1, 8), 0),
        (Packing(2, 8), 1 - 8 / 16),
        (Packing(1, 8, 4), 1 - 8 / 16),
    ],
    ids=str,
)
def test_waste_is_the_part_that_is_padding(batching, waste):
    assert batching.waste(make([3, 4, 1]).lengths) == pytest.approx(waste)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: Buckets(0), "batch_size=0 must be at least 1"),
        (lambda: Buckets(1, 0).in_order(make([1])), "buckets=0 must be at least 1"),
        (lambda: Packing(2, 7).in_order(make([3, 8])), "pack=7 is shorter than the longest sequence, 8"),
    ],
)
def test_invalid_settings_are_rejected(use, message):
    with pytest.raises(ValueError, match=message):
        use()


def test_a_pack_as_long_as_the_longest_sequence_is_long_enough():
    assert Packing(2, 10, stride=4).row_length(make([3, 10]).lengths) == 12


def model(head):
    """As small as can be: compiling it is all that takes time here."""
    small = {"encoder": s7.LinearEncoder(1), "width": 4, "state": 3, "form": s7.Static(), "norm": "none"}
    return s7.S7Model(key=jax.random.key(0), head=head, depth=1, dtype="float64", **small)


def noise(targets, counts=None):
    rng = np.random.default_rng(0)
    sizes = (5, 2, 7, 1, 6)
    inputs, dt = [rng.normal(size=(n, 1)) for n in sizes], [rng.exponential(size=n) for n in sizes]
    return Samples.of(inputs, targets(rng, sizes), dt, counts and [rng.random(n) < 0.5 for n in sizes])


@pytest.mark.parametrize(
    ("one", "samples", "objective", "stride"),
    [
        (
            model(s7.PerStep(2)),
            noise(lambda rng, sizes: [rng.normal(size=(n, 2)) for n in sizes], counts=True),
            MeanSquared(2),
            1,
        ),
        (
            model(s7.Last(3)),
            noise(lambda rng, sizes: rng.integers(0, 3, len(sizes))),
            CrossEntropy(3),
            3,
        ),
    ],
    ids=["per step", "per sequence"],
)
def test_packed_and_padded_batches_have_the_same_loss(one, samples, objective, stride):
    padded = evaluate(one, samples, objective, Buckets(2, buckets=1))
    packed = evaluate(one, samples, objective, Packing(2, 12, stride))
    assert packed == pytest.approx(padded, rel=1e-12)
