"""An encoder of patches: several consecutive steps of a series that the model reads as one event."""

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from s7.contractions import linear
from s7.encoders import Encoder
from s7.initialization import draw
from s7.standardization import check_units, events_of, units_of


@dataclass(frozen=True)
class PatchEncoder(Encoder):
    """W u + c, where u are all numbers of a patch of steps, each minus its feature's mean and divided by its scale.

    A patch is one event, so a series of L steps costs as much as L / patch events. `s7.series.patches` cuts series into
    patches. Each row of W is a filter as long as the patch.

    Args:
        patch: The number of steps in a patch. Inputs have shape (L, patch, inputs).
        inputs: The number of features of a step.
        bias: The standard deviation of the initial bias c.
        mean: The mean of the inputs, one number for all features or one for each.
        scale: The standard deviation of the inputs, one number for all features or one for each.
    """

    patch: int
    inputs: int
    bias: float = 0.7
    mean: float | tuple[float, ...] = 0.0
    scale: float | tuple[float, ...] = 1.0

    def __post_init__(self):
        for name in ("patch", "inputs"):
            if getattr(self, name) < 1:
                raise ValueError(f"PatchEncoder: {name}={getattr(self, name)} must be at least 1")
        check_units(self, self.inputs)

    @classmethod
    def of(cls, inputs: Any, patch: int, bias: float = 0.7) -> "PatchEncoder":
        """An encoder with the mean and the scale of data. Constant features have scale 1.

        Args:
            inputs: The series before they are cut into patches, as `LinearEncoder.of` takes them.
            patch: The number of steps in a patch.
            bias: The standard deviation of the initial bias.

        Examples:
            >>> import numpy as np, s7
            >>> s7.PatchEncoder.of(np.zeros((10, 64, 3)), patch=8).event_shape
            (8, 3)
        """
        events = events_of(inputs)
        return cls(patch, events.shape[1], bias, *units_of(events))

    @property
    def event_shape(self):
        return (self.patch, self.inputs)

    def init(self, width, *, key, dtype):
        size = self.patch * self.inputs
        return draw({"W": ((width, size), 1 / math.sqrt(size)), "c": ((width,), self.bias)}, key=key, dtype=dtype)

    def __call__(self, parameters, inputs):
        u = (inputs - jnp.asarray(self.mean, inputs.dtype)) / jnp.asarray(self.scale, inputs.dtype)
        return linear(parameters["W"], u.reshape(inputs.shape[0], -1)) + parameters["c"]
