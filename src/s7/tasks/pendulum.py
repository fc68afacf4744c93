"""Pendulum: the angle of a pendulum from noisy pictures at irregular times; pendulum_frames makes the pictures."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, UInt8

from s7.data.samples import Samples
from s7.encoders import ImageEncoder
from s7.heads import PerStep
from s7.tasks import pendulum_frames
from s7.tasks.task import Problem, Task
from s7.training.objectives import GaussianNLL

SIZES = {"train": 2000, "valid": 1000, "test": 1000}


@dataclass(frozen=True)
class Pendulum(Task):
    """`frames` of a hundred are kept; time is counted in frames.

    `mirrored` adds to the training data what a mirror would show: a pendulum that swings the other way.
    """

    name: ClassVar[str] = "pendulum"
    title: ClassVar[str] = "Pendulum angle from noisy pictures at irregular times"
    source: ClassVar[str] = "simulated, to the recipe of CRU and S5"
    protocols: ClassVar[dict[str, str]] = {
        "strict": "2,000 training, 1,000 validation, 1,000 test sequences; causal",
        "paper": "the same split; causal. The paper prints no settings for this task",
    }
    frames: int = 50
    seed: int = 0
    mirrored: bool = False

    def load(self, folder, protocol, say):
        total = sum(SIZES.values())

        def make():
            say(f"simulating {total:,} pendulums, about a minute …")
            return pendulum_frames.generate(total, self.frames, self.seed)._asdict()

        settings = {"frames": self.frames, "seed": self.seed, "sizes": SIZES, "version": 1}
        made = folder.simulated(self.name, settings, make)
        gaps = np.diff(made["frames"], axis=1, prepend=made["frames"][:, :1]).astype(np.float32)
        splits, start = {}, 0
        for name, size in SIZES.items():
            here = slice(start, start + size)
            part = [made["images"][here, ..., None], made["angles"][here], gaps[here]]
            if self.mirrored and name == "train":
                part = [np.concatenate(both) for both in zip(part, mirror(*part), strict=True)]
            splits[name] = Samples.of(*part, name=name)
            start += size
        mean = splits["train"].targets.mean(0)
        guess = float(np.mean((splits["test"].targets - mean) ** 2))
        return Problem(
            splits["train"],
            splits["valid"],
            splits["test"],
            encoder=ImageEncoder((24, 24, 1), scale=255),
            head=PerStep(4),
            objective=GaussianNLL(2),
            columns=("sin θ", "cos θ"),
            baselines={"the mean angle": {"mse": guess, "rmse": guess**0.5}},
        )


def mirror(
    images: UInt8[np.ndarray, "N K 24 24 1"], angles: Float[np.ndarray, "N K 2"], gaps: Float[np.ndarray, "N K"]
) -> tuple[np.ndarray, ...]:
    """Left and right exchanged: the sine changes its sign, the cosine and the time do not."""
    return images[:, :, :, ::-1], angles * np.array([-1, 1], angles.dtype), gaps
