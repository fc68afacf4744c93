"""Augmentation of series: noise, other amplitudes, other speeds, parts of a series, and mixtures of two.

Each series is changed as a function of (seed, epoch, index). Patches, which are events of shape (steps, features), are
taken apart and put together again.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from s7.data.loader import Augmentation
from s7.data.samples import Samples

# Points between which the speed of a warped series changes.
KNOTS = 5


@dataclass(frozen=True, kw_only=True)
class SeriesAugmentation(Augmentation):
    """Random changes of series of numbers. By default all are off.

    Args:
        jitter: The standard deviation of noise that is added to each value, in units of the inputs.
        scaling: The standard deviation of the logarithm of a factor for each feature of a series.
        time_warp: The standard deviation of the logarithm of the speed, which changes smoothly along a series. Regular
            series are interpolated; in irregular time the gaps change.
        window: The smallest fraction of a series that is kept, a random contiguous part; 1 keeps all.
        mixup: The parameter α of Beta(α, α), from which the share of another series is drawn; 0 for none. Targets are
            mixed too: classes become proportions. Needs regular series of one length.
        channels: The number of features that are measurements; later ones, such as indicators, are not changed by
            `jitter` and `scaling`. 0 for all.
        classes: The number of classes for `mixup`; 0 for regression.
    """

    jitter: float = 0.0
    scaling: float = 0.0
    time_warp: float = 0.0
    window: float = 1.0
    mixup: float = 0.0
    channels: int = 0
    classes: int = 0

    def __post_init__(self) -> None:
        for name in ("jitter", "scaling", "time_warp", "mixup", "channels", "classes"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name}={getattr(self, name)} must be finite and not negative")
        if not 0 < self.window <= 1:
            raise ValueError(f"window={self.window} must be a fraction above 0, at most 1")

    def longest(self, lengths: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """The lengths themselves: nothing makes a series longer."""
        return lengths

    def __call__(self, samples: Samples, chosen: Int[np.ndarray, " M"], seed: int, epoch: int) -> Samples:
        """The chosen series, each changed as a function of (seed, epoch, index)."""
        self._check(samples)
        inputs: list[np.ndarray] = []
        gaps: list[Any] = []
        targets: list[Any] = []
        for sample in chosen.tolist():
            rng = np.random.default_rng([seed, epoch, sample])
            values, dt = _steps(samples, sample)
            target = samples.targets[sample]
            if self.mixup:
                values, target = self._mixed(samples, sample, values, rng)
            values, dt = self.vary(values, dt, rng)
            inputs.append(_events(values, samples))
            gaps.append(dt)
            targets.append(target)
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in inputs])])
        dt = None if samples.dt is None else np.concatenate(gaps)
        return Samples(np.concatenate(inputs), np.array(targets), offsets, dt, name=samples.name)

    def vary(
        self, values: Float[np.ndarray, "L F"], dt: Float[np.ndarray, " L"] | None, rng: np.random.Generator
    ) -> tuple[Float[np.ndarray, "K F"], Float[np.ndarray, " K"] | None]:
        """Change one series: its steps, (length, features), and its gaps."""
        if self.window < 1:
            values, dt = window(values, dt, rng.uniform(self.window, 1), rng)
        if self.time_warp:
            values, dt = warp_time(values, dt, self.time_warp, rng)
        measured = self.channels or values.shape[1]
        if self.scaling or self.jitter:
            values = values.copy()
            values[:, :measured] *= np.exp(self.scaling * rng.standard_normal(measured)).astype(values.dtype)
            noise = rng.standard_normal((len(values), measured), dtype=np.float32)
            values[:, :measured] += self.jitter * noise
        return values, dt

    def _mixed(self, samples: Samples, sample: int, values: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        partner = int(rng.integers(len(samples)))
        share = float(rng.beta(self.mixup, self.mixup))
        share = min(share, 1 - share)
        mixed = ((1 - share) * values + share * _steps(samples, partner)[0]).astype(values.dtype)
        mine, theirs = samples.targets[sample], samples.targets[partner]
        if not self.classes:
            return mixed, (1 - share) * mine + share * theirs
        target = np.zeros(self.classes, np.float32)
        target[mine] += 1 - share
        target[theirs] += share
        return mixed, target

    def _check(self, samples: Samples) -> None:
        if samples.inputs.dtype.kind != "f" or samples.inputs.ndim not in (2, 3):
            raise ValueError(f"{samples.name}: inputs are not series of numbers; train without this augmentation")
        if samples.per_step or samples.counts is not None or samples.documents != 1:
            raise ValueError(f"{samples.name}: only series with one target each can be augmented")
        if samples.inputs.ndim == 3 and samples.dt is not None and (self.time_warp or self.window < 1):
            raise ValueError(f"{samples.name}: time_warp and window need single steps in irregular time, not patches")
        if self.mixup and (samples.dt is not None or not samples.even):
            raise ValueError(f"{samples.name}: mixup needs regular series of one length")
        if self.mixup and self.classes:
            samples.require_labels(self.classes)


def window(
    values: Float[np.ndarray, "L F"], dt: Float[np.ndarray, " L"] | None, fraction: float, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "K F"], Float[np.ndarray, " K"] | None]:
    """A random contiguous part that has this fraction of the steps, at least one."""
    size = max(1, round(fraction * len(values)))
    start = int(rng.integers(len(values) - size, endpoint=True))
    return values[start : start + size], None if dt is None else dt[start : start + size]


def warp_time(
    values: Float[np.ndarray, "L F"], dt: Float[np.ndarray, " L"] | None, std: float, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "L F"], Float[np.ndarray, " L"] | None]:
    """Change the speed smoothly along a series: its gaps or, in regular time, the places at which it is read."""
    knots = np.exp(std * rng.standard_normal(KNOTS))
    speed = np.interp(np.linspace(0, KNOTS - 1, len(values)), np.arange(KNOTS), knots)
    if dt is not None:
        return values, (dt * speed).astype(dt.dtype)
    if len(values) == 1:
        return values, None
    places = np.concatenate([[0], np.cumsum(speed[1:])])
    places *= (len(values) - 1) / places[-1]
    before = np.minimum(places.astype(int), len(values) - 2)
    share = (places - before)[:, None].astype(values.dtype)
    return (1 - share) * values[before] + share * values[before + 1], None


def _steps(samples: Samples, sample: int) -> tuple[Any, Any]:
    """The single steps of a series and its gaps."""
    part = slice(*samples.offsets[sample : sample + 2].tolist())
    values = samples.inputs[part]
    return values.reshape(-1, values.shape[-1]), None if samples.dt is None else samples.dt[part]


def _events(values: Float[np.ndarray, "L F"], samples: Samples) -> np.ndarray:
    """Steps as events of the shape that the samples have: patches, of which the last repeats its last step."""
    if samples.inputs.ndim == 2:
        return values
    size = samples.inputs.shape[1]
    missing = -len(values) % size
    if missing:
        values = np.concatenate([values, np.repeat(values[-1:], missing, 0)])
    return values.reshape(-1, size, values.shape[1])
