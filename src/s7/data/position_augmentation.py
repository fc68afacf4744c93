"""Augmentation of positions: sequences of reports, each by one of several tags, of where the tag is."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from s7.data.loader import Augmentation
from s7.data.samples import Samples


@dataclass(frozen=True, kw_only=True)
class PositionAugmentation(Augmentation):
    """Random displacements of tags. By default all are off.

    An event is the one-hot tag and the tag's x, y and z. Targets and gaps stay as they are.

    Args:
        shift: The standard deviation of a displacement of all tags of a sequence, in units of the positions.
        tag_shift: The standard deviation of a displacement of each tag of a sequence.
        jitter: The standard deviation of a displacement of each report.
        turn: The largest angle by which a sequence is turned about its vertical axis, in degrees.
        scale: The largest factor of all distances from that axis and from the ground; the smallest is its inverse.
    """

    shift: float = 0.0
    tag_shift: float = 0.0
    jitter: float = 0.0
    turn: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("shift", "tag_shift", "jitter"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be finite and not negative")
        if not 0 <= self.turn <= 180:
            raise ValueError(f"turn={self.turn} must be from 0 to 180 degrees")
        if not 1 <= self.scale < math.inf:
            raise ValueError(f"scale={self.scale} must be finite and at least 1")

    def longest(self, lengths: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """The lengths themselves: no report is added."""
        return lengths

    def __call__(self, samples: Samples, chosen: Int[np.ndarray, " M"], seed: int, epoch: int) -> Samples:
        """The chosen sequences, each changed as a function of (seed, epoch, index)."""
        if samples.inputs.dtype.kind != "f" or samples.inputs.ndim != 2 or samples.inputs.shape[1] < 4:
            raise ValueError(f"{samples.name}: inputs are not tags with x, y and z; train without this augmentation")
        varied = samples.take(chosen)
        inputs = varied.inputs.copy()
        for n, sample in enumerate(chosen.tolist()):
            part = slice(*varied.offsets[n : n + 2].tolist())
            inputs[part, -3:] = self.displaced(inputs[part], np.random.default_rng([seed, epoch, sample]))
        return Samples(inputs, varied.targets, varied.offsets, varied.dt, varied.counts, varied.per_step, varied.name)

    def displaced(self, events: Float[np.ndarray, "L F"], rng: np.random.Generator) -> Float[np.ndarray, "L 3"]:
        """The new positions of the reports of one sequence."""
        tags, places = events[:, :-3], events[:, -3:]
        axis = places.mean(0) * [1, 1, 0]
        angle = math.radians(rng.uniform(-self.turn, self.turn))
        cos, sin = math.cos(angle), math.sin(angle)
        turned = (places - axis) @ np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]])
        places = axis + turned * self.scale ** rng.uniform(-1, 1)
        places = places + self.shift * rng.standard_normal(3)
        places = places + tags @ (self.tag_shift * rng.standard_normal((tags.shape[1], 3)))
        return places + self.jitter * rng.standard_normal(places.shape)
