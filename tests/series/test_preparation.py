"""Missing values, standardization, gaps and patches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from s7.series.collection import as_collection
from s7.series.patches import patch_gaps, patched, patches
from s7.series.preparation import Preparation, forward_filled

NAN = np.nan


def test_regular_series_without_missing_values_have_no_gaps_and_no_indicators():
    x = np.random.default_rng(0).normal(3, 5, (4, 20, 2))
    samples = Preparation.of(as_collection(x))(as_collection(x))
    assert samples.dt is None
    np.testing.assert_allclose(samples.inputs.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(samples.inputs.std(0), 1, atol=1e-6)


def test_a_missing_value_gets_an_indicator_and_a_missing_row_a_gap():
    x = np.array([[[1.0, 1], [NAN, 2], [NAN, NAN], [3, 0]]])
    preparation = Preparation.of(as_collection(x))
    assert preparation.indicators == (0,)
    samples = preparation(as_collection(x))
    assert samples.inputs.shape == (3, 3)
    assert samples.inputs[:, 2].tolist() == [0, 1, 0]
    assert samples.inputs[1, 0] == samples.inputs[0, 0]  # the last value seen
    assert samples.dt is not None
    np.testing.assert_allclose(samples.dt * preparation.unit, [0, 1, 2])


def test_targets_of_steps_without_values_are_dropped():
    x = np.array([[[1.0], [NAN], [2.0]]])
    samples = Preparation.of(as_collection(x))(as_collection(x), [[0, 1, 2]], per_step=True)
    assert samples.targets.tolist() == [0, 2]


def test_the_unit_of_time_does_not_matter():
    x = np.random.default_rng(0).normal(size=(3, 9))
    times = np.cumsum(np.random.default_rng(1).exponential(size=(3, 9)), 1)
    both = [as_collection(x, times=times * unit) for unit in (1, 1000)]
    one, other = (Preparation.of(series)(series).dt for series in both)
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_irregular_series_at_even_times():
    rng = np.random.default_rng(0)
    times = np.sort(rng.choice(40, 15, replace=False))[None].repeat(2, 0) * 7.0
    x = times / 7 * [[1], [2]]
    series = as_collection(x, times=times)
    preparation = Preparation.of(series).readings(series)[0]
    values, dt = preparation.arrays(series)
    assert dt is None
    assert preparation.unit is not None
    assert preparation.grid == pytest.approx(7 / preparation.unit)  # the smallest gap is the most frequent one
    for part in values:
        np.testing.assert_allclose(np.diff(part[:, 0], 2), 0, atol=1e-5)  # straight lines stay straight
        assert len(part) == (times[0, -1] - times[0, 0]) / 7 + 1


def test_readings_of_irregular_series():
    rng = np.random.default_rng(0)
    times = np.sort(rng.choice(60, 20, replace=False))[None]
    x = rng.normal(size=(1, 20))
    series = as_collection(x, times=times)
    fine, coarse, held, steps = Preparation.of(series).readings(series)
    standard = Preparation.of(series).arrays(series)[0][0][:, 0]
    since = times[0] - times[0, 0]
    even = np.arange(since[-1] + 1)
    assert fine.arrays(series)[1] is None
    np.testing.assert_allclose(fine.arrays(series)[0][0][:, 0], np.interp(even, since, standard), atol=1e-5)
    assert len(coarse.arrays(series)[0][0]) == 20
    last = [np.flatnonzero(since <= when)[-1] for when in even]
    np.testing.assert_array_equal(held.arrays(series)[0][0][:, 0], standard[last])
    np.testing.assert_array_equal(steps.arrays(series)[0][0][:, 0], standard)


@pytest.mark.parametrize("times", [None, np.arange(20.0)[None] * 3])
def test_series_with_even_steps_have_one_reading(times):
    x = np.random.default_rng(0).normal(size=(1, 20))
    series = as_collection(x, times=times)
    (only,) = Preparation.of(series).readings(series)
    np.testing.assert_allclose(only.arrays(series)[0][0], Preparation.of(series).arrays(series)[0][0], atol=1e-6)


def test_each_series_by_itself():
    x = np.random.default_rng(0).normal(size=(3, 50, 1)) * [[[1]], [[10]], [[0]]]
    series = as_collection(x)
    from dataclasses import replace

    values, _ = replace(Preparation.of(series), per_series=True).arrays(series)
    assert [round(float(part.std()), 4) for part in values] == [1, 1, 0]


def test_series_without_values_are_named():
    with pytest.raises(ValueError, match="channel 1 has no values: all are missing"):
        Preparation.of(as_collection(np.array([[[1, NAN], [2, NAN]]])))
    known = as_collection(np.zeros((2, 3, 1)))
    empty = as_collection(np.array([[[1.0]], [[NAN]]]))
    with pytest.raises(ValueError, match="series 1 has no values"):
        Preparation.of(known)(empty)
    with pytest.raises(ValueError, match="3 channels, expected 1 as in training"):
        Preparation.of(known)(as_collection(np.zeros((1, 2, 3))))


@given(st.lists(st.sampled_from([NAN, 1.0, 2.0]), min_size=1, max_size=12))
def test_forward_filling(values):
    filled = forward_filled(np.array(values)[:, None])[:, 0]
    last = 0.0
    for value, found in zip(values, filled, strict=True):
        last = last if np.isnan(value) else value
        assert found == last


@given(st.integers(1, 40), st.integers(1, 9))
def test_patches_hold_every_step_and_all_time(length, size):
    values = np.arange(length, dtype=float)[:, None]
    dt = np.arange(length, dtype=float)
    cut = patches(values, size)
    assert cut.shape == (-(-length // size), size, 1)
    np.testing.assert_array_equal(cut.reshape(-1)[:length], values[:, 0])
    assert patch_gaps(dt, size).sum() == dt.sum()
    events, gaps = patched([values], [dt], size)
    assert gaps is not None
    assert len(events[0]) == len(gaps[0])
    if size > 1:
        assert events[0][..., 1].sum() == dt.sum()
