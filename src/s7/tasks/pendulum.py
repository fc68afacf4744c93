"""Pendulum: predict the angle of a pendulum from noisy images at irregular times. `pendulum_frames` simulates them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import s7
from s7.data.samples import Samples
from s7.tasks.pendulum_frames import Pendulums, generate, photograph_again
from s7.tasks.task import Problem, Task

SIZES = {"train": 2000, "valid": 1000, "test": 1000}


@dataclass(frozen=True)
class Pendulum(Task):
    """Predict (sin θ, cos θ) at every image. Time is measured in frames.

    Args:
        frames: The number of images per sequence, out of a hundred frames.
        copies: The number of draws of the noise for each training sequence.
        mirrored: Whether to add the mirror image of each training sequence.
    """

    name: ClassVar[str] = "pendulum"
    title: ClassVar[str] = "Pendulum angle from noisy images at irregular times"
    source: ClassVar[str] = "simulated by the procedure of CRU and S5"
    protocols: ClassVar[dict[str, str]] = {
        "strict": "2,000 training, 1,000 validation, 1,000 test sequences; causal",
        "paper": "the same split; causal. The paper gives no settings for this task",
    }
    frames: int = 50
    seed: int = 0
    copies: int = 1
    mirrored: bool = False

    def __post_init__(self):
        if self.copies < 1:
            raise ValueError(f"copies={self.copies} must be at least 1")

    def load(self, folder, protocol, say):
        total = sum(SIZES.values())

        def make():
            say(f"simulating {total:,} pendulums, about a minute …")
            return generate(total, self.frames, self.seed)._asdict()

        settings = {"frames": self.frames, "seed": self.seed, "sizes": SIZES, "version": 1}
        made = Pendulums(**folder.simulated(self.name, settings, make))
        ends = np.cumsum(list(SIZES.values()))
        parts = {
            name: Pendulums(*(q[end - SIZES[name] : end] for q in made)) for name, end in zip(SIZES, ends, strict=True)
        }

        def photograph():
            say(f"adding {self.copies - 1} more draws of noise to the training data …")
            again = [photograph_again(parts["train"], seed).images for seed in range(1, self.copies)]
            return {"images": np.concatenate(again)}

        if self.copies > 1:
            more = folder.simulated(self.name, settings | {"copies": self.copies}, photograph)["images"]
            seen = [np.concatenate([q] * self.copies) for q in parts["train"][1:]]
            parts["train"] = Pendulums(np.concatenate([parts["train"].images, more]), *seen)
        if self.mirrored:
            both = zip(parts["train"], mirror(parts["train"]), strict=True)
            parts["train"] = Pendulums(*(np.concatenate(pair) for pair in both))
        splits = {name: _samples(part, name) for name, part in parts.items()}
        mean = splits["train"].targets.mean(0)
        guess = float(np.mean((splits["test"].targets - mean) ** 2))
        return Problem(
            splits["train"],
            splits["valid"],
            splits["test"],
            encoder=s7.ImageEncoder((24, 24, 1), scale=255),
            head=s7.PerStep(4),
            objective=s7.GaussianNLL(2),
            columns=("sin θ", "cos θ"),
            baselines={"the mean angle": {"mse": guess, "rmse": guess**0.5}},
        )


def mirror(pendulums: Pendulums) -> Pendulums:
    """Mirrored samples: the sine changes its sign, the cosine and the time do not."""
    images, frames, angles = pendulums
    return Pendulums(images[..., ::-1], frames, angles * np.array([-1, 1], angles.dtype))


def _samples(part: Pendulums, name: str) -> Samples:
    gaps = np.diff(part.frames, axis=1, prepend=part.frames[:, :1]).astype(np.float32)
    return Samples.of(part.images[..., None], part.angles, gaps, name=name)
