"""Percentiles of durations in constant memory, however many there are."""

import math
from collections.abc import Sequence

import numpy as np

# Durations from 100 ns to 1,000 s in buckets that are 4.4 % wide; shorter and longer ones count in the outermost.
SHORTEST = 1e-7
LONGEST = 1e3
PER_OCTAVE = 16
_BUCKETS = math.ceil(math.log2(LONGEST / SHORTEST) * PER_OCTAVE) + 1
_CENTRES = SHORTEST * np.exp2(np.arange(_BUCKETS) / PER_OCTAVE)


class Latencies:
    """A histogram of durations in seconds.

    Percentiles are exact to half a bucket, 2.2 %. The smallest and the largest duration are exact.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(_BUCKETS, np.int64)
        self.total = 0.0
        self.largest = 0.0
        self.smallest = math.inf

    def __len__(self) -> int:
        return int(self._counts.sum())

    def add(self, seconds: float) -> None:
        """Count one duration. Negative ones, which a clock of another machine may give, count as 0."""
        seconds = max(0.0, seconds)
        bucket = 0 if seconds <= SHORTEST else round(math.log2(seconds / SHORTEST) * PER_OCTAVE)
        self._counts[min(bucket, _BUCKETS - 1)] += 1
        self.total += seconds
        self.largest, self.smallest = max(self.largest, seconds), min(self.smallest, seconds)

    def merge(self, other: "Latencies") -> None:
        """Count the durations of another histogram too."""
        self._counts += other._counts
        self.total += other.total
        self.largest, self.smallest = max(self.largest, other.largest), min(self.smallest, other.smallest)

    def percentile(self, percent: float) -> float:
        """The duration that `percent` of all durations do not exceed; NaN if there are none."""
        count = len(self)
        if not count:
            return math.nan
        rank = max(1, math.ceil(count * percent / 100))
        if rank == count:
            return self.largest
        bucket = int(np.searchsorted(np.cumsum(self._counts), rank))
        return min(max(float(_CENTRES[bucket]), self.smallest), self.largest)

    def below(self, edges: Sequence[float]) -> list[int]:
        """For each edge in seconds, how many durations are at most that long."""
        ends = np.concatenate([[0], np.cumsum(self._counts)])
        return [int(ends[np.searchsorted(_CENTRES, edge, "right")]) for edge in edges]

    def summary(self) -> dict[str, float]:
        """Percentiles 50, 95, 99 and 99.9 and the maximum, in milliseconds; empty if there are no durations."""
        if not len(self):
            return {}
        found = {f"p{percent:g}": self.percentile(percent) for percent in (50, 95, 99, 99.9)}
        return {name: round(value * 1e3, 6) for name, value in (found | {"max": self.largest}).items()}
