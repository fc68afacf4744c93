"""The estimators as scikit-learn and people use them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import s7
from s7.estimation.defaults import Traits, members_for, plan_for
from s7.sklearn import S7Classifier, S7Forecaster, S7Regressor

pytestmark = pytest.mark.usefixtures("as_users_see_it")

FREQUENCY = np.linspace(0.1, 1, 24)
X = np.sin(np.arange(40)[None] * FREQUENCY[:, None])
Y = np.where(FREQUENCY < 0.5, "slow", "fast")
# Checks of scikit-learn that do not apply to the regressor; the classifier passes all.
EXCEPTIONS = {
    "check_methods_subset_invariance": "outputs are float32, and batches of other sizes round differently",
}


@pytest.fixture(autouse=True)
def few_kernels(monkeypatch):
    monkeypatch.setattr("s7.estimation.fitting.KERNELS", 6)


def quick(kind=S7Classifier, **settings):
    return kind(**{"members": 0} | settings)


def trained(kind=S7Classifier, **settings):
    return kind(**{"members": 1, "steps": 2, "width": 8, "state": 4, "depth": 1, "patch": 4} | settings)


def test_scikit_learn_finds_nothing_wrong_with_the_classifier():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # of a conversion that a check makes on purpose
        check_estimator(quick(), on_skip=None)


def test_scikit_learn_finds_nothing_wrong_with_the_regressor():
    """The checks that differ from those of the classifier; all others are of code that both share."""
    checked = []
    for estimator, check in estimator_checks_generator(quick(S7Regressor)):
        name = getattr(check, "func", check).__name__
        if ("regress" in name or "supervised" in name) and name not in EXCEPTIONS:
            check(estimator)
            checked.append(name)
    assert len(checked) >= 5


def test_pipelines_cross_validation_grids_and_clones():
    pipeline = Pipeline([("scale", FunctionTransformer(lambda x: x * 2)), ("s7", quick())])
    assert cross_val_score(pipeline, X, Y, cv=3).mean() > 0.8
    found = GridSearchCV(trained(random_states=False), {"depth": [1, 2]}, cv=2).fit(X[::2], Y[::2])
    assert found.best_params_["depth"] in (1, 2)
    assert clone(trained()).get_params() == trained().get_params()


def test_lists_frames_and_arrays_give_the_same_answers():
    times = np.cumsum(np.random.default_rng(0).exponential(size=X.shape), 1)
    frames = [pd.DataFrame({"v": row}, index=when) for row, when in zip(X, times, strict=True)]
    long = pd.concat([part.reset_index(names="t").assign(id=n, y=Y[n]) for n, part in enumerate(frames)])
    first = quick().fit(X, Y, times=times).predict_proba(X, times=times)
    second = quick().fit(frames, Y).predict_proba(frames)
    model = quick().fit(long, "y", group="id", time="t")
    np.testing.assert_allclose(first, second)
    np.testing.assert_allclose(first, model.predict_proba(long.drop(columns="y")))
    assert model.score(long, "y") == model.score(long, Y)
    assert cross_val_score(quick(), frames, Y, cv=2).mean() > 0.6


def test_channels_first_is_asked_for_and_understood():
    both = np.stack([X, X[:, ::-1]], 1)
    one = quick(layout="channels_first").fit(both, Y).predict_proba(both)
    np.testing.assert_array_equal(one, quick().fit(both.transpose(0, 2, 1), Y).predict_proba(both.transpose(0, 2, 1)))
    with pytest.raises(ValueError, match="use layout='channels_first'"):
        quick().fit(X[:, None], Y)


def test_missing_values_and_lengths():
    x = X.copy()
    x[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    ragged = [row[: 30 + n % 3 * 5] for n, row in enumerate(x)]
    assert quick().fit(ragged, Y).score(ragged, Y) > 0.9


def test_training_explaining_and_saving(tmp_path):
    model = trained().fit(X, Y)
    again = s7.load(s7.save(model, tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.get_params() == model.get_params()
    figure = again.explain(X, 3)
    assert len(figure.axes) == 2
    with pytest.raises(ValueError, match="sample=99 is not one of the 24 series"):
        model.explain(X, 99)


def test_labels_and_numbers_for_each_step():
    y = [(row > 0).astype(int) for row in X]
    model = trained(patch=None, steps=20).fit(X, y)
    found = model.predict(X)
    assert [part.shape for part in found] == [(40,)] * 24
    assert model.score(X, y) > 0.5
    values = trained(S7Regressor, patch=None).fit(list(X), list(X)).predict(list(X))
    assert [part.shape for part in values] == [(40,)] * 24


def test_several_numbers():
    y = np.stack([FREQUENCY, -3 * FREQUENCY], 1)
    model = quick(S7Regressor).fit(X, y)
    assert model.predict(X).shape == y.shape
    assert model.score(X, y) > 0.8


def test_forecasts(tmp_path):
    model = S7Forecaster(3, steps=30, width=8, state=4, depth=1)
    x = np.sin(np.arange(300) / 4)
    model.fit(x)
    assert model.predict(x).shape == (1, 3, 1)
    assert model.score(x) > 0.2
    again = s7.load(s7.save(model, tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    with pytest.raises(ValueError, match="series 0 has 4 steps with values, too few for horizon=3"):
        model.fit(x[:4])
    with pytest.raises(ValueError, match="horizon=0 must be"):
        S7Forecaster(0).fit(x)


def test_a_budget_in_minutes_is_kept(monkeypatch):
    monkeypatch.setattr("s7.training.run.steps_within", lambda seconds, trainer: max(1, round(seconds)))
    model = trained(steps=500).fit(X, Y, minutes=0.1)
    assert model.score(X, Y) > 0.5
    with pytest.raises(ValueError, match="minutes=-1 must be positive"):
        quick().fit(X, Y, minutes=-1)


@pytest.mark.parametrize(
    ("settings", "x", "y", "message"),
    [
        ({}, X, ["a"] * 24, "one class"),
        ({}, X, [*Y[:5], "rare", *Y[6:]], "series 5: class 'rare' has one series; a class needs at least two"),
        ({}, X, None, "requires y to be passed"),
        ({}, X, Y[:5], "inconsistent numbers of samples"),
        ({}, X, "label", "y='label' names a column"),
        ({"members": -1}, X, Y, "members=-1 must be a whole number"),
        ({"random_states": False}, X, Y, "there is no model to fit"),
        ({}, np.full((24, 5, 2), [1, np.nan]), Y, "channel 1 has no values"),
        ({}, X, [None, *Y[1:]], "y of series 0 is missing; leave the series out"),
        ({}, X, np.where(np.arange(24) == 3, np.nan, 1), "y of series 3 is missing; leave the series out"),
        ({}, np.where(np.arange(40) == 7, "x", X.astype(object)), Y, "step 7 of series 0 is 'x', expected a number"),
    ],
)
def test_mistakes_are_named(settings, x, y, message):
    with pytest.raises(ValueError, match=message):
        quick(**settings).fit(x, y)


def test_an_estimator_is_fitted_before_use():
    with pytest.raises(NotFittedError):
        quick().predict(X)
    with pytest.raises(NotFittedError):
        quick().score(X, Y)
    with pytest.raises(ValueError, match="no trained model to explain"):
        quick().fit(X, Y).explain(X)
    with pytest.raises(ValueError, match="x has 2 channels, expected 1"):
        quick().fit(X[..., None], Y).predict(np.zeros((3, 40, 2)))


def test_times_are_given_to_fit_and_predict_or_to_neither():
    times = np.cumsum(np.ones_like(X), 1)
    with pytest.raises(ValueError, match="x has no times, but fit was given times"):
        quick().fit(X, Y, times=times).predict(X)
    with pytest.raises(ValueError, match="x has times, but fit was given none"):
        quick().fit(X, Y).predict(X, times=times)


@pytest.mark.parametrize("meaningful", [True, False])
def test_times_are_read_only_if_they_help(meaningful, tmp_path):
    """The labels depend on the frequency in time, or on the frequency in steps, for which the times are noise."""
    times = np.cumsum(np.random.default_rng(0).exponential(size=X.shape), 1)
    x = np.sin(FREQUENCY[:, None] * times) if meaningful else X
    model = quick().fit(x, Y, times=times)
    (member,) = model.ensemble_.members
    reads_times = member.preparation.unit is not None
    assert reads_times == meaningful
    assert model.score(x, Y, times=times) > 0.9
    again = s7.load(s7.save(model, tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(again.predict_proba(x, times=times), model.predict_proba(x, times=times))


def test_readings_are_answered_together(monkeypatch):
    monkeypatch.setattr("s7.estimation.ridge.best_blocks", lambda blocks, *others, **settings: (0, 1, 2, 3))
    times = np.cumsum(np.random.default_rng(0).exponential(size=X.shape), 1)
    model = quick(S7Regressor).fit(X, FREQUENCY, times=times)
    (member,) = model.ensemble_.members
    assert len(member.others) == 3
    np.testing.assert_allclose(model.predict(X, times=times), FREQUENCY, atol=0.1)


def test_mistakes_in_long_frames_are_named():
    frame = pd.DataFrame({"id": np.repeat(range(4), 5), "v": np.arange(20.0), "y": np.repeat(list("abab"), 5)})
    model = quick().fit(frame, "y", group="id")
    with pytest.raises(ValueError, match="no column 'id'; known: v"):
        model.predict(frame[["v"]])
    with pytest.raises(ValueError, match="row 7 has 'x' in column v, expected a number"):
        quick().fit(frame.assign(v=frame["v"].astype(object).where(frame.index != 7, "x")), "y", group="id")


@pytest.mark.parametrize("kind", [S7Classifier, S7Regressor])
def test_unusual_series(kind):
    """Few series, unequal classes, a constant channel, a channel that one series does not have, very short series."""
    rng = np.random.default_rng(0)
    x = np.stack([X, np.ones_like(X), X[:, ::-1]], 2)
    x[3, :, 2] = np.nan
    ragged = [part[: 1 + 13 * (n % 4)] for n, part in enumerate(x)]
    y = np.arange(24) < 3
    assert np.isfinite(quick(kind).fit(ragged, y).predict(x)).all()
    few = quick(kind).fit(x[:4], y[1:5], times=np.cumsum(rng.exponential(size=(4, 40)), 1))
    late = np.cumsum(rng.exponential(size=(24, 40)), 1)
    late[5, -1] = 1e12
    assert np.isfinite(few.predict(x, times=late)).all()


def test_few_series_are_fitted_without_training():
    assert [type(one.model).__name__ for one in S7Classifier().fit(X, Y).ensemble_.members] == ["RandomStates"]
    assert members_for(500, per_step=False, minutes=None) > 0
    assert members_for(50, per_step=True, minutes=None) > 0
    assert members_for(50, per_step=False, minutes=1.0) > 0
    assert members_for(50, per_step=False, minutes=None, random_states=False) > 0


def test_settings_follow_from_the_data():
    def plan(**traits):
        standard = {"samples": 300, "length": 720, "channels": 1, "irregular": False, "outputs": 3, "classes": True}
        return plan_for(Traits(**standard | traits))

    assert plan().patch == 8
    assert plan(length=50).patch == 1
    assert plan(per_step=True).patch == 1
    assert plan(samples=20).steps >= 600
    assert plan(samples=20).width < plan(samples=5000).width
    assert not plan(causal=True).bidirectional
    assert plan_for(Traits(300, 720, 1, False, 3, True), width=5).width == 5
