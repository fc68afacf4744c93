"""Images as sequences of patches in reading order: each event has the pixels of a small rectangle, row by row."""

import numpy as np
from jaxtyping import Shaped


def check_patch(patch: int, patch_rows: int, side: int) -> None:
    """Raise ValueError unless patches of this many pixels of a row, and of this many rows, cover a square image."""
    for name, value, what in (("patch", patch, "pixels of a row"), ("patch_rows", patch_rows, "rows of an image")):
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
        if side % value:
            raise ValueError(f"{name}={value} does not divide the {side} {what}")


def events_of_images(
    images: Shaped[np.ndarray, "N Y X C"], patch: int, patch_rows: int = 1
) -> Shaped[np.ndarray, "N L E"]:
    """The events of images, each with the C numbers of `patch_rows` × `patch` pixels."""
    count, height, width, channels = images.shape
    tiles = images.reshape(count, height // patch_rows, patch_rows, width // patch, patch * channels)
    return tiles.swapaxes(2, 3).reshape(count, -1, patch_rows * patch * channels)


def images_of_events(
    events: Shaped[np.ndarray, "N L E"], width: int, patch: int, patch_rows: int = 1
) -> Shaped[np.ndarray, "N Y X C"]:
    """The inverse of `events_of_images` for images of this width."""
    count, _, size = events.shape
    channels = size // (patch * patch_rows)
    tiles = events.reshape(count, -1, width // patch, patch_rows, patch * channels)
    return tiles.swapaxes(2, 3).reshape(count, -1, width, channels)
