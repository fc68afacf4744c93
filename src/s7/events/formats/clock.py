"""Timestamps of counters that start again from 0 when they overflow."""

import numpy as np
from jaxtyping import Int, Integer


class Unwrapped:
    """Continues the timestamps of a counter beyond its overflows.

    A step back by more than half of the period is an overflow. After an overflow, a step forward by more than half of
    the period leads back before it, as for events that are slightly out of order. Smaller steps back remain.

    Args:
        period: The number of values of the counter.
    """

    def __init__(self, period: int):
        self._period = period
        self._last = 0
        self._overflows = 0

    def __call__(self, values: Integer[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """Unwrap the next values, in the order of the stream."""
        values = values.astype(np.int64)
        if not len(values):
            return values
        steps = np.diff(values, prepend=self._last)
        half = self._period // 2
        self._last = int(values[-1])
        if self._overflows == 0 and steps.min() >= -half:
            return values
        balance = self._overflows + np.cumsum((steps < -half).astype(np.int64) - (steps > half))
        # Nothing comes before the first period: a step forward there is a step forward.
        overflows = balance - np.minimum(np.minimum.accumulate(balance), 0)
        self._overflows = int(overflows[-1])
        return values + overflows * self._period
