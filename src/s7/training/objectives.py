"""Losses and metrics, each a mean over the targets that count.

An objective maps a model's outputs and the targets to one value per target and name. The sums of these over a split,
divided by the number of targets, are the loss and the metrics, so every sample has the same weight, regardless of its
batch. An instance holds settings only.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from s7.data.samples import Samples
from s7.registry import Registered

Values = dict[str, Float[Array, "*T"]]


@dataclass(frozen=True)
class Objective(Registered, ABC):
    """Base class of objectives. `metric` selects the best epoch; `better` is its direction."""

    metric: ClassVar[str]
    better: ClassVar[Literal["min", "max"]] = "min"

    @property
    @abstractmethod
    def outputs(self) -> int:
        """The number of outputs that the model needs for each target."""

    @abstractmethod
    def values(self, outputs: Float[Array, "*T O"], targets: Shaped[Array, "..."]) -> Values:
        """The `loss` of each target, and the values whose means are the metrics."""

    def check(self, samples: Samples) -> None:
        """Raise ValueError if the targets do not fit the objective."""

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        """The metrics from the means of the values."""
        return means

    def prediction(self, outputs: Float[Array, "*T O"]) -> Array:
        """The prediction made from the outputs."""
        return outputs

    def is_better(self, value: float, than: float | None) -> bool:
        """Whether one value of the metric is better than another; any value is better than None."""
        if than is None:
            return True
        return value < than if self.better == "min" else value > than


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Classification.

    A target is the number of a class or, where augmentation mixes samples, the proportion of each class.

    Args:
        classes: the number of classes.
        names: names of the classes, for reports.
        weights: a factor of the loss for each class; empty means 1. The accuracy is not weighted.
    """

    metric: ClassVar[str] = "accuracy"
    better: ClassVar[Literal["min", "max"]] = "max"
    classes: int
    names: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self):
        if self.weights and len(self.weights) != self.classes:
            raise ValueError(f"CrossEntropy: {len(self.weights)} weights for {self.classes} classes")
        for number, weight in enumerate(self.weights):
            if not (math.isfinite(weight) and weight >= 0):
                raise ValueError(f"CrossEntropy: the weight of class {number} is {weight}; it must not be negative")
        if self.weights and not any(self.weights):
            raise ValueError("CrossEntropy: the weights of all classes are 0")

    @property
    def outputs(self) -> int:
        return self.classes

    def values(self, outputs, targets):
        """-log p of the true class, and whether it was the most likely."""
        likelihood = jax.nn.log_softmax(outputs)
        if self.weights:
            likelihood = likelihood * jnp.asarray(self.weights, likelihood.dtype)
        if jnp.issubdtype(targets.dtype, jnp.floating):
            right = jnp.sum(likelihood * targets, -1)
            targets = jnp.argmax(targets, -1)
        else:
            right = jnp.take_along_axis(likelihood, targets[..., None], -1)[..., 0]
        hit = jnp.argmax(outputs, -1) == targets
        return {"loss": -right, "accuracy": hit.astype(outputs.dtype)}

    def check(self, samples):
        samples.require_labels(self.classes)

    def prediction(self, outputs):
        return jnp.argmax(outputs, -1)


@dataclass(frozen=True)
class MeanSquared(Objective):
    """Regression.

    Args:
        size: numbers in a target.
        unit: the loss is divided by it, for instance by the mean square of the targets; the metrics are not.
    """

    metric: ClassVar[str] = "mse"
    size: int
    unit: float = 1.0

    def __post_init__(self):
        if not self.unit > 0:
            raise ValueError(f"MeanSquared: unit={self.unit} must be positive")

    @property
    def outputs(self) -> int:
        return self.size

    def values(self, outputs, targets):
        """The mean squared error of each target."""
        mse = jnp.mean((outputs - targets) ** 2, -1)
        return {"loss": mse / self.unit, "mse": mse}

    def check(self, samples):
        _require_numbers(samples, self.size)

    def summary(self, means):
        """Add the root mean squared error."""
        return means | {"rmse": math.sqrt(means["mse"])}


@dataclass(frozen=True)
class GaussianNLL(Objective):
    """Regression with a predicted variance: the outputs are `size` means, then `size` raw variances.

    Args:
        size: numbers in a target.
        floor: the smallest variance.
    """

    metric: ClassVar[str] = "mse"
    size: int
    floor: float = 1e-4

    @property
    def outputs(self) -> int:
        return 2 * self.size

    def values(self, outputs, targets):
        """-log N(target; mean, variance) up to a constant."""
        mean, raw = jnp.split(outputs, 2, -1)
        variance = self.variance(raw)
        error = (mean - targets) ** 2
        return {"loss": jnp.mean(jnp.log(variance) + error / variance, -1) / 2, "mse": jnp.mean(error, -1)}

    def check(self, samples):
        _require_numbers(samples, self.size)

    def summary(self, means):
        return means | {"rmse": math.sqrt(means["mse"])}

    def variance(self, raw: Float[Array, "*T O"]) -> Float[Array, "*T O"]:
        """softplus(raw) + floor."""
        return jax.nn.softplus(raw) + self.floor

    def prediction(self, outputs):
        return outputs[..., : self.size]


def _require_numbers(samples: Samples, size: int) -> None:
    shape = samples.targets.shape[1:]
    if shape != (size,):
        raise ValueError(f"{samples.name}: a target has shape {shape}, expected ({size},)")
