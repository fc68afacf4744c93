"""What runs with a preset reached on validation data after some epochs, so that a shorter run can say what to expect.

`expected.json` is written by `python -m benchmarks.results` from the recorded runs: for each task, the metric and the
points (epochs, mean over seeds of the best value so far, or of the last one if the preset keeps that). Those before the
end of a run are cautious: a run that ends there has lowered its learning rate by then.
"""

import json
import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

from s7.publishing.text import metric_name, metric_value

FILE = "expected.json"


def expectation(task: str, epochs: float) -> str | None:
    """A sentence on the metric that a run of so many epochs can expect; None if no recorded run says.

    Args:
        task: The name of the task.
        epochs: The number of epochs, which need not be whole.
    """
    known = _known().get(task)
    if known is None:
        return None
    value = interpolated(known["points"], epochs)
    if value is None:
        least = known["points"][0][0]
        return f"no recorded run of less than {least:g} epoch{'' if least == 1 else 's'} says what to expect"
    metric = known["metric"]
    shown = f"{metric_name(metric)} of about {metric_value(metric, value)}"
    return f"expect a validation {shown} or better, as in recorded runs"


def interpolated(points: Sequence[Sequence[float]], epochs: float) -> float | None:
    """The value at so many epochs, linear in their logarithm; that of the last point beyond it, none before the first.

    Args:
        points: Pairs (epochs, value) in increasing order of the epochs.
        epochs: Where to interpolate.
    """
    if epochs < points[0][0]:
        return None
    for (left, low), (right, high) in pairwise(points):
        if epochs < right:
            return low + (high - low) * math.log(epochs / left) / math.log(right / left)
    return points[-1][1]


@cache
def _known() -> dict[str, Any]:
    return json.loads((files(__package__) / FILE).read_text(encoding="utf-8"))
