"""Which column of a table of numbers is x, y, t and p: by the names of the columns, or by their values."""

import re
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

# Names in lower case. A unit may follow the name of a time: "t_us", "timestamp [ns]".
NAMES = {
    "x": ("x", "xs", "col", "column", "x_pos", "x_coordinate", "x_coordinates"),
    "y": ("y", "ys", "row", "y_pos", "y_coordinate", "y_coordinates"),
    "t": ("t", "ts", "time", "times", "timestamp", "timestamps"),
    "p": ("p", "ps", "pol", "polarity", "polarities", "on"),
}
# In microseconds.
UNITS = {"s": 1e6, "sec": 1e6, "seconds": 1e6, "ms": 1e3, "us": 1.0, "µs": 1.0, "usec": 1.0, "ns": 1e-3}
# Orders that are in use. If several are possible, it is the one in which the times cover the largest range.
ORDERS = ("txyp", "xytp", "xypt")


@dataclass(frozen=True)
class Columns:
    """The positions of the columns, and the unit of time in microseconds."""

    x: int
    y: int
    t: int
    p: int
    unit: float = 1.0


def by_name(names: list[str]) -> tuple[dict[str, str], float | None]:
    """Match the names of columns.

    Returns:
        The given name of each of x, y, t and p that was found, and the unit of t in microseconds, if its name has one.
    """
    found: dict[str, str] = {}
    unit = None
    for name in names:
        plain, named_unit = _without_unit(name.strip().lower())
        for column, known in NAMES.items():
            if plain in known and column not in found:
                found[column] = name
                unit = named_unit if column == "t" else unit
    return found, unit


def _without_unit(name: str) -> tuple[str, float | None]:
    words = re.match(r"(\w+?)[\s_(\[]+(\w+)[)\]]?$", name)
    if words and words[2] in UNITS:
        return words[1], UNITS[words[2]]
    return name, None


def unit_of(t: Float[np.ndarray, " E"]) -> float:
    """The unit of times without a name: seconds if there are fractions, else microseconds."""
    return 1e6 if (t != np.floor(t)).any() else 1.0


def by_value(rows: Float[np.ndarray, "N 4"]) -> Columns | None:
    """Find the order of four columns without names, or None if no order that is in use is possible.

    Positions are whole numbers from 0 to 65535, polarities are 0, 1 or -1, and times do not decrease.
    """
    best: tuple[float, Columns] | None = None
    for order in ORDERS:
        places = {name: order.index(name) for name in "xytp"}
        t, p = rows[:, places["t"]], rows[:, places["p"]]
        positions = rows[:, [places["x"], places["y"]]]
        whole = (positions == np.floor(positions)).all() and positions.min() >= 0 and positions.max() < 2**16
        if whole and np.isin(p, (-1, 0, 1)).all() and (np.diff(t) >= 0).all():
            unit = unit_of(t)
            span = float(t[-1] - t[0] or t[0]) * unit
            if best is None or span > best[0]:
                best = span, Columns(**places, unit=unit)
    return best[1] if best else None
