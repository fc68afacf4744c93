"""Event tokens: one integer for an event's pixel and polarity.

    token = 2 (x s_y + y) + [p > 0]                                     (the paper's equation 10, corrected)

As printed, with p in {-1, 1} and the stride s_x, different events collide: (n, +) and (n + 1, -) always do, and so do
pixels of a sensor that is taller than it is wide. The corrected formula is one-to-one for every sensor.
"""

from typing import Any

import numpy as np
from jaxtyping import Integer, Shaped
from numpy.typing import ArrayLike

Sensor = tuple[int, int]


def to_token(x: Any, y: Any, p: Any, height: int, polarities: int = 2) -> Any:
    """Equation 10, unchecked, on integers or integer arrays; `p` counts from 0."""
    return polarities * (x * height + y) + p


def from_token(token: Any, height: int, polarities: int = 2) -> tuple[Any, Any, Any]:
    """The inverse of `to_token`: (x, y, p)."""
    pixel = token // polarities
    return pixel // height, pixel % height, token % polarities


def vocabulary(sensor: Sensor) -> int:
    """The number of tokens of a sensor of (width, height) pixels."""
    s_x, s_y = _check_sensor(sensor)
    return 2 * s_x * s_y


def tokenize(x: ArrayLike, y: ArrayLike, p: ArrayLike, sensor: Sensor = (128, 128)) -> Integer[np.ndarray, "..."]:
    """Compute the tokens of events.

    Args:
        x: Columns, 0 to width - 1.
        y: Rows, 0 to height - 1, in the shape of `x`.
        p: Polarities, in the shape of `x`: -1, 0 or False for darker, 1 or True for brighter.
        sensor: (width, height) in pixels.

    Returns:
        Integers from 0 to `2 * width * height - 1`, in the shape of `x`.

    Examples:
        >>> import s7
        >>> s7.tokenize([0, 1], [0, 2], [-1, 1], sensor=(2, 3))
        array([ 0, 11], dtype=int32)
    """
    s_x, s_y = _check_sensor(sensor)
    columns = _integers(x, "x", s_x, f"a sensor {s_x} wide")
    rows = _integers(y, "y", s_y, f"a sensor {s_y} high")
    brighter = _polarity(p)
    if not columns.shape == rows.shape == brighter.shape:
        raise ValueError(f"x, y and p differ in shape: {columns.shape}, {rows.shape}, {brighter.shape}")
    dtype = np.int32 if vocabulary(sensor) <= np.iinfo(np.int32).max else np.int64
    return to_token(columns, rows, brighter, s_y).astype(dtype)


def detokenize(
    tokens: ArrayLike, sensor: Sensor = (128, 128)
) -> tuple[Integer[np.ndarray, "..."], Integer[np.ndarray, "..."], Integer[np.ndarray, "..."]]:
    """Compute the pixels and polarities of tokens: the inverse of `tokenize`.

    Args:
        tokens: Integers from 0 to `2 * width * height - 1`.
        sensor: (width, height) in pixels.

    Returns:
        (x, y, p) in the shape of `tokens`, with p -1 for darker and 1 for brighter.

    Examples:
        >>> import s7
        >>> s7.detokenize([0, 11], sensor=(2, 3))
        (array([0, 1]), array([0, 2]), array([-1,  1]))
    """
    _, s_y = _check_sensor(sensor)
    tokens = _integers(tokens, "tokens", vocabulary(sensor), f"a sensor of {sensor[0]}×{sensor[1]}")
    columns, rows, brighter = from_token(tokens, s_y)
    return columns, rows, 2 * brighter - 1


def _check_sensor(sensor: Sensor) -> Sensor:
    s_x, s_y = sensor
    if s_x < 1 or s_y < 1:
        raise ValueError(f"sensor={sensor} must be (width, height), both at least 1")
    return s_x, s_y


def _integers(values: ArrayLike, name: str, end: int, of_what: str) -> Integer[np.ndarray, "..."]:
    values = np.asarray(values)
    if values.dtype.kind not in "iu":
        raise TypeError(f"{name} holds {values.dtype}, expected integers")
    values = values.astype(np.int64)
    _check(values, (values >= 0) & (values < end), name, f"outside of 0 to {end - 1}, {of_what}")
    return values


def _polarity(p: ArrayLike) -> Integer[np.ndarray, "..."]:
    values = np.asarray(p)
    if values.dtype.kind not in "iub":
        raise TypeError(f"p holds {values.dtype}, expected integers or booleans")
    values = values.astype(np.int64)
    _check(values, np.isin(values, (-1, 0, 1)), "p", "not a polarity: -1, 0 or 1")
    return (values > 0).astype(np.int64)


def _check(values: Shaped[np.ndarray, "..."], good: Shaped[np.ndarray, "..."], name: str, what: str) -> None:
    if not good.all():
        first = np.flatnonzero(~good.ravel())[0]
        raise ValueError(f"{name}[{first}] = {values.ravel()[first]} is {what}")
