"""Events from NumPy structured arrays with the fields x, y, t and p in any order, as in Tonic and other libraries.

Times are in microseconds. Channels of a cochlea have no y; their p is ignored.
"""

import numpy as np
from jaxtyping import Shaped

from s7.events.container import Events, Size


def from_structured(array: Shaped[np.ndarray, " E"], sensor: Size | None = None) -> Events:
    """Convert a structured array to events in the same order. Polarity -1 becomes 0; times are rounded.

    Args:
        array: An array with the fields x, y, t (microseconds) and p, or x and t.
        sensor: Width and height of the sensor.

    Raises:
        ValueError: If a field is missing or does not hold numbers.
    """
    fields = array.dtype.names or ()
    needed = ("x", "y", "t", "p") if "y" in fields else ("x", "t")
    absent = [name for name in needed if name not in fields]
    if absent:
        has = f"it has {', '.join(fields)}" if fields else f"it holds {array.dtype}"
        raise ValueError(f"the array of events has no field {', '.join(absent)}; {has}")
    for name in needed:
        kinds = {"t": "iuf", "p": "iub"}.get(name, "iu")
        if array.dtype[name].kind not in kinds:
            raise ValueError(f"the field {name} of the array of events holds {array.dtype[name]}, expected numbers")
    x, t = array["x"], whole_microseconds(array["t"])
    if "y" not in fields:
        none = np.zeros(len(x), np.uint8)
        return Events(x, none, t, none, sensor)
    return Events(x, array["y"], t, array["p"] > 0, sensor)


def whole_microseconds(t: Shaped[np.ndarray, " E"], unit: float = 1) -> Shaped[np.ndarray, " E"]:
    """Times as whole microseconds. Fractions are rounded.

    Args:
        t: Times in any unit.
        unit: The unit in microseconds, such as 1e6 for seconds.

    Raises:
        ValueError: If a time is not finite or does not fit into 64 bits.
    """
    if t.dtype.kind != "f" and unit == 1:
        return t
    scaled = t.astype(np.float64) * unit
    wrong = ~(np.abs(scaled) < 2.0**63)
    if wrong.any():
        n = int(np.argmax(wrong))
        raise ValueError(f"event {n} has the time {t[n]}, which is not a number of microseconds")
    return np.rint(scaled).astype(np.int64)
