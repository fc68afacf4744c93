"""Series cut into patches: several consecutive steps that a model reads as one event."""

from typing import Any

import numpy as np
from jaxtyping import Float


def patches(values: Float[np.ndarray, "L C"], size: int) -> Float[np.ndarray, "M S C"]:
    """Cut a series into ceil(L / size) patches. The last one repeats the last step where the series has ended.

    Args:
        values: The series, (steps, channels).
        size: Steps in a patch.

    Examples:
        >>> import numpy as np
        >>> from s7.series.patches import patches
        >>> patches(np.arange(5.0)[:, None], 2)[..., 0].tolist()
        [[0.0, 1.0], [2.0, 3.0], [4.0, 4.0]]
    """
    if size < 1:
        raise ValueError(f"patch={size} must be at least 1")
    missing = -len(values) % size
    filled = np.concatenate([values, np.repeat(values[-1:], missing, 0)]) if missing else values
    return filled.reshape(-1, size, *values.shape[1:])


def patch_gaps(dt: Float[np.ndarray, " L"], size: int) -> Float[np.ndarray, " M"]:
    """The gap before each patch: the time from the last step of the previous patch to its own last step."""
    return np.add.reduceat(dt, np.arange(0, len(dt), size))


def patched(values: list[Any], dt: list[Any] | None, size: int) -> tuple[list[Any], list[Any] | None]:
    """Series and gaps cut into patches. In irregular time the gap before each step becomes a channel of its patch."""
    if size == 1:
        return values, dt
    if dt is None:
        return [patches(series, size) for series in values], None
    timed = []
    for series, gaps in zip(values, dt, strict=True):
        # Steps that only fill up the last patch have no gap, so that they can be told from others.
        cut = patches(np.concatenate([series, gaps[:, None]], 1), size)
        cut.reshape(-1, cut.shape[2])[len(series) :, -1] = 0
        timed.append(cut)
    return timed, [patch_gaps(gaps, size) for gaps in dt]
