"""Gaps from times of every kind, and times that are passed as gaps."""

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import s7
from s7.data.gaps import require_gaps

START = datetime(2024, 5, 1, 12)
SECONDS = [0, 1.5, 1.5, 63.5]


@pytest.mark.parametrize(
    ("times", "unit", "scale"),
    [
        (SECONDS, "s", 1),
        (np.array(SECONDS), "h", 1),  # numbers have no unit to convert from
        (np.array(SECONDS, np.float32), "s", 1),
        (pd.Series(SECONDS, index=[9, 8, 7, 6]), "s", 1),
        (np.array([0, 3, 3, 127], np.uint64), "s", 2),
        (np.array(START, "datetime64[ms]") + (np.array(SECONDS) * 1000).astype("timedelta64[ms]"), "ms", 1000),
        ((np.array(SECONDS) * 1e9).astype("timedelta64[ns]"), "min", 1 / 60),
        ([START + timedelta(seconds=q) for q in SECONDS], "s", 1),
        ([timedelta(seconds=q) for q in SECONDS], "us", 1e6),
        (pd.to_datetime(START) + pd.to_timedelta(SECONDS, unit="s"), "s", 1),
        ((pd.to_datetime(START) + pd.to_timedelta(SECONDS, unit="s")).tz_localize("Europe/Zurich"), "s", 1),
        (pd.Series(pd.to_timedelta(SECONDS, unit="s")), "h", 1 / 3600),
    ],
    ids=lambda q: type(q).__name__,
)
def test_times_of_every_kind_give_gaps(times, unit, scale):
    found = s7.gaps(times, unit)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, np.array([0, 1.5, 0, 62]) * scale, rtol=1e-12)


def test_several_sequences_keep_their_form():
    assert s7.gaps(np.array([[3, 4, 9], [0, 0, 1]])).tolist() == [[0, 1, 5], [0, 0, 1]]
    ragged = s7.gaps([[3, 4, 9], pd.Series([5.0, 5.5]), np.array([7])])
    assert [q.tolist() for q in ragged] == [[0, 1, 5], [0, 0.5], [0]]
    assert s7.gaps(np.array(["2024-01", "2024-02"], "datetime64[M]"), "D").tolist() == [0, 31]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([3, 2], r"times: event 1 \(2\) is earlier than event 0 \(3\); sort the events by time"),
        ([[1, 2], [5, 6, 4]], "times: sequence 1, event 2 .* is earlier than event 1"),
        (np.array([[1, 2], [5, 4]]), "times: sequence 1, event 1 .* is earlier"),
        ([1.0, np.nan], r"times: event 1 is missing \(nan\)"),
        (np.array(["2024", "NaT"], "datetime64[s]"), "times: event 1 is missing"),
        ([[START], [START, None]], "times: sequence 1, event 1 is missing"),
        ([START, START - timedelta(1)], "times: event 1 .* is earlier"),
        (["2024-01-01", "2024-01-02"], "expected numbers, datetimes or timedeltas; convert strings"),
        ("2024-01-01", "times must be an array or a list, not str"),
        (np.zeros((2, 2, 2)), r"times have shape \(2, 2, 2\)"),
    ],
    ids=str,
)
def test_invalid_times_are_rejected(times, message):
    with pytest.raises((ValueError, TypeError), match=message):
        s7.gaps(times)


def test_an_unknown_unit_is_rejected():
    with pytest.raises(ValueError, match="unit='seconds' is not one of ns, us, ms, s, min, h, D"):
        s7.gaps([1, 2], "seconds")


def check(*sequences):
    offsets = np.concatenate([[0], np.cumsum([len(q) for q in sequences])])
    require_gaps(np.concatenate(sequences), offsets, "train")


@pytest.mark.parametrize(
    "sequences",
    [
        [1.7e9 + np.arange(20.0)],
        [np.linspace(0, 1, 50)],
        [np.arange(12)],
        [np.cumsum(np.random.default_rng(n).exponential(size=5)) for n in range(8)],
        [np.array([10.0, 11, 12.5])] * 16,
        [np.repeat(np.arange(12.0), 3)],
    ],
)
def test_times_are_recognised(sequences):
    with pytest.raises(ValueError, match=r"^train: dt increases throughout .* use dt=s7.gaps"):
        check(*sequences)


@pytest.mark.parametrize(
    "sequences",
    [
        [np.ones(1000)],
        [np.concatenate([[0], np.ones(100)])] * 10,
        [np.array([0.0])],
        [np.array([0.0, 1.0, 1.1, 1.2])],
        [2.0 ** np.arange(20)] * 10,  # a logarithmic schedule
        [np.concatenate([np.zeros(50), np.ones(50)])],
    ],
)
def test_gaps_are_not_taken_for_times(sequences):
    check(*sequences)


@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 20))
def test_random_gaps_are_not_taken_for_times(seed, sequences, length):
    rng = np.random.default_rng(seed)
    check(*(1 + rng.normal(scale=0.01, size=length) for _ in range(sequences)))
