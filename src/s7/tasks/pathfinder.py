"""Pathfinder and Path-X: whether a dashed contour joins two markers, in a picture that is read pixel by pixel.

Pictures of 32×32 are sequences of 1,024 brightnesses in reading order, those of 128×128, which make Path-X, of 16,384.
The recipe is that of the Long Range Arena, and so are the files, for those who have them; pathfinder_pictures says how
pictures are made and what may differ.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Int, UInt8

import s7
from s7.data.download import Download
from s7.data.pictures import read_grey
from s7.data.samples import Samples
from s7.tasks.blocks import make_blocks
from s7.tasks.pathfinder_dashes import PATH_X, PATHFINDER, Recipe
from s7.tasks.pathfinder_pictures import make_block
from s7.tasks.sources import long_range_arena
from s7.tasks.task import Problem, Say, Task, most_frequent

CLASSES = ("apart", "joined")
# Blocks that are made and kept together: what an interruption can lose.
_TOGETHER = 200
# The published split's seed; its generator is another.
SEED = 42


@dataclass(frozen=True)
class _Contours(Task):
    """`pictures` are made, or with origin='lra' read, all that are published; 8 in 10 are for training."""

    recipe: ClassVar[Recipe]
    protocols: ClassVar[dict[str, str]] = {
        "strict": "8 of 10 pictures for training, 1 for validation, 1 tested once; LRA's set has 200,000",
        "paper": "the same sizes; which pictures are in which part was drawn by another generator",
    }
    pictures: int = 200_000
    seed: int = 0
    origin: Literal["made", "lra"] = "made"

    def __post_init__(self):
        for name, least in (("pictures", 10), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {least}")

    @property
    def _places(self) -> tuple[str, ...]:
        """As the archive unpacks, and as it is meant."""
        inner = f"pathfinder{self.recipe.side}/curv_contour_length_14/metadata"
        return f"lra/lra_release/lra_release/{inner}", f"lra/lra_release/{inner}"

    @property
    def _how(self) -> str:
        return f"s7 data fetch {self.name}, or leave data.origin at 'made'"

    def missing(self, folder):
        found = self.origin == "made" or folder.find(*self._places)
        return None if found else folder.absence(*self._places, how=self._how)

    def load(self, folder, protocol, say):
        if self.origin == "lra":
            metadata = folder.require(*self._places, how=self._how)
            images, labels = read_pictures(metadata, self.recipe.side, say)
        else:
            images, labels = self._made(folder, say)
        tenth = len(labels) // 10
        cuts = {"train": slice(0, -2 * tenth), "valid": slice(-2 * tenth, -tenth), "test": slice(-tenth, None)}
        samples = {
            name: Samples.of(images[cut].reshape(-1, images[0].size, 1), labels[cut], per_step=False, name=name)
            for name, cut in cuts.items()
        }
        return Problem(
            samples["train"],
            samples["valid"],
            samples["test"],
            encoder=s7.LinearEncoder.of(samples["train"]),
            head=s7.Mean(2),
            objective=s7.CrossEntropy(2, CLASSES),
            baselines=most_frequent(samples["train"], samples["test"], 2),
        )

    def _made(self, folder, say: Say) -> tuple[UInt8[np.ndarray, "N Y X"], Int[np.ndarray, " N"]]:
        side, together = self.recipe.side, _TOGETHER * self.recipe.block
        images = np.empty((self.pictures, side, side), np.uint8)
        labels = np.empty(self.pictures, np.int32)
        for start in range(0, self.pictures, together):
            stop = min(start + together, self.pictures)

            def make(start=start, stop=stop):
                say(f"drawing pictures {start:,} to {stop:,} of {self.pictures:,} …")
                draw = partial(_draw, self.recipe, self.seed, start // self.recipe.block)
                blocks = make_blocks(draw, -(-(stop - start) // self.recipe.block), say)
                drawn, answers = (np.concatenate(q)[: stop - start] for q in zip(*blocks, strict=True))
                return {"images": drawn, "labels": answers}

            settings = {"seed": self.seed, "start": start, "stop": stop, "version": 1}
            part = folder.simulated(self.name, settings, make)
            images[start:stop], labels[start:stop] = part["images"], part["labels"]
        return images, labels


def _draw(recipe: Recipe, seed: int, first: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    """What is kept of a block."""
    pictures = make_block(recipe, seed, first + block)
    return pictures.images, pictures.labels


@dataclass(frozen=True)
class Pathfinder(_Contours):
    """Pictures of 32×32."""

    name: ClassVar[str] = "pathfinder"
    title: ClassVar[str] = "Two markers, joined by a dashed contour or not, pixel by pixel"
    source: ClassVar[str] = "made, to the recipe of Linsley 2018 and the Long Range Arena, or its own files"
    downloads: ClassVar[tuple[Download, ...]] = (long_range_arena("*/pathfinder32/curv_contour_length_14/*"),)
    downloads_are_optional: ClassVar[bool] = True
    recipe: ClassVar[Recipe] = PATHFINDER


@dataclass(frozen=True)
class PathX(_Contours):
    """Pictures of 128×128. By default there are fewer than LRA has: its 200,000 take 3.3 GB and hours to make."""

    name: ClassVar[str] = "path-x"
    title: ClassVar[str] = "Pathfinder in 16,384 pixels"
    source: ClassVar[str] = Pathfinder.source
    downloads: ClassVar[tuple[Download, ...]] = (long_range_arena("*/pathfinder128/curv_contour_length_14/*"),)
    downloads_are_optional: ClassVar[bool] = True
    recipe: ClassVar[Recipe] = PATH_X
    pictures: int = 40_000


def read_pictures(metadata: Path, side: int, say: Say) -> tuple[UInt8[np.ndarray, "N Y X"], Int[np.ndarray, " N"]]:
    """The published pictures, shuffled, and whether the markers are joined in them.

    Metadata are lines of text, although the files are named .npy: folder, file, number, label and what it was made
    with.
    """
    listed = [
        entry
        for file in sorted(metadata.glob("*.npy"), key=lambda file: (len(file.stem), file.stem))
        for entry in _listed(file, metadata.parent)
    ]
    if len(listed) < 10:
        raise ValueError(f"{metadata}: its files list {len(listed)} pictures, expected at least 10; get them again")
    say(f"reading {len(listed):,} pictures of {metadata.parent} …")
    order = np.random.RandomState(SEED).permutation(len(listed))
    images = np.empty((len(listed), side, side), np.uint8)
    for place, number in enumerate(order):
        images[place] = read_grey(listed[number][0], (side, side))
    return images, np.array([label for _, label in listed], np.int32)[order]


def _listed(file: Path, place: Path) -> list[tuple[Path, int]]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{file}: not lines of text; get it again") from None
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if len(words) < 4 or words[3] not in ("0", "1"):
            raise ValueError(f"{file}: line {number} is not folder, file, number and label 0 or 1: {line[:80]!r}")
        picture = place / words[0] / words[1]
        if not picture.is_file():
            raise FileNotFoundError(f"{file}: line {number} names {picture}, which is missing")
        found.append((picture, int(words[3])))
    return found
