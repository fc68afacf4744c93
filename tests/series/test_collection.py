"""Series from all the containers that people keep them in."""

import numpy as np
import pandas as pd
import pytest

import s7
from s7.series.collection import as_collection
from s7.series.long_format import from_frame

pytestmark = pytest.mark.usefixtures("as_users_see_it")

X = np.arange(24.0).reshape(2, 4, 3)


def frames() -> list[pd.DataFrame]:
    times = pd.date_range("2024-01-01", periods=4, freq="2s")
    return [pd.DataFrame(part, index=times, columns=["a", "b", "c"]) for part in X]


def test_all_containers_hold_the_same_series():
    nested = pd.DataFrame([[pd.Series(part[:, n]) for n in range(3)] for part in X], columns=["a", "b", "c"])
    levels = pd.concat(dict(enumerate(frames())))
    samples = s7.Samples.of(X, [0, 1])
    for held in (X, list(X), frames(), nested, levels, samples):
        series = as_collection(held)
        np.testing.assert_array_equal(series.values, X)
    for channels_first in (X.transpose(0, 2, 1), [part.T for part in X]):
        np.testing.assert_array_equal(as_collection(channels_first, layout="channels_first").values, X)


def test_times_become_gaps():
    expected = [[0, 2, 2, 2]] * 2
    np.testing.assert_allclose(as_collection(frames()).gaps, expected)
    np.testing.assert_allclose(as_collection(pd.concat(dict(enumerate(frames())))).gaps, expected)
    np.testing.assert_allclose(as_collection(X, times=np.arange(4)[None].repeat(2, 0) * 2).gaps, expected)
    np.testing.assert_allclose(as_collection(X, dt=np.array(expected, float)).gaps, expected)
    assert as_collection(X).gaps is None
    assert as_collection([part.reset_index(drop=True) for part in frames()]).gaps is None


def test_series_of_different_lengths():
    series = as_collection([np.zeros(3), np.zeros(5)], times=[[0, 1, 2], [0, 1, 2, 3, 9]])
    assert series.lengths.tolist() == [3, 5]
    assert series.gaps is not None
    assert series.gaps[1].tolist() == [0, 1, 1, 1, 6]
    assert series.take([1]).lengths.tolist() == [5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": np.zeros((5, 1, 30))}, r"1 step of 30 channels; .* use layout='channels_first'"),
        ({"x": np.zeros((2, 3, 4, 5))}, "expected \\(samples, steps, channels\\)"),
        ({"x": []}, "there are no series"),
        ({"x": [np.zeros((3, 2)), np.zeros((3, 1))]}, "series 1 has 1 channels, series 0 has 2"),
        ({"x": [np.zeros(3), np.zeros(0)]}, "series 1 has no steps"),
        ({"x": np.array([[1.0, np.inf]])}, "step 1 of series 0, channel 0 is inf"),
        ({"x": [np.array([["1"], ["two"]], object)]}, "step 1 of series 0, channel 0 is 'two', expected a number"),
        ({"x": X, "layout": "rows"}, "layout='rows' is not one of"),
        ({"x": X, "times": np.array([[0, 1, 3, 2], [0, 1, 2, 3]])}, "sequence 0, event 3 .* is earlier than event 2"),
        ({"x": X, "dt": np.ones((2, 3))}, r"dt of series 0 have shape \(3,\), expected \(4,\)"),
        ({"x": X, "dt": [[0, 1, -1, 1], [0, 1, 1, 1]]}, "dt of series 0, step 2 is -1.0"),
        ({"x": X, "dt": X, "times": X}, "times and dt are both given"),
        ({"x": "series"}, "x is a str, expected an array"),
        ({"x": [np.array([1, None, np.inf], object)]}, "step 2 of series 0, channel 0 is inf"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        as_collection(**arguments)


def long_frame() -> pd.DataFrame:
    return pd.DataFrame(
        {"id": ["b", "b", "a", "a", "b"], "t": [2.0, 0.0, 5.0, 1.0, 1.0], "v": [1, 2, 3, 4, 5], "y": [1, 1, 0, 0, 1]}
    )


def test_a_long_frame_is_divided_by_group_and_sorted_by_time():
    series, y = from_frame(long_frame(), group="id", time="t", target="y")
    assert y.tolist() == [1, 0]
    assert [part["v"].tolist() for part in series] == [[2, 5, 1], [4, 3]]
    gaps = as_collection(series).gaps
    assert gaps is not None
    assert [part.tolist() for part in gaps] == [[0, 1, 1], [0, 4]]


def test_times_that_count_from_0_in_one_series_are_times_if_others_are():
    frames = [pd.DataFrame({"v": [1.0, 2, 3]}, index=index) for index in ([0, 1, 2], [0, 4, 5])]
    gaps = as_collection(frames).gaps
    assert gaps is not None
    assert [part.tolist() for part in gaps] == [[0, 1, 1], [0, 4, 1]]


def test_a_target_that_varies_is_one_per_step():
    frame = long_frame().assign(y=[1, 2, 3, 4, 5])
    _, y = from_frame(frame, group="id", time="t", target="y")
    assert [part.tolist() for part in y] == [[2, 5, 1], [4, 3]]


def test_mistakes_in_frames_are_named():
    with pytest.raises(ValueError, match=r"no column 'label'.*id, t, v, y"):
        from_frame(long_frame(), group="id", target="label")
    with pytest.raises(ValueError, match="row 2 has no value in column t"):
        from_frame(long_frame().assign(t=[0, 1, np.nan, 2, 3]), group="id", time="t")
    with pytest.raises(ValueError, match="no columns left to read"):
        from_frame(long_frame()[["id", "t"]], group="id", time="t")
