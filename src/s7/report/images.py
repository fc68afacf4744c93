"""Input images as a strip along the time axis."""

import numpy as np
from matplotlib.axes import Axes

SHOWN = 12


def are_images(inputs: np.ndarray) -> bool:
    """Whether the inputs are images: (L, Y, X) or (L, Y, X, C)."""
    return inputs.ndim in (3, 4) and min(inputs.shape[1:3]) > 1


def strip(axes: Axes, inputs: np.ndarray, times: np.ndarray) -> None:
    """Draw images at regular intervals of time."""
    axes.axis("off")
    images = _grey_or_colour(inputs)
    shown = min(SHOWN, len(images))
    low, high = np.nanmin(images), np.nanmax(images)
    for n in range(shown):
        moment = times[0] + (n + 0.5) / shown * (times[-1] - times[0])
        place = axes.inset_axes((n / shown, 0, 1 / shown, 1))
        nearest = images[int(np.argmin(np.abs(times - moment)))]
        scaled = (nearest - low) / (high - low) if high > low else np.zeros_like(nearest)
        place.imshow(scaled, cmap="gray", vmin=0, vmax=1, interpolation="none")
        place.axis("off")


def _grey_or_colour(inputs: np.ndarray) -> np.ndarray:
    images = inputs.astype(float)
    if images.ndim == 4 and images.shape[-1] != 3:
        return images.mean(-1)
    return images
