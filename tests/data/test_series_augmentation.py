"""Augmentation of series."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import s7
from s7 import Samples, SeriesAugmentation

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 20, 2)).astype(np.float32)
Y = np.array([0, 1, 2, 0, 1, 2])
CHOSEN = np.array([4, 1])


def samples(dt: bool = False) -> Samples:
    return Samples.of(X, Y, np.ones((6, 20)) if dt else None)


@given(
    st.floats(0, 1), st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0.2, 1), st.sampled_from([0.0, 0.3]), st.booleans()
)
def test_results_depend_on_seed_epoch_and_index_alone(jitter, scaling, warp, window, mixup, timed):
    vary = SeriesAugmentation(
        jitter=jitter, scaling=scaling, time_warp=warp, window=window, mixup=0 if timed else mixup, classes=3
    )
    both, alone = vary(samples(timed), CHOSEN, 5, 2), vary(samples(timed), CHOSEN[1:], 5, 2)
    np.testing.assert_array_equal(both.inputs[both.offsets[1] :], alone.inputs)
    assert (both.lengths <= vary.longest(samples().lengths)[CHOSEN]).all()
    assert np.isfinite(both.inputs).all()
    both.check()


def test_all_off_changes_nothing():
    same = SeriesAugmentation()(samples(dt=True), CHOSEN, 0, 0)
    np.testing.assert_array_equal(same.inputs.reshape(2, 20, 2), X[CHOSEN])
    assert same.targets.tolist() == [1, 1]


def test_a_warped_series_keeps_its_ends_and_its_order():
    ramp = Samples.of(np.arange(50, dtype=np.float32)[None, :, None], [0])
    warped = SeriesAugmentation(time_warp=0.5)(ramp, np.array([0]), 0, 0).inputs[:, 0]
    assert warped[0] == 0
    np.testing.assert_allclose(warped[-1], 49, rtol=1e-5)
    assert (np.diff(warped) > 0).all()
    assert np.abs(warped - np.arange(50)).max() > 0.5


def test_indicators_are_left_alone():
    varied = SeriesAugmentation(jitter=1.0, scaling=1.0, channels=1)(samples(), CHOSEN, 0, 0)
    np.testing.assert_array_equal(varied.inputs.reshape(2, 20, 2)[..., 1], X[CHOSEN, :, 1])
    assert not np.allclose(varied.inputs.reshape(2, 20, 2)[..., 0], X[CHOSEN, :, 0])


def test_mixtures_have_proportions_as_targets():
    mixed = SeriesAugmentation(mixup=1.0, classes=3)(samples(), np.arange(6), 0, 0)
    np.testing.assert_allclose(mixed.targets.sum(1), 1, rtol=1e-6)
    assert (mixed.targets.argmax(1) == Y).all()  # the own share is at least a half


def test_patches_are_taken_apart_and_put_together():
    cut = Samples.of(X.reshape(6, 5, 4, 2), Y)
    flat = SeriesAugmentation(time_warp=0.3, jitter=0.1)(samples(), CHOSEN, 0, 0)
    varied = SeriesAugmentation(time_warp=0.3, jitter=0.1)(cut, CHOSEN, 0, 0)
    assert varied.event_shape == (4, 2)
    np.testing.assert_array_equal(varied.inputs.reshape(-1, 2), flat.inputs)


@pytest.mark.parametrize(
    ("settings", "data", "message"),
    [
        ({"mixup": 1.0}, samples(dt=True), "mixup needs regular series"),
        ({"jitter": 1.0}, Samples.of(np.zeros((2, 3), int), [0, 1]), "not series of numbers"),
        ({"window": 0.5}, Samples.of(np.zeros((2, 3, 4, 1)), [0, 1], np.ones((2, 3))), "not patches"),
        ({"jitter": 1.0}, Samples.of(X, np.zeros((6, 20), int)), "one target each"),
    ],
)
def test_unsuitable_data_are_refused(settings, data, message):
    with pytest.raises(ValueError, match=message):
        SeriesAugmentation(**settings)(data, np.array([0]), 0, 0)


def test_unsuitable_settings_are_refused():
    with pytest.raises(ValueError, match="window=0 must be a fraction"):
        SeriesAugmentation(window=0)
    with pytest.raises(ValueError, match="jitter=-1 must be finite"):
        SeriesAugmentation(jitter=-1)
    assert "SeriesAugmentation" in s7.Augmentation.registry.builtin
