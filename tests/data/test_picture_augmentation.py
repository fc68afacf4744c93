"""Augmentation of pictures that are read pixel by pixel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from s7 import PictureAugmentation, Samples
from s7.data.image_patches import events_of_images, images_of_events

SIDE = 5
PICTURES = np.arange(4 * SIDE * SIDE).reshape(4, SIDE, SIDE)
SAMPLES = Samples.of(PICTURES.reshape(4, -1, 1), [0, 1, 2, 3])
CHOSEN = np.array([3, 1])


def shown(samples: Samples) -> np.ndarray:
    return samples.inputs.reshape(-1, SIDE, SIDE)


@given(st.integers(0, 7), st.floats(0, 1))
def test_results_depend_on_seed_epoch_and_index_alone(shift, mirror):
    vary = PictureAugmentation(shift=shift, mirror=mirror)
    both, alone = vary(SAMPLES, CHOSEN, 5, 2), vary(SAMPLES, CHOSEN[1:], 5, 2)
    np.testing.assert_array_equal(shown(both)[1:], shown(alone))
    assert both.targets.tolist() == [3, 1]
    assert np.isin(shown(both)[0], PICTURES[3]).all()
    both.check()


def test_all_off_changes_nothing():
    np.testing.assert_array_equal(shown(PictureAugmentation()(SAMPLES, CHOSEN, 0, 0)), PICTURES[CHOSEN])


def test_mirror_images():
    varied = PictureAugmentation(mirror=1.0)(SAMPLES, CHOSEN, 0, 0)
    np.testing.assert_array_equal(shown(varied), PICTURES[CHOSEN][:, :, ::-1])


def test_shifts_repeat_the_edge():
    seen = set()
    padded = np.pad(PICTURES[2], 1, mode="edge")
    for epoch in range(40):
        one = shown(PictureAugmentation(shift=1)(SAMPLES, np.array([2]), 0, epoch))[0]
        places = [(y, x) for y in range(3) for x in range(3) if (padded[y : y + SIDE, x : x + SIDE] == one).all()]
        assert len(places) == 1
        seen.add(places[0])
    assert len(seen) == 9


def test_rows_of_another_width():
    wide = Samples.of(np.arange(12).reshape(1, 12, 1), [0])
    varied = PictureAugmentation(mirror=1.0, width=4)(wide, np.array([0]), 0, 0)
    assert varied.inputs[:, 0].tolist() == [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8]


def test_several_pixels_in_an_event():
    wide = Samples.of(np.arange(24).reshape(1, 6, 4), [0])  # two pixels with two colours in each event
    varied = PictureAugmentation(mirror=1.0, width=4, patch=2)(wide, np.array([0]), 0, 0)
    assert varied.inputs[:2].tolist() == [[6, 7, 4, 5], [2, 3, 0, 1]]
    assert varied.offsets.tolist() == [0, 6]
    with pytest.raises(ValueError, match="4 values in an event are not 3 pixels"):
        PictureAugmentation(mirror=1.0, patch=3)(wide, np.array([0]), 0, 0)


@given(st.integers(0, 3), st.floats(0, 1), st.sampled_from([(1, 1), (2, 1), (1, 3), (4, 3)]))
def test_patches_are_moved_as_their_pixels_are(shift, mirror, patch):
    columns, rows = patch
    images = np.arange(2 * 6 * 8 * 2).reshape(2, 6, 8, 2)  # of two colours
    cut = Samples.of(events_of_images(images, columns, rows), [0, 1])
    whole = Samples.of(images.reshape(2, -1, 2), [0, 1])
    settings = {"shift": shift, "mirror": mirror, "width": 8}
    chosen = np.array([1, 0])
    expected = PictureAugmentation(**settings)(whole, chosen, 3, 1).inputs.reshape(images.shape)
    varied = PictureAugmentation(**settings, patch=columns, patch_rows=rows)(cut, chosen, 3, 1)
    np.testing.assert_array_equal(
        images_of_events(varied.inputs.reshape(2, -1, 2 * columns * rows), 8, *patch), expected
    )
    varied.check()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"shift": -1}, "shift=-1"),
        ({"mirror": 2.0}, r"mirror=2\.0"),
        ({"width": 0}, "width=0"),
        ({"patch": 0}, "patch=0"),
        ({"patch_rows": 0}, "patch_rows=0"),
    ],
)
def test_settings_out_of_range(settings, said):
    with pytest.raises(ValueError, match=said):
        PictureAugmentation(**settings)


def test_sequences_that_are_no_pictures_are_refused():
    with pytest.raises(ValueError, match="not pictures of one size with squares; set width"):
        PictureAugmentation(shift=1)(Samples.of(np.ones((2, 12, 1)), [0, 1]), np.array([0]), 0, 0)
    with pytest.raises(ValueError, match="rows of 5 pixels"):
        PictureAugmentation(shift=1, width=5)(Samples.of(np.ones((2, 12, 1)), [0, 1]), np.array([0]), 0, 0)
    timed = Samples.of(np.ones((1, 25, 1)), [0], np.ones((1, 25)))
    with pytest.raises(ValueError, match="regular time"):
        PictureAugmentation(shift=1)(timed, np.array([0]), 0, 0)
