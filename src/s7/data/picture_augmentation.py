"""Augmentation of pictures that are read in the order of their pixels: shifts and mirror images."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from s7.data.image_patches import events_of_images, images_of_events
from s7.data.loader import Augmentation
from s7.data.samples import Samples


@dataclass(frozen=True, kw_only=True)
class PictureAugmentation(Augmentation):
    """Random changes of pictures whose pixels are a sequence in reading order. By default both are off.

    Args:
        shift: The largest shift in each direction, in pixels. What was outside of the picture repeats its edge.
        mirror: The probability that left and right are exchanged.
        width: The number of pixels in a row; None for square pictures.
        patch: The number of adjacent pixels of a row in each event.
        patch_rows: The number of rows that an event covers.
    """

    shift: int = 0
    mirror: float = 0.0
    width: int | None = None
    patch: int = 1
    patch_rows: int = 1

    def __post_init__(self) -> None:
        if self.shift < 0:
            raise ValueError(f"shift={self.shift} must not be negative")
        if not 0 <= self.mirror <= 1:
            raise ValueError(f"mirror={self.mirror} is a probability, from 0 to 1")
        if self.width is not None and self.width < 1:
            raise ValueError(f"width={self.width} must be at least 1")
        for name in ("patch", "patch_rows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")

    def longest(self, lengths: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """The lengths themselves: pictures keep their size."""
        return lengths

    def __call__(self, samples: Samples, chosen: Int[np.ndarray, " M"], seed: int, epoch: int) -> Samples:
        """The chosen pictures, each changed as a function of (seed, epoch, index)."""
        height, width = self._size(samples)
        rows, columns = np.empty((2, len(chosen)), int)
        mirrored = np.empty(len(chosen), bool)
        for place, sample in enumerate(chosen.tolist()):
            rng = np.random.default_rng([seed, epoch, sample])
            rows[place], columns[place] = rng.integers(-self.shift, self.shift, 2, endpoint=True)
            mirrored[place] = rng.random() < self.mirror
        events = samples.inputs.reshape(len(samples), int(samples.lengths[0]), -1)[chosen]
        pictures = images_of_events(events, width, self.patch, self.patch_rows)
        y = np.clip(np.arange(height) + rows[:, None], 0, height - 1)
        x = np.clip(np.arange(width) + columns[:, None], 0, width - 1)
        x = np.where(mirrored[:, None], x[:, ::-1], x)
        moved = pictures[np.arange(len(chosen))[:, None, None], y[:, :, None], x[:, None, :]]
        varied = events_of_images(moved, self.patch, self.patch_rows).reshape(-1, *samples.inputs.shape[1:])
        offsets = np.arange(len(chosen) + 1) * events.shape[1]
        return Samples(varied, samples.targets[chosen], offsets, name=samples.name)

    def _size(self, samples: Samples) -> tuple[int, int]:
        """The height and width of all pictures."""
        if samples.per_step or samples.counts is not None or samples.documents != 1 or samples.dt is not None:
            raise ValueError(f"{samples.name}: only pictures in regular time with one target each are augmented")
        size, patch = samples.inputs[0].size, self.patch * self.patch_rows
        if size % patch:
            raise ValueError(f"{samples.name}: {size} values in an event are not {patch} pixels")
        pixels = int(samples.lengths[0]) * patch
        width = round(pixels**0.5) if self.width is None else self.width
        fits = pixels % (width * self.patch_rows) == 0 and width % self.patch == 0
        if not samples.even or not fits or (self.width is None and width * width != pixels):
            shape = "squares" if self.width is None else f"rows of {width} pixels"
            raise ValueError(f"{samples.name}: the sequences are not pictures of one size with {shape}; set width")
        return pixels // width, width
