"""Images as sequences of patches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from s7.data.image_patches import check_patch, events_of_images, images_of_events


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2))
def test_an_event_has_the_pixels_of_its_rectangle(patch, patch_rows, across, down, channels):
    images = np.arange(2 * down * patch_rows * across * patch * channels)
    images = images.reshape(2, down * patch_rows, across * patch, channels)
    events = events_of_images(images, patch, patch_rows)
    assert events.shape == (2, down * across, patch_rows * patch * channels)
    for number in range(down * across):
        row, column = divmod(number, across)
        window = images[:, row * patch_rows :, column * patch :][:, :patch_rows, :patch]
        np.testing.assert_array_equal(events[:, number], window.reshape(2, -1))
    np.testing.assert_array_equal(images_of_events(events, across * patch, patch, patch_rows), images)


def test_patches_must_cover_an_image():
    check_patch(8, 4, 32)
    for patch, rows, said in (
        (0, 1, "patch=0 must be at least 1"),
        (5, 1, "patch=5 does not divide the 32 pixels of a row"),
        (4, 3, "patch_rows=3 does not divide the 32 rows of an image"),
    ):
        with pytest.raises(ValueError, match=said):
            check_patch(patch, rows, 32)
