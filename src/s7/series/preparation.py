"""From series as they are to what a model reads: missing values, standardization, gaps and patches."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Shaped

from s7.data.samples import Samples
from s7.series.collection import Collection
from s7.series.patches import patched

# Standardized values are limited to this, so that a single broken reading does not drown all others.
LIMIT = 20.0
# Even times are at most this many times as dense as the steps of the training data, and at most this many in all.
FINEST = 4
LONGEST = 8192
Interpolation = Literal["linear", "hold"]


@dataclass(frozen=True)
class Preparation:
    """What is done to series before a model reads them, with everything that it needs to know of the training data.

    Steps without any value are left out; the gap before the next step says so. A value that is missing
    in a step with other values is replaced by the last one seen, and an indicator channel is 1 there.

    Attributes:
        mean, scale: The mean and the standard deviation of each channel.
        indicators: The channels in which values are missing.
        unit: The mean gap, in which gaps are counted; None if the model reads no gaps.
        per_series: Whether each series is standardized by itself rather than by `mean` and `scale`.
        patch: The number of steps that are one event.
        grid: The step of even times at which irregular series are interpolated, in units of `unit`; None to give the
            model the steps as they are, with their gaps.
        interpolation: Whether a series is linear between its steps, or keeps the value of a step until the next one.
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    indicators: tuple[int, ...] = ()
    unit: float | None = None
    per_series: bool = False
    patch: int = 1
    grid: float | None = None
    interpolation: Interpolation = "linear"

    @classmethod
    def of(cls, train: Collection) -> "Preparation":
        """Learn from the training data.

        Raises:
            ValueError: A channel has no values at all. The message names it.
        """
        rows = np.concatenate(train.values)
        missing = np.isnan(rows)
        if missing.all(0).any():
            channel = int(np.argmax(missing.all(0)))
            raise ValueError(f"{train.channels[channel]} has no values: all are missing (NaN); leave the channel out")
        mean = np.nanmean(rows, 0)
        spread = np.nanstd(rows, 0)
        partly = missing & ~missing.all(1, keepdims=True)
        made = cls(
            tuple(mean.tolist()),
            tuple(np.where(spread > 0, spread, 1).tolist()),
            tuple(np.flatnonzero(partly.any(0)).tolist()),
        )
        if train.gaps is None and not missing.all(1).any():
            return made
        gaps = np.concatenate([part[1:] for part in _without_empty_rows(train, "training data")[1]])
        unit = float(gaps.mean()) if len(gaps) and gaps.sum() > 0 else 1.0
        return replace(made, unit=unit)

    @property
    def features(self) -> int:
        """The number of features of a step: channels and indicators, and in patches of irregular time the gap."""
        return len(self.mean) + len(self.indicators) + (self.reads_gaps and self.patch > 1)

    @property
    def reads_gaps(self) -> bool:
        """Whether the model is given gaps."""
        return self.unit is not None and self.grid is None

    def readings(self, train: Collection) -> tuple["Preparation", ...]:
        """Preparations that give irregular series even steps, with less and less trust in the times between the steps.

        Series are linear between the steps, at times as fine as most gaps of the training data; the same at times as
        coarse as the mean gap; they keep the value of a step until the next one, at fine times; or the steps are taken
        to be even, whatever the times are. Series whose steps are even have one reading.
        """
        if self.unit is None:
            return (self,)
        dt = _without_empty_rows(train, "training data")[1]
        gaps = np.concatenate([part[1:] for part in dt]) / self.unit
        positive = gaps[gaps > 0]
        if not len(positive):
            return (self,)
        longest = max(float(part[1:].sum()) for part in dt) / self.unit
        step = max(float(np.quantile(positive, 0.1)), 1 / FINEST, longest / LONGEST)
        fine = replace(self, grid=step)
        if np.ptp(gaps) < 1e-6:
            return (fine,)
        # Times that are hardly coarser would tell nothing new.
        coarse = [replace(fine, grid=1.0)] if step <= 0.5 else []
        return (fine, *coarse, replace(fine, interpolation="hold"), replace(self, unit=None))

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of an event."""
        return (self.patch, self.features) if self.patch > 1 else (self.features,)

    def __call__(self, series: Collection, targets: Any = None, *, per_step: bool = False, name: str = "x") -> Samples:
        """Prepare series.

        Args:
            series: The series.
            targets: One target per series or, with `per_step`, one array of them per series; None for zeros. Targets of
                steps without any value are dropped with the step.
            per_step: Whether there is one target per step.
            name: What the series are called in error messages.
        """
        values, dt = self.arrays(series, name)
        if targets is None:
            targets, per_step = np.zeros(len(series), int), False
        if per_step:
            kept = [~np.isnan(part).all(1) for part in series.values]
            targets = [np.asarray(part)[rows] for part, rows in zip(targets, kept, strict=True)]
        values, dt = patched(values, dt, self.patch)
        return Samples.of(values, targets, dt, per_step=per_step, name=name)

    def arrays(self, series: Collection, name: str = "x") -> tuple[list[Any], list[Any] | None]:
        """Standardized series without missing values, (steps, channels and indicators), and gaps in units."""
        if len(series.channels) != len(self.mean):
            raise ValueError(f"{name}: {len(series.channels)} channels, expected {len(self.mean)} as in training")
        values, between = _without_empty_rows(series, name)
        rows = [self._standardized(part) for part in values]
        if self.unit is None:
            return rows, None
        between = [part / self.unit for part in between]
        if self.grid is None:
            return rows, between
        at = held if self.interpolation == "hold" else interpolated
        return [at(part, dt, self.grid) for part, dt in zip(rows, between, strict=True)], None

    def _standardized(self, values: Float[np.ndarray, "L C"]) -> Float[np.ndarray, "L F"]:
        mean, scale = np.array(self.mean), np.array(self.scale)
        if self.per_series:
            mean, scale = _own_units(values, mean, scale)
        standard = np.clip((values - mean) / scale, -LIMIT, LIMIT)
        missing = np.isnan(standard)
        indicators = missing[:, list(self.indicators)]
        if missing.any():
            standard = forward_filled(standard)
        return np.concatenate([standard, indicators], 1).astype(np.float32)


def interpolated(
    values: Float[np.ndarray, "L F"], dt: Float[np.ndarray, " L"], step: float
) -> Float[np.ndarray, "K F"]:
    """A series at even times from its first step to its last, linear between its steps.

    Args:
        values: The values.
        dt: The gaps before them.
        step: The distance of the even times.
    """
    times = np.cumsum(dt) - dt[0]
    return np.stack([np.interp(_even(times, step), times, column) for column in values.T], 1).astype(values.dtype)


def held(values: Float[np.ndarray, "L F"], dt: Float[np.ndarray, " L"], step: float) -> Float[np.ndarray, "K F"]:
    """A series at even times from its first step to its last, with the value of the last step at each of them.

    Args:
        values: The values.
        dt: The gaps before them.
        step: The distance of the even times.
    """
    times = np.cumsum(dt) - dt[0]
    return values[np.searchsorted(times, _even(times, step) + 1e-6 * step, side="right") - 1]


def _even(times: Float[np.ndarray, " L"], step: float) -> Float[np.ndarray, " K"]:
    # A new series that spans much more time than those of the training data is read more coarsely.
    step = max(step, float(times[-1]) / (2 * LONGEST))
    return np.arange(int(times[-1] / step + 1e-6) + 1) * step


def forward_filled(values: Float[np.ndarray, "L C"]) -> Float[np.ndarray, "L C"]:
    """Missing values replaced by the last one before them, or by 0 where there is none."""
    places = np.where(np.isnan(values), 0, np.arange(len(values))[:, None])
    filled = np.take_along_axis(values, np.maximum.accumulate(places), 0)
    return np.nan_to_num(filled, nan=0.0)


def _own_units(
    values: Float[np.ndarray, "L C"], mean: Float[np.ndarray, " C"], scale: Float[np.ndarray, " C"]
) -> tuple[Shaped[np.ndarray, " C"], Shaped[np.ndarray, " C"]]:
    """The mean and the standard deviation of each channel of one series; those of all if it has no values."""
    known = ~np.isnan(values)
    count = np.maximum(known.sum(0), 1)
    own = np.where(known, values, 0).sum(0) / count
    spread = np.sqrt((np.where(known, values - own, 0) ** 2).sum(0) / count)
    any_known = known.any(0)
    return np.where(any_known, own, mean), np.where(spread > 1e-6 * scale, spread, scale)


def _without_empty_rows(series: Collection, name: str) -> tuple[list[Any], list[Any]]:
    """Series without the steps at which nothing is known, and the gaps between the steps that are left."""
    values, gaps = [], []
    for n, part in enumerate(series.values):
        dt = np.concatenate([[0.0], np.ones(len(part) - 1)]) if series.gaps is None else series.gaps[n]
        kept = ~np.isnan(part).all(1)
        if not kept.any():
            raise ValueError(f"{name}: series {n} has no values: all are missing (NaN); leave it out")
        if not kept.all():
            times = np.cumsum(dt)[kept]
            dt = np.concatenate([times[:1], np.diff(times)])
        values.append(part[kept])
        gaps.append(dt)
    return values, gaps
