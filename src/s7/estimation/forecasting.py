"""Forecasting: a causal S7 model that predicts the next values of a series at each of its steps.

The model predicts by how much the next `horizon` values differ from the last one, in units of each channel's scale.
Series are cut into overlapping windows for training; the latest windows of each are for validation.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from s7.data.samples import Samples
from s7.estimation.defaults import Traits, plan_for
from s7.estimation.ensemble import Member
from s7.estimation.fitting import Request
from s7.heads import PerStep
from s7.inference import outputs_for
from s7.model import S7Model
from s7.series.collection import Collection
from s7.series.preparation import Preparation
from s7.training.api import train
from s7.training.objectives import MeanSquared

# The largest number of steps that a prediction depends on.
CONTEXT = 256
# The fraction of the windows that are for validation.
VALID = 0.2


class Forecaster(eqx.Module):
    """A fitted forecaster.

    Attributes:
        members: Causal models; their forecasts are averaged by weight.
        horizon: The number of steps to predict.
        channels: The names of the channels.
    """

    members: tuple[Member, ...]
    horizon: int = eqx.field(static=True)
    channels: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, series: Collection, name: str = "x") -> Float[np.ndarray, "N T C"]:
        """The next `horizon` values of each series, (N, horizon, channels)."""
        total = np.zeros((len(series), self.horizon, len(self.channels)))
        for member in self.members:
            values, dt = member.preparation.arrays(series, name)
            recent = [part[-CONTEXT:] for part in values]
            gaps = None if dt is None else [part[-CONTEXT:] for part in dt]
            found = outputs_for(member.model, Samples.of(recent, np.zeros(len(recent), int), gaps, per_step=False))
            change = np.stack([part[-1] for part in found]).reshape(total.shape)
            last = np.stack([part[-1, : len(self.channels)] for part in recent])[:, None]
            mean, scale = np.array(member.preparation.mean), np.array(member.preparation.scale)
            total += member.weight * ((last + change) * scale + mean)
        return total

    @property
    def selective(self) -> Member | None:
        """The model with the largest weight."""
        return max(self.members, key=lambda member: member.weight, default=None)


@dataclass(frozen=True)
class _Windows:
    inputs: list[Any]
    targets: list[Any]
    dt: list[Any] | None

    def samples(self, chosen: list[int], name: str) -> Samples:
        gaps = None if self.dt is None else [self.dt[n] for n in chosen]
        parts = [self.inputs[n] for n in chosen], [self.targets[n] for n in chosen]
        return Samples.of(*parts, gaps, per_step=True, name=name)


def fit_forecaster(series: Collection, horizon: int, request: Request) -> Forecaster:
    """Fit a forecaster to series.

    Args:
        series: The training series, each longer than `horizon`.
        horizon: The number of steps to predict.
        request: How to fit; `random_states` has no effect.

    Raises:
        ValueError: A series is too short.
    """
    began = time.perf_counter()
    preparation = Preparation.of(series)
    windows, latest = _windows(series, preparation, horizon)
    valid = [n for n, is_latest in enumerate(latest) if is_latest]
    kept = [n for n, is_latest in enumerate(latest) if not is_latest]
    outputs = horizon * len(series.channels)
    about: dict[str, Any] = {"classes": False, "per_step": True, "causal": True}
    traits = replace(Traits.of(series, preparation, outputs, **about), samples=len(kept))
    plan = plan_for(traits, **request.settings | {"patch": 1})
    spread = float(np.sqrt(np.mean(np.square(np.concatenate(windows.targets))))) or 1.0
    members = []
    count = max(1, request.members or 1)
    for number in range(count):
        minutes = None
        if request.minutes is not None:
            left = request.minutes - (time.perf_counter() - began) / 60
            minutes = max(left / (count - number), 0.02)
        model: S7Model = plan.model(traits, preparation, PerStep(outputs, 0.0, spread), request.seed + number)
        trained = train(
            model,
            windows.samples(kept, "train"),
            windows.samples(valid, "valid"),
            objective=MeanSquared(outputs, unit=spread**2),
            minutes=minutes,
            steps=plan.steps,
            seed=request.seed + number,
            out=request.out if number == 0 else None,
            callbacks=request.callbacks,
            progress=request.progress,
            about=request.about,
            **plan.train_settings(),
        )
        request.say(f"trained model {number + 1} of {count}: {_skill(trained.result, windows, valid)}")
        members.append(Member(trained.model, preparation, 1 / count))
    return Forecaster(tuple(members), horizon, series.channels)


def _windows(series: Collection, preparation: Preparation, horizon: int) -> tuple[_Windows, list[bool]]:
    """Windows of the series with the changes after each of their steps, and which windows are the latest."""
    values, dt = preparation.arrays(series)
    channels = len(series.channels)
    inputs, targets, gaps, latest = [], [], [], []
    for n, part in enumerate(values):
        usable = len(part) - horizon
        if usable < 2:
            raise ValueError(f"series {n} has {len(part)} steps with values, too few for horizon={horizon}")
        ahead = np.lib.stride_tricks.sliding_window_view(part[1:, :channels], horizon, 0).transpose(0, 2, 1)
        change = (ahead - part[:usable, None, :channels]).reshape(usable, -1)
        length = min(CONTEXT, max(2, usable // 4)) if len(values) < 5 else min(CONTEXT, usable)
        starts = list(range(0, usable - length + 1, max(1, length // 2)))
        # Where there are few series, the latest part of each is left out; the window before it overlaps with it.
        cut = max(1, round(VALID * len(starts))) if len(starts) > 2 else 0
        for place, start in enumerate(starts):
            stop = start + length
            is_late = cut > 0 and place >= len(starts) - cut
            if cut > 0 and not is_late and stop + horizon > starts[len(starts) - cut] + horizon:
                continue
            inputs.append(part[start:stop])
            targets.append(change[start:stop].astype(np.float32))
            latest.append(is_late)
            if dt is not None:
                gaps.append(dt[n][start:stop])
    if not any(latest):
        for n in range(len(latest)):
            latest[n] = n % 5 == 4 or (len(latest) < 5 and n == len(latest) - 1)
    if all(latest):
        raise ValueError(f"the series are too short for horizon={horizon}: no part is left to train on")
    return _Windows(inputs, targets, None if dt is None else gaps), latest


def _skill(result: dict[str, Any], windows: _Windows, valid: list[int]) -> str:
    persistence = float(np.mean(np.square(np.concatenate([windows.targets[n] for n in valid])))) or 1.0
    return f"error {result['valid']['mse'] / persistence:.3f} of that of repeating the last value (validation)"
