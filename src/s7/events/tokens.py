"""One token per event: which pixel, and whether it brightened or darkened.

    token = 2 (x s_y + y) + [p > 0]                                     (the paper's equation 10, repaired)

As printed, with p in {-1, 1} and the stride s_x, different events collide: (n, +) and (n + 1, -) always, and
pixels wherever the sensor is higher than wide. This one is one-to-one for every sensor.
"""

import numpy as np
from jaxtyping import Integer, Shaped
from numpy.typing import ArrayLike

Sensor = tuple[int, int]


def vocabulary(sensor: Sensor) -> int:
    """How many tokens a sensor of (width, height) pixels has."""
    s_x, s_y = _check_sensor(sensor)
    return 2 * s_x * s_y


def tokenize(x: ArrayLike, y: ArrayLike, p: ArrayLike, sensor: Sensor = (128, 128)) -> Integer[np.ndarray, "..."]:
    """Tokens of events at column x and row y with polarity p (-1 or 0 for darker, 1 for brighter)."""
    s_x, s_y = _check_sensor(sensor)
    columns = _whole(x, "x", s_x, f"a sensor {s_x} wide")
    rows = _whole(y, "y", s_y, f"a sensor {s_y} high")
    brighter = _polarity(p)
    if not columns.shape == rows.shape == brighter.shape:
        raise ValueError(f"x, y and p differ in shape: {columns.shape}, {rows.shape}, {brighter.shape}")
    dtype = np.int32 if vocabulary(sensor) <= np.iinfo(np.int32).max else np.int64
    return (2 * (columns * s_y + rows) + brighter).astype(dtype)


def detokenize(
    tokens: ArrayLike, sensor: Sensor = (128, 128)
) -> tuple[Integer[np.ndarray, "..."], Integer[np.ndarray, "..."], Integer[np.ndarray, "..."]]:
    """(x, y, p) of tokens, p being -1 or 1."""
    _, s_y = _check_sensor(sensor)
    tokens = _whole(tokens, "tokens", vocabulary(sensor), f"a sensor of {sensor[0]}×{sensor[1]}")
    pixels, brighter = np.divmod(tokens, 2)
    columns, rows = np.divmod(pixels, s_y)
    return columns, rows, 2 * brighter - 1


def _check_sensor(sensor: Sensor) -> Sensor:
    s_x, s_y = sensor
    if s_x < 1 or s_y < 1:
        raise ValueError(f"sensor={sensor} must be (width, height), both at least 1")
    return s_x, s_y


def _whole(values: ArrayLike, name: str, end: int, of_what: str) -> Integer[np.ndarray, "..."]:
    values = np.asarray(values)
    if values.dtype.kind not in "iu":
        raise TypeError(f"{name} holds {values.dtype}, expected whole numbers")
    values = values.astype(np.int64)
    _check(values, (values >= 0) & (values < end), name, f"outside of 0 to {end - 1}, {of_what}")
    return values


def _polarity(p: ArrayLike) -> Integer[np.ndarray, "..."]:
    values = np.asarray(p)
    if values.dtype.kind not in "iub":
        raise TypeError(f"p holds {values.dtype}, expected whole numbers or booleans")
    values = values.astype(np.int64)
    _check(values, np.isin(values, (-1, 0, 1)), "p", "not a polarity: -1, 0 or 1")
    return (values > 0).astype(np.int64)


def _check(values: Shaped[np.ndarray, "..."], good: Shaped[np.ndarray, "..."], name: str, what: str) -> None:
    if not good.all():
        first = np.flatnonzero(~good.ravel())[0]
        raise ValueError(f"{name}[{first}] = {values.ravel()[first]} is {what}")
