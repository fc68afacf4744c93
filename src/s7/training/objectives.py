"""What training makes small and what is reported: a loss and metrics, each a mean over the targets that count.

An objective turns a model's outputs and the targets into one value per target and name. Sums of these over a whole
split, divided by how many there were, are the loss and the metrics: every sample weighs the same, whatever batch it
came in. An instance holds settings only.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from s7.data.samples import Samples

Values = dict[str, Float[Array, "*T"]]


@dataclass(frozen=True)
class Objective(ABC):
    """What every objective has. `metric` is the one that the best epoch is chosen by; `better` is its direction."""

    metric: ClassVar[str]
    better: ClassVar[Literal["min", "max"]] = "min"

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many numbers the model must give for each target."""

    @abstractmethod
    def values(self, outputs: Float[Array, "*T O"], targets: Shaped[Array, "..."]) -> Values:
        """For each target its `loss`, and what the metrics are means of."""

    def check(self, samples: Samples) -> None:  # noqa: B027  (nothing to check is a fine answer)
        """Raises an error if the targets are not of the kind that this objective needs."""

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        """The metrics from the means of the values."""
        return means

    def prediction(self, outputs: Float[Array, "*T O"]) -> Array:
        """The part of the outputs that answers the question."""
        return outputs

    def is_better(self, value: float, than: float | None) -> bool:
        """Whether one value of the metric is better than another; anything is better than none."""
        if than is None:
            return True
        return value < than if self.better == "min" else value > than


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Which of `classes` classes; `names` are for reports.

    A target is the number of a class or, where augmentation mixes samples, how much there is of each class.
    """

    metric: ClassVar[str] = "accuracy"
    better: ClassVar[Literal["min", "max"]] = "max"
    classes: int
    names: tuple[str, ...] = ()

    @property
    def outputs(self) -> int:
        return self.classes

    def values(self, outputs, targets):
        """-log p of the right class, and whether it was the likeliest."""
        likelihood = jax.nn.log_softmax(outputs)
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
    """`size` numbers. The loss is in units of `unit`, the targets' own mean square say; the metrics are not."""

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
        """The mean over the numbers of one target."""
        mse = jnp.mean((outputs - targets) ** 2, -1)
        return {"loss": mse / self.unit, "mse": mse}

    def check(self, samples):
        _require_numbers(samples, self.size)

    def summary(self, means):
        """With the root."""
        return means | {"rmse": math.sqrt(means["mse"])}


@dataclass(frozen=True)
class GaussianNLL(Objective):
    """`size` numbers, each with its own uncertainty: outputs are the means, then what makes the variances."""

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
        """softplus + floor: never nothing."""
        return jax.nn.softplus(raw) + self.floor

    def prediction(self, outputs):
        return outputs[..., : self.size]


def _require_numbers(samples: Samples, size: int) -> None:
    shape = samples.targets.shape[1:]
    if shape != (size,):
        raise ValueError(f"{samples.name}: a target has shape {shape}, expected ({size},)")
