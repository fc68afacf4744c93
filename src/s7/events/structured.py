"""Events from NumPy structured arrays with the fields x, y, t and p in any order, as in Tonic and other libraries.

Times are in microseconds. Channels of a cochlea have no y; their p is ignored.
"""

import numpy as np
from jaxtyping import Shaped

from s7.events.recordings import MICROSECONDS, Events


def from_structured(array: Shaped[np.ndarray, " E"]) -> Events:
    """Convert a structured array to events, in the same order, with times in milliseconds. Polarity -1 becomes 0."""
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
    x, t = array["x"], array["t"] / MICROSECONDS
    if "y" not in fields:
        none = np.zeros(len(x), np.uint8)
        return Events(x, none, none, t)
    return Events(x, array["y"], (array["p"] > 0).astype(np.uint8), t)
