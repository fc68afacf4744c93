"""Predictions for sequences of any lengths are those of the model, in the order of the sequences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import s7
from s7 import inference
from s7.data import Buckets
from s7.training import CrossEntropy, MeanSquared
from s7.training import evaluate as evaluate_in_training

SETTINGS = {"width": 4, "state": 3, "depth": 1, "form": s7.Static(), "dtype": "float64"}


def model(head, **changes):
    return s7.S7Model(encoder=s7.LinearEncoder(2), head=head, key=jax.random.key(0), **SETTINGS | changes)


def ragged(lengths=(3, 20, 3, 1), seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, 2)) for n in lengths], [rng.exponential(size=n).astype(np.float32) for n in lengths]


CLASSIFIER = model(s7.Mean(3)).with_classes(["high", "low", "none"])


def each(one, inputs, dt=None):
    """The model called on each sequence."""
    call = eqx.filter_jit(one)  # compiled as a whole: quicker than operation by operation
    return [np.asarray(call(q, None if dt is None else dt[n])) for n, q in enumerate(inputs)]


def test_predictions_are_those_of_the_model_on_each_sequence():
    inputs, dt = ragged()
    logits = np.stack(each(CLASSIFIER, inputs, dt))
    labels = s7.predict(CLASSIFIER, inputs, dt)
    assert labels.tolist() == [("high", "low", "none")[n] for n in logits.argmax(-1)]
    found = s7.predict_proba(CLASSIFIER, inputs, dt)
    np.testing.assert_allclose(found, jax.nn.softmax(logits, -1), rtol=1e-12)


@pytest.mark.parametrize(("head", "outputs", "stride"), [(s7.Mean, 1, 1), (s7.PerStep, 2, 1), (s7.PerStep, 1, 2)])
def test_regression_predicts_numbers(head, outputs, stride):
    settings = {name: value for name, value in SETTINGS.items() if name != "depth"} | {"stages": (s7.Stage(1, stride),)}
    one = s7.S7Model(encoder=s7.LinearEncoder(2), head=head(outputs), key=jax.random.key(1), **settings)
    inputs, dt = ragged((5, 20))
    found = s7.predict(one, inputs, dt)
    for mine, theirs in zip(found, each(one, inputs, dt), strict=True):
        np.testing.assert_allclose(mine, theirs[..., 0] if outputs == 1 else theirs, rtol=1e-12)


def test_arrays_frames_and_samples_will_do():
    inputs, dt = ragged((6, 6, 6))
    expected = s7.predict_proba(CLASSIFIER, inputs, dt)
    frames = [pd.DataFrame(q, columns=["a", "b"]) for q in inputs]
    for given_inputs, given_dt in (
        (np.stack(inputs), np.stack(dt)),
        (frames, dt),
        (s7.Samples.of(inputs, ["low", "high", "low"], dt), None),
    ):
        assert np.array_equal(s7.predict_proba(CLASSIFIER, given_inputs, given_dt), expected)
    assert s7.predict(model(s7.PerStep(1)), np.stack(inputs)).shape == (3, 6)


@pytest.mark.parametrize("labels", [[False, True], [0, 1], ["no", "yes"], [3, 7]], ids=str)
def test_labels_keep_their_type_also_after_loading(tmp_path, labels):
    inputs, _ = ragged((3, 4))
    one = s7.load(s7.save(model(s7.Mean(2)).with_classes(labels), tmp_path))
    found = s7.predict(one, inputs).tolist()
    assert set(found) <= set(labels)
    assert {type(label) for label in found} == {type(labels[0])}


def test_training_on_labels_and_predicting_labels():
    inputs, dt = ragged((6, 9, 8, 7, 6, 9, 8, 7))
    labels = pd.Series(["up", "down"] * 4, dtype="category")
    untrained = model(s7.Mean(2))
    trained = s7.train(untrained, (inputs, labels, dt), valid=0.25, epochs=1, batch_size=4).model
    assert set(s7.predict(trained, inputs, dt)) <= {"up", "down"}
    assert set(s7.evaluate(trained, (inputs, labels, dt))) == {"loss", "accuracy"}


@given(st.integers(1, 10_000))
def test_lengths_are_rounded_up_to_few(length):
    rounded = inference.rounded_length(length)
    assert length <= rounded <= max(16, 3 * length // 2 + 1)
    assert rounded == inference.rounded_length(rounded)
    assert rounded in {q << n for q in (2, 3) for n in range(14)}


@given(st.lists(st.integers(1, 200), min_size=1, max_size=300))
def test_every_sequence_is_in_one_batch(lengths):
    plans = inference._plans(np.array(lengths))
    members = np.concatenate([row for plan, _ in plans for row in plan.rows])
    assert sorted(members.tolist()) == list(range(len(lengths)))
    for plan, rows in plans:
        assert len(plan.rows) <= rows
        assert rows * plan.length <= max(inference.EVENTS, plan.length)
        assert max(lengths[row[0]] for row in plan.rows) <= plan.length


def test_nothing_is_compiled_twice(monkeypatch):
    traced = []

    def outputs(model, batch):
        traced.append(batch.inputs.shape)
        return inference.outputs(model, batch)

    monkeypatch.setattr(inference, "_outputs", eqx.filter_jit(outputs))
    for lengths in ((17, 20, 24), (24, 18), (19, 23, 22), (17,)):
        inputs, dt = ragged(lengths)
        s7.predict(CLASSIFIER, inputs, dt)
        s7.predict(jax.tree.map(lambda q: 2 * q, CLASSIFIER), inputs, dt)
    assert traced == [(4, 24, 2), (1, 24, 2)]


@pytest.mark.parametrize("name", ["labels", "numbers", "steps"])
def test_metrics_are_those_of_training(name):
    inputs, dt = ragged()
    rng = np.random.default_rng(1)
    if name == "labels":
        one, objective = CLASSIFIER, CrossEntropy(3)
        data = s7.Samples.of(inputs, rng.integers(0, 3, len(inputs)), dt)
        words = s7.Samples.of(inputs, np.array(CLASSIFIER.config.classes)[data.targets], dt)
        assert s7.evaluate(one, words) == s7.evaluate(one, data)
    elif name == "numbers":
        one, objective = model(s7.Mean(2)), MeanSquared(2)
        data = s7.Samples.of(inputs, rng.normal(size=(len(inputs), 2)), dt)
    else:
        one, objective = model(s7.PerStep(2)), MeanSquared(2)
        targets, counts = [rng.normal(size=(len(q), 2)) for q in inputs], [rng.random(len(q)) < 0.5 for q in inputs]
        data = s7.Samples.of(inputs, targets, dt, counts, per_step=True)
    expected = evaluate_in_training(one, data, objective, Buckets(3))
    assert s7.evaluate(one, data) == pytest.approx(expected, rel=1e-6)


def test_integer_targets_are_numbers_for_a_model_without_classes():
    inputs, _ = ragged((3, 4))
    assert set(s7.evaluate(model(s7.Mean(1)), (inputs, [1.0, 2.0]))) == {"loss", "mse", "rmse"}


class Plain(eqx.Module):
    """A module of a user's own."""

    weight: jax.Array

    def __call__(self, inputs, dt=None, length=None, *, key=None):
        real = jnp.arange(len(inputs)) < (len(inputs) if length is None else length)
        return jnp.sum(jnp.where(real[:, None], inputs, 0)) * self.weight


def test_any_module_that_can_be_trained_predicts():
    inputs, _ = ragged()
    one = Plain(jnp.arange(3.0))
    expected = np.stack(each(one, inputs))
    np.testing.assert_allclose(s7.predict(one, inputs), expected)
    np.testing.assert_allclose(s7.predict_proba(one, inputs).sum(-1), 1)
    labels = expected.argmax(-1)
    assert s7.evaluate(one, (inputs, labels))["accuracy"] == 1


def test_pairs_of_documents_are_predicted():
    one = s7.S7Model(encoder=s7.TokenEncoder(5), head=s7.Retrieval(), key=jax.random.key(0), **SETTINGS)
    first, second = np.array([1, 2, 3]), np.array([4, 0])
    expected = eqx.filter_jit(one)(np.array([[1, 2, 3], [4, 0, 0]]), None, np.array([3, 2]))
    np.testing.assert_allclose(s7.predict(one, [first, second])[0], expected, rtol=1e-12)


def bad(value):
    inputs, _ = ragged((3, 4))
    inputs[1][2, 0] = value
    return inputs


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: s7.predict(CLASSIFIER, bad(np.nan)), "inputs: inputs of sequence 1, event 2, feature 0 is not finite"),
        (
            lambda: s7.predict(CLASSIFIER, np.zeros((5, 2))),
            r"inputs are one sequence, expected several; pass \[inputs\]",
        ),
        (lambda: s7.predict(CLASSIFIER, np.zeros((5, 4, 3))), r"inputs: an event has shape \(3,\), the encoder reads"),
        (lambda: s7.predict(CLASSIFIER, bad(1), [-np.ones(3), np.ones(4)]), "inputs: dt of sequence 0, event 0 is neg"),
        (lambda: s7.predict(CLASSIFIER, []), "inputs: there are no sequences"),
        (
            lambda: s7.predict(CLASSIFIER.with_time_unit(2.0), bad(1)),
            "inputs: the model has a unit of time, .* pass dt",
        ),
        (lambda: s7.predict_proba(model(s7.Mean(2)), bad(1)), "the model has no classes, so its outputs are not prob"),
        (lambda: s7.evaluate(CLASSIFIER, (bad(1), ["low", "?"])), "data: label of sequence 1 is not a known class"),
        (
            lambda: s7.predict(CLASSIFIER, np.zeros((2, 20, 2)), np.arange(40).reshape(2, 20)),
            "inputs: dt increases throughout every sequence",
        ),
    ],
)
def test_invalid_inputs_are_rejected(use, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        use()
