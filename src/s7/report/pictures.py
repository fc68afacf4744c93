"""Pictures that went into a model, as a strip along the time axis."""

import numpy as np
from matplotlib.axes import Axes

SHOWN = 12


def are_pictures(inputs: np.ndarray) -> bool:
    """Whether the events are pictures: (L, Y, X) or (L, Y, X, C)."""
    return inputs.ndim in (3, 4) and min(inputs.shape[1:3]) > 1


def strip(axes: Axes, inputs: np.ndarray, times: np.ndarray) -> None:
    """Pictures at even distances in time, each the one nearest to its place."""
    axes.axis("off")
    pictures = _grey_or_colour(inputs)
    shown = min(SHOWN, len(pictures))
    low, high = np.nanmin(pictures), np.nanmax(pictures)
    for n in range(shown):
        moment = times[0] + (n + 0.5) / shown * (times[-1] - times[0])
        place = axes.inset_axes((n / shown, 0, 1 / shown, 1))
        nearest = pictures[int(np.argmin(np.abs(times - moment)))]
        scaled = (nearest - low) / (high - low) if high > low else np.zeros_like(nearest)
        place.imshow(scaled, cmap="gray", vmin=0, vmax=1, interpolation="none")
        place.axis("off")


def _grey_or_colour(inputs: np.ndarray) -> np.ndarray:
    pictures = inputs.astype(float)
    if pictures.ndim == 4 and pictures.shape[-1] != 3:
        return pictures.mean(-1)
    return pictures
