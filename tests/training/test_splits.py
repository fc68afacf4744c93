"""Preparation of training data: labels, validation fractions, gaps, and rejected inputs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import s7
from s7.training.objectives import CrossEntropy, GaussianNLL, MeanSquared
from s7.training.splits import hold_out, prepare

SETTINGS = {"width": 4, "state": 3, "depth": 1, "form": s7.Static()}


def model(outputs=2, head=s7.Mean, **changes):
    settings = {"encoder": s7.LinearEncoder(1), "head": head(outputs), "key": jax.random.key(0)}
    return s7.S7Model(**settings | SETTINGS | changes)


def x(count=4, length=5):
    return np.random.default_rng(count).normal(size=(count, length, 1))


class Plain(eqx.Module):
    """A module of a user's own with 3 outputs."""

    weight: jax.Array

    def __call__(self, inputs, dt=None, length=None, *, key=None):
        return jnp.sum(inputs) * self.weight


PLAIN = Plain(jnp.ones(3))


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.array([1, 0, 1, 1]), (0, 1)),
        (np.array([[1], [0], [1], [1]]), (0, 1)),
        ([1, 0, 1, 1], (0, 1)),
        (np.array([True, False, True, True]), (False, True)),
        (np.array([[True], [False], [True], [True]]), (False, True)),
        (["yes", "no", "yes", "yes"], ("no", "yes")),
        (np.array(["yes", "no", "yes", "yes"]), ("no", "yes")),
        (pd.Series(["yes", "no", "yes", "yes"], index=[3, 2, 1, 0]), ("no", "yes")),
        (pd.Categorical(["yes", "no", "yes", "yes"], ["yes", "no"]), ("no", "yes")),
        (np.array([["yes"], ["no"], ["yes"], ["yes"]]), ("no", "yes")),
        (np.array([[0, 1], [1, 0], [0, 1], [0, 1]]), (0, 1)),
        (np.array([[0.0, 1], [1, 0], [0, 1], [0, 1]]), (0, 1)),
    ],
    ids=str,
)
def test_labels_of_every_kind_become_class_indices(labels, classes):
    prepared = prepare(model(), (x(), labels), (x(), labels), (x(), labels))
    for samples in prepared.splits.values():
        assert samples.targets.tolist() == [1, 0, 1, 1]
        assert samples.targets.dtype.kind == "i"
    assert prepared.model.config.classes == classes
    assert list(map(type, prepared.model.config.classes)) == list(map(type, classes))
    names = () if classes == (0, 1) and type(classes[0]) is int else tuple(map(str, classes))
    assert prepared.objective == CrossEntropy(2, names)


def test_one_hot_rows_of_the_sequence_length_are_one_target():
    targets = np.eye(3)[[0, 2, 1, 1]]
    prepared = prepare(model(3), (x(4, 3), targets), (x(4, 3), targets))
    assert prepared.splits["train"].targets.tolist() == [0, 2, 1, 1]
    vectors = targets + 0.5
    prepared = prepare(model(3), (x(4, 3), vectors), (x(4, 3), vectors))
    assert isinstance(prepared.objective, MeanSquared)
    assert not prepared.splits["train"].per_step


def test_labels_per_step_are_encoded():
    labels = [["a", "b"], ["b", "b", "c"]]
    inputs = [np.zeros((2, 1)), np.zeros((3, 1))]
    prepared = prepare(model(3, s7.PerStep), (inputs, labels), (inputs, labels))
    assert prepared.splits["valid"].targets.tolist() == [0, 1, 1, 1, 2]


def test_a_model_with_classes_keeps_them():
    named = model(3).with_classes(["low", "high", "none"])
    prepared = prepare(named, (x(), ["high", "low", "low", "high"]), (x(), ["none"] * 4))
    assert prepared.model.config.classes == ("low", "high", "none")
    assert prepared.splits["train"].targets.tolist() == [1, 0, 0, 1]
    assert prepared.splits["valid"].targets.tolist() == [2] * 4
    # Indices are taken as indices of named classes, and as values of numbered ones.
    assert prepare(named, (x(), [2, 1, 0, 0]), 0.5).objective.names == ("low", "high", "none")
    numbered = prepare(model(2).with_classes([3, 7]), (x(), [3, 7, 7, 3]), 0.5)
    assert sorted([*numbered.splits["train"].targets, *numbered.splits["valid"].targets]) == [0, 0, 1, 1]


def test_numbers_mean_regression():
    prepared = prepare(model(1), (x(), [0.5, 1, 2, 3]), (x(), [0.5, 1, 2, 3]))
    assert isinstance(prepared.objective, MeanSquared)
    assert prepared.model.config.classes == ()
    asked = prepare(model(1), (x(), [1, 2, 3, 4]), (x(), [1.0, 2, 3, 4]), objective=MeanSquared(1))
    assert asked.splits["train"].targets.tolist() == [[1], [2], [3], [4]]
    assert asked.splits["train"].targets.dtype.kind == "f"
    prepare(model(2), (x(), [1, 2, 3, 4]), (x(), [1.0, 2, 3, 4]), objective=GaussianNLL(1))


def test_any_module_will_do():
    prepared = prepare(PLAIN, (x(), [0, 1, 0, 1]), 0.5)
    assert prepared.objective == CrossEntropy(3)
    assert prepared.model is PLAIN


def test_a_fraction_is_held_out_by_class():
    labels = np.repeat([0, 1, 2], [60, 30, 2])
    samples = s7.Samples.of(np.arange(92.0)[:, None, None], labels, per_step=False)
    train, valid = hold_out(samples, 0.1, seed=3)
    assert np.bincount(valid.targets).tolist() == [6, 3, 1]
    assert np.bincount(train.targets).tolist() == [54, 27, 1]
    assert sorted([*train.inputs.ravel(), *valid.inputs.ravel()]) == list(range(92))
    assert (train.name, valid.name) == ("train", "valid")
    assert hold_out(samples, 0.1, seed=3)[1].digest() == valid.digest()
    assert hold_out(samples, 0.1, seed=4)[1].digest() != valid.digest()


def test_a_fraction_of_numbers_is_random():
    prepared = prepare(model(1), (x(20), np.linspace(0, 0.9, 20)), valid=0.25)
    assert {name: len(samples) for name, samples in prepared.splits.items()} == {"train": 15, "valid": 5}


def test_the_time_unit_is_the_mean_gap_of_the_training_data():
    dt = np.array([[9.0, 2, 1, 3, 2]] * 4)
    data = (x(), [0, 1, 0, 1], dt)
    assert prepare(model(), data, data).model.config.time_unit == 2
    assert prepare(model(time_unit=1.0), data, data).model.config.time_unit == 1
    assert prepare(model(), data[:2], data[:2]).model.config.time_unit is None


def test_seconds_and_milliseconds_give_the_same_model():
    rng = np.random.default_rng(0)
    seconds = rng.exponential(0.2, size=(12, 6))
    inputs, labels = rng.normal(size=(12, 6, 1)), np.arange(12) % 2
    models = [
        s7.train(model(), (inputs, labels, scale * seconds), valid=0.25, epochs=2, batch_size=4).model
        for scale in (1, 1000)
    ]
    answers = [
        jax.vmap(trained)(inputs, scale * seconds.astype(np.float32))
        for trained, scale in zip(models, (1, 1000), strict=True)
    ]
    np.testing.assert_allclose(*answers, rtol=1e-4, atol=1e-5)
    assert models[1].config.time_unit == pytest.approx(1000 * models[0].config.time_unit)


GOOD = (x(), [0, 1, 0, 1])
GAPS = (*GOOD, np.ones((4, 5)))
TOKENS = {"encoder": s7.TokenEncoder(5)}


def tokens(value, dtype=int):
    events = np.zeros((4, 5), dtype)
    events[2, 3] = value
    return events, [0, 1, 0, 1]


def altered(value):
    inputs = x()
    inputs[1, 2] = value
    return inputs, [0, 1, 0, 1]


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("one", "train", "valid", "message"),
    [
        (model(**TOKENS), tokens(0), tokens(77), r"valid: token of sequence 2, event 3 is outside of 0 to 4 \(77\)"),
        (model(**TOKENS), tokens(-1), tokens(0), r"train: token of sequence 2, event 3 is outside of 0 to 4 \(-1\)"),
        (model(**TOKENS), tokens(0, float), tokens(0), "train: tokens must be whole numbers, not float64"),
        (model(), altered(np.nan), GOOD, r"train: inputs of sequence 1, event 2 is not finite \(nan\); missing values"),
        (model(), GOOD, altered(np.inf), r"valid: inputs of sequence 1, event 2 is not finite \(inf\)"),
        (model(), GAPS, GOOD, r"train has gaps \(dt\) but valid has none; pass gaps for all splits or for none"),
        (model(), GOOD, GAPS, r"valid has gaps \(dt\) but train has none"),
        (model(), GOOD, (*GOOD, -np.ones((4, 5))), "valid: dt of sequence 0, event 0 is negative"),
        (model(), (x()[..., 0], [0, 1, 0, 1]), GOOD, r"train: an event has shape \(\), the encoder reads \(1,\)"),
        (model(), GOOD, None, "valid is None; pass samples, or a fraction .* such as valid=0.1"),
        (model(), GOOD, 1.5, "valid=1.5 must be samples or a fraction of the training data between 0 and 1"),
        (model(), (x(1), [0]), 0.5, "valid=0.5: no class has two sequences"),
        (model(), GOOD, x(), "valid: expected s7.Samples or a tuple"),
        (model(), (x(), [0.0, 1, 0, 1]), GOOD, "train: .* Is this classification or regression.* y.astype.int. .*Mean"),
        (model(1), (x(), np.ones((4, 1))), GOOD, "train: .* Is this classification or regression"),
        (model(1), GOOD, GOOD, "train: targets are whole numbers and the model has 1 output: for classification use"),
        (
            model(1),
            (x(), [True, False] * 2),
            GOOD,
            r"train: 2 classes \(False, True\) but the model has 1 outputs; use",
        ),
        (
            model(2),
            (x(), list("abca")),
            GOOD,
            r"train: 3 classes \(a, b, c\) but the model has 2 outputs; use outputs=3",
        ),
        (model(2), (x(), list("abba")), (x(), list("abbc")), r"valid: label of sequence 3 is not a known class \(c\)"),
        (model(2), (x(), [0, 1, 2, 0]), GOOD, r"train: label of sequence 2 is outside of 0 to 1 \(2\)"),
        (model(3), (x(), np.array([[1, 2, 3]] * 4)), GOOD, r"train: targets of shape \(3,\) are neither labels nor"),
        (model(2), (x(), np.eye(2)[[0, 1, 0, 1]]), (x(), np.eye(2)[[0, 1, 0, 1]] + 1), "valid: target of sequence 0"),
        (model(2), (x(), ["a", None, "b", "b"]), GOOD, "train: target 1 is None, expected a string"),
        (model(2), (x(), [1, "b", "b", "a"]), GOOD, "train: target 1 is 'b', expected a number like target 0, 1"),
        (model(2), (x(), [1, 2, 1, 2]), GOOD, r"train: label of sequence 1 is outside of 0 to 1 \(2\); number the"),
        (model(), (*GOOD, 0.5), GOOD, "train: dt: expected 4 sequences, not 0.5"),
        (abs, GOOD, GOOD, "model: expected an S7Model or another Equinox module, not a builtin_function"),
        (PLAIN, (x(), list("abcc")), GOOD, "train: Plain cannot store class names; pass class indices"),
    ],
)
def test_invalid_training_data_are_rejected(one, train, valid, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        prepare(one, train, valid)


def test_training_rejects_before_the_first_step():
    with pytest.raises(ValueError, match="train: token of sequence 2, event 3 is outside of 0 to 4"):
        s7.train(model(**TOKENS), tokens(77), tokens(0), epochs=1)


def test_a_model_with_a_unit_of_time_needs_gaps():
    x = np.zeros((4, 5, 1), np.float32)
    model = s7.S7Model(encoder=s7.LinearEncoder(1), head=s7.Mean(2), width=2, state=2, depth=1, key=jax.random.key(0))
    with pytest.raises(ValueError, match="train: the model has a unit of time, so it reads gaps; pass dt"):
        prepare(model.with_time_unit(2.0), (x, np.array([0, 1, 0, 1])), (x, np.array([0, 1, 0, 1])))
