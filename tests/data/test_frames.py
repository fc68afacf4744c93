"""Samples from pandas frames."""

import numpy as np
import pandas as pd
import pytest

from s7 import Samples


@pytest.fixture
def frame():
    """Three sequences of 4, 2 and 3 events."""
    seconds = np.array([0, 1, 3, 7, 5, 6, 0, 2, 3])
    return pd.DataFrame(
        {
            "patient": np.repeat(["b", "a", "c"], [4, 2, 3]),
            "time": pd.Timestamp("2024-05-01") + pd.to_timedelta(seconds, unit="s"),
            "pulse": np.arange(9.0),
            "dose": np.arange(9),
            "outcome": np.repeat(["well", "ill", "well"], [4, 2, 3]),
        }
    )


def test_a_frame_becomes_sequences_with_gaps(frame):
    samples = Samples.from_frame(frame, group="patient", time="time", target="outcome", name="train")
    assert samples.name == "train"
    assert samples.lengths.tolist() == [4, 2, 3]
    assert samples.targets.tolist() == ["well", "ill", "well"]
    assert samples.inputs.tolist() == [[n, n] for n in range(9)]
    assert samples.dt.tolist() == [0, 1, 2, 4, 0, 1, 0, 2, 1]


def test_rows_can_be_in_any_order(frame):
    shuffled = frame.sample(frac=1, random_state=1)
    order = {"b": 0, "a": 1, "c": 2}
    ordered = sorted(shuffled.patient.unique(), key=list(shuffled.patient).index)
    columns = {"group": "patient", "time": "time", "target": "outcome"}
    samples, whole = Samples.from_frame(shuffled, **columns), Samples.from_frame(frame, **columns)
    expected = whole.take([order[name] for name in ordered])
    assert samples.digest() == expected.digest()


def test_features_units_and_numbers_of_time(frame):
    frame["time"] = frame.time.dt.tz_localize("UTC")
    columns = {"group": "patient", "target": "outcome", "features": ["pulse"]}
    samples = Samples.from_frame(frame, time="time", unit="ms", **columns)
    assert samples.event_shape == (1,)
    assert samples.dt.tolist() == [0, 1000, 2000, 4000, 0, 1000, 0, 2000, 1000]
    frame["time"] = np.arange(9) / 4
    assert Samples.from_frame(frame, time="time", **columns).dt.tolist() == [0, *[0.25] * 3, 0, 0.25, 0, *[0.25] * 2]
    assert Samples.from_frame(frame, **columns).dt is None


def test_targets_that_vary_in_a_sequence_are_per_step(frame):
    columns = {"group": "patient", "time": "time", "features": ["pulse"]}
    samples = Samples.from_frame(frame, target="dose", **columns)
    assert samples.per_step
    assert samples.targets.tolist() == list(range(9))
    assert Samples.from_frame(frame, target=["dose", "pulse"], **columns).targets.shape == (9, 2)
    with pytest.raises(ValueError, match="data: dose varies within sequence 0; use per_step=True"):
        Samples.from_frame(frame, target="dose", per_step=False, **columns)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("pulse", np.nan, "inputs of sequence 1, event 1, feature 0 is not finite"),
        ("time", pd.NaT, "row 5 has no value in column time"),
        ("patient", None, "row 5 has no value in column patient"),
        ("outcome", None, "target"),
    ],
)
def test_missing_values_are_rejected(frame, column, value, message):
    frame.loc[5, column] = value
    with pytest.raises(ValueError, match=f"data: .*{message}|data: {message}"):
        Samples.from_frame(frame, group="patient", time="time", target="outcome")


def test_columns_that_cannot_be_read_are_rejected(frame):
    with pytest.raises(ValueError, match="data: the frame has no column 'patients'; did you mean 'patient'"):
        Samples.from_frame(frame, group="patients", target="outcome")
    with pytest.raises(TypeError, match=r"data: column time holds datetime64.*, expected numbers; name the columns"):
        Samples.from_frame(frame, group="patient", target="outcome")
    with pytest.raises(ValueError, match="no columns left for features"):
        Samples.from_frame(frame[["patient", "outcome"]], group="patient", target="outcome")
    with pytest.raises(TypeError, match=r"data: inputs are one data frame, .* see s7.Samples.from_frame"):
        Samples.of(frame, frame.outcome)


def test_lists_of_frames_are_sequences(frame):
    parts = [part[["pulse", "dose"]] for _, part in frame.groupby("patient", sort=False)]
    samples = Samples.of(parts, pd.Series(["well", "ill", "well"], dtype="category", index=[5, 6, 7]))
    assert samples.lengths.tolist() == [4, 2, 3]
    assert samples.targets.tolist() == ["well", "ill", "well"]
