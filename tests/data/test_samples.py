"""Samples: arrays and lists are stored unchanged, and bad data are rejected with their position."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from s7.data import Samples

lengths = st.lists(st.integers(1, 5), min_size=1, max_size=6)


def ragged(sizes, *shape):
    """Arrays of these lengths, no number twice."""
    ends = np.cumsum([0, *sizes])
    numbers = np.arange(ends[-1] * int(np.prod(shape))).reshape(-1, *shape)
    return [numbers[start:end] for start, end in pairwise(ends)]


def falling(sizes):
    """Gaps of these lengths, no number twice; increasing ones would be taken for times."""
    return [row[::-1].astype(float) for row in ragged(sizes)]


def test_arrays_are_taken_as_they_are():
    inputs = np.arange(24.0).reshape(3, 4, 2)
    samples = Samples.of(inputs, np.array([0, 1, 0]), np.ones((3, 4)))
    assert np.shares_memory(samples.inputs, inputs)
    assert samples.offsets.tolist() == [0, 4, 8, 12]
    assert samples.event_shape == (2,)
    assert len(samples) == 3
    assert samples.even
    assert not samples.per_step
    assert samples.dt is not None
    assert samples.dt.dtype == np.float32


@given(lengths)
def test_lists_are_concatenated(sizes):
    inputs, gaps, targets = ragged(sizes, 2), falling(sizes), ragged(sizes, 1)
    counts = [row == row.max() for row in gaps]
    samples = Samples.of(inputs, targets, gaps, counts)
    assert samples.lengths.tolist() == sizes
    assert samples.even == (len(set(sizes)) == 1)
    assert samples.per_step
    for n, (start, end) in enumerate(pairwise(samples.offsets)):
        for name, lists in (("inputs", inputs), ("targets", targets), ("dt", gaps), ("counts", counts)):
            assert getattr(samples, name)[start:end].tolist() == lists[n].tolist()


@pytest.mark.parametrize(
    ("targets", "said", "per_step"),
    [
        (np.zeros(3, int), None, False),
        (np.zeros((3, 2)), None, False),
        (np.zeros((3, 4)), None, True),
        (np.zeros((3, 4, 2)), None, True),
        (np.zeros((3, 4)), False, False),
        ([np.zeros(4), np.zeros(4), np.zeros(4)], None, True),
        ([0.5, 1.5, 2.5], None, False),
    ],
    ids=str,
)
def test_targets_per_step_are_inferred_or_given(targets, said, per_step):
    samples = Samples.of(np.zeros((3, 4, 1)), targets, per_step=said)
    assert samples.per_step == per_step
    assert len(samples.targets) == (12 if per_step else 3)


def data(**changes):
    """Good samples of lengths 3, 4 and 2, with some things changed: (what, sequence, event or None, value)."""
    sizes = (3, 4, 2)
    parts = {
        "inputs": [q.astype(float) for q in ragged(sizes, 2)],
        "targets": [q.astype(float) for q in ragged(sizes, 2)],
        "dt": [q.astype(float) for q in ragged(sizes)],
        "counts": [q >= 0 for q in ragged(sizes)],
    }
    return {**parts, **changes, "name": "valid"}


def altered(what, sequence, event, value):
    arrays = data()[what]
    arrays[sequence][event] = value
    return data(**{what: arrays})


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            altered("inputs", 1, 2, np.nan),
            r"inputs of sequence 1, event 2, feature 0 is not finite \(nan\); missing values are not",
        ),
        (altered("inputs", 0, 0, np.inf), r"inputs of sequence 0, event 0, feature 0 is not finite \(inf\)"),
        (altered("targets", 1, 3, np.nan), r"targets of sequence 1, event 3, feature 0 is not finite \(nan\)"),
        (altered("dt", 2, 1, np.nan), r"dt of sequence 2, event 1 is not finite \(nan\)"),
        (altered("dt", 1, 0, -2), r"dt of sequence 1, event 0 is negative \(-2.0\); sort the events by time"),
        (data(targets=["a", None, "b"]), "target 1 is None, expected a string"),
        (data(targets=[0.5, np.nan, 1.5]), r"targets of sequence 1 is not finite \(nan\)"),
        (data(inputs=[]), "there are no sequences"),
        (data(inputs=np.zeros(3)), "inputs are single numbers, expected sequences"),
        (data(inputs=[np.zeros((3, 2)), np.zeros((0, 2)), np.zeros((2, 2))]), "sequence 1 is empty; leave it out"),
        (data(targets=[1, 2]), "3 sequences but 2 targets"),
        (data(dt=[np.zeros(3), np.zeros(4)]), "dt: 2 of them for 3 sequences"),
        (data(dt=[np.zeros(3), np.zeros(3), np.zeros(2)]), r"dt of sequence 1 have shape \(3,\), expected 4 events"),
        (data(dt=np.zeros((3, 4))), r"dt have shape \(3, 4\), expected \(3, 3, ...\)"),
        (data(counts=[True, True, True]), r"counts of sequence 0 have shape \(\), expected 3 events"),
        (data(counts=[np.zeros(n, bool) for n in (3, 4, 2)]), "no event counts"),
        (
            data(inputs=[np.zeros((3, 2)), np.zeros((4, 1)), np.zeros((2, 2))]),
            r"inputs of sequence 1 have shape \(4, 1\), the first \(3, 2\)",
        ),
        (
            data(targets=[np.zeros(3), np.zeros(5), np.zeros(2)], per_step=True),
            r"targets of sequence 1 have shape \(5,\), expected 4 events",
        ),
        pytest.param(
            data(targets=[np.zeros(3), np.zeros(5), np.zeros(2)]),
            "targets of sequence 1",
        ),
    ],
)
def test_invalid_training_data_are_rejected(given, message):
    with pytest.raises(ValueError, match=f"^valid: {message}"):
        Samples.of(**given)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.array([0, 3, 4]), r"label of sequence 2 is outside of 0 to 3 \(4\)"),
        (np.array([0, -1, 2]), r"label of sequence 1 is outside of 0 to 3 \(-1\)"),
        (np.array([[0, 0], [1, 9], [1, 1]]), r"label of sequence 1, event 1 is outside of 0 to 3 \(9\)"),
        (np.array([0.0, 1.0, 2.0]), "labels must be whole numbers, not float64"),
    ],
)
def test_an_invalid_label_is_rejected(targets, message):
    samples = Samples.of(np.zeros((3, 2, 1)), targets, name="test")
    with pytest.raises(ValueError, match=f"^test: {message}"):
        samples.require_labels(4)


def test_times_passed_as_gaps_are_rejected():
    moments = np.arange(20).astype("datetime64[s]").reshape(2, 10)
    for dt, message in (
        (moments, "datetimes or timedeltas, expected numbers; use dt=s7.gaps"),
        (moments - moments[0, 0], "datetimes or timedeltas"),
        ([list(row.astype(object)) for row in moments], "datetimes or timedeltas"),
        ([["1", "2"]] * 2, "dt holds <U1, expected numbers"),
    ):
        with pytest.raises(TypeError, match=f"^train: dt.*{message}|^train: {message}"):
            Samples.of(np.zeros((2, np.shape(dt)[1], 1)), [0, 1], dt, name="train")
    with pytest.raises(
        ValueError, match=r"^train: dt increases .* starts with 1700000000, 1700000001, 1700000002\), so"
    ):
        Samples.of(np.zeros((2, 10, 1)), [0, 1], 1.7e9 + np.arange(20.0).reshape(2, 10), name="train")


def test_labels_of_all_classes_are_taken():
    Samples.of(np.zeros((4, 2, 1)), np.arange(4, dtype=np.uint8)).require_labels(4)


@given(lengths, st.data(), st.booleans())
def test_taking_is_slicing(sizes, draw, per_step):
    chosen = draw.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=6))
    targets = ragged(sizes, 1) if per_step else np.arange(len(sizes))
    parts = {"inputs": ragged(sizes, 2), "dt": falling(sizes), "counts": [q >= 0 for q in ragged(sizes)]}
    samples = Samples.of(targets=targets, per_step=per_step, name="train", **parts)
    taken = samples.take(chosen)
    assert taken.name == "train"
    assert samples.take(chosen, "few").name == "few"
    assert taken.per_step == per_step
    assert taken.lengths.tolist() == [sizes[n] for n in chosen]
    for place, n in enumerate(chosen):
        start, end = taken.offsets[place : place + 2]
        for name, lists in parts.items():
            assert getattr(taken, name)[start:end].tolist() == lists[n].tolist()
        mine = taken.targets[start:end] if per_step else taken.targets[place]
        assert mine.tolist() == targets[n].tolist()


def test_the_digest_is_that_of_all_arrays():
    def digest(**changes):
        return Samples.of(**data(**changes)).digest()

    others = [
        altered(what, 1, 1, value) for what, value in (("inputs", 7), ("targets", 7), ("dt", 7), ("counts", False))
    ]
    others += [data(dt=None), data(counts=None), data(inputs=[q.astype(np.float32) for q in data()["inputs"]])]
    assert digest() == digest()
    assert len({digest(), *(digest(**other) for other in others)}) == 1 + len(others)
    # The same events in sequences of other lengths.
    assert Samples.of(np.zeros((2, 3)), [0, 1]).digest() != Samples.of(np.zeros((3, 2)), [0, 1, 1]).digest()
    assert Samples.of(ragged((2, 3)), [0, 1]).digest() != Samples.of(ragged((3, 2)), [0, 1]).digest()


def test_the_digest_does_not_depend_on_the_memory_layout():
    inputs = np.arange(24.0).reshape(2, 3, 4)
    turned = np.asfortranarray(inputs)
    assert Samples.of(turned, [0, 1]).digest() == Samples.of(inputs, [0, 1]).digest()
