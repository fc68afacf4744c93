"""Augmentation of positions of tags."""

import numpy as np
import pytest

import s7
from s7 import PositionAugmentation, Samples

RNG = np.random.default_rng(0)
LENGTHS = (40, 5, 60)
TAGS = [np.eye(4)[RNG.integers(4, size=n)] for n in LENGTHS]
SAMPLES = Samples.of(
    [np.hstack([tag, RNG.normal(size=(len(tag), 3))]) for tag in TAGS],
    [RNG.integers(7, size=n) for n in LENGTHS],
    [np.ones(n) for n in LENGTHS],
    per_step=True,
)
CHOSEN = np.array([2, 1, 0])


def moved(**settings):
    """The displacement of each report of the first sequence, its tags, and its places before."""
    varied = PositionAugmentation(**settings)(SAMPLES, np.array([0]), 3, 1).inputs
    before = SAMPLES.inputs[: LENGTHS[0]]
    return varied[:, 4:] - before[:, 4:], before[:, :4].argmax(1), before[:, 4:]


def test_only_places_change_and_depend_on_seed_epoch_and_index_alone():
    vary = PositionAugmentation(shift=1.0, tag_shift=0.5, jitter=0.1, turn=30, scale=1.2)
    every, last = vary(SAMPLES, CHOSEN, 5, 2), vary(SAMPLES, CHOSEN[2:], 5, 2)
    np.testing.assert_array_equal(every.inputs[every.offsets[2] :], last.inputs)
    same = SAMPLES.take(CHOSEN)
    for name in ("targets", "dt", "offsets"):
        np.testing.assert_array_equal(getattr(every, name), getattr(same, name))
    np.testing.assert_array_equal(every.inputs[:, :4], same.inputs[:, :4])
    assert np.abs(every.inputs - vary(SAMPLES, CHOSEN, 5, 3).inputs).max() > 0.1
    assert every.inputs.dtype == SAMPLES.inputs.dtype
    every.check()


def test_all_off_changes_nothing():
    np.testing.assert_allclose(moved()[0], 0, atol=1e-12)


def test_shifts_are_of_all_tags_of_each_tag_or_of_each_report():
    shift, _, _ = moved(shift=1.0)
    np.testing.assert_allclose(shift, shift[:1].repeat(len(shift), 0), atol=1e-12)
    shift, tags, _ = moved(tag_shift=1.0)
    each = np.array([shift[tags == tag].mean(0) for tag in range(4)])
    np.testing.assert_allclose(shift, each[tags], atol=1e-12)
    assert np.abs(each[0] - each[1]).max() > 0.1
    assert len(np.unique(moved(jitter=1.0)[0])) == 3 * LENGTHS[0]


def test_turns_and_scales_keep_the_axis_and_the_shape():
    shift, _, before = moved(turn=180)
    np.testing.assert_allclose(shift.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(shift[:, 2], 0, atol=1e-12)
    radius = np.linalg.norm((before - before.mean(0))[:, :2], axis=1)
    np.testing.assert_allclose(np.linalg.norm((before + shift - before.mean(0))[:, :2], axis=1), radius)
    shift, _, before = moved(scale=2.0)
    factor = 1 + shift[:, 2] / before[:, 2]
    np.testing.assert_allclose(factor, factor[0])
    assert 0.5 <= factor[0] <= 2


@pytest.mark.parametrize("settings", [{"shift": -1}, {"jitter": float("inf")}, {"turn": 181}, {"scale": 0.5}])
def test_settings_out_of_range(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        PositionAugmentation(**settings)


def test_other_inputs_are_refused():
    with pytest.raises(ValueError, match="data: inputs are not tags"):
        PositionAugmentation()(Samples.of(np.zeros((2, 5), int), [0, 1]), np.array([0]), 0, 0)
    assert "PositionAugmentation" in s7.Augmentation.registry.builtin
