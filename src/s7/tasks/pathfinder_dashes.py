"""Dashes of Pathfinder's contours: where one can follow another, what is too near to it, how it is drawn.

All that a dash needs depends on its direction alone, and there are some four hundred of them: it is looked up.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Integer, Shaped, UInt8

from s7.tasks.pendulum_frames import lanczos

TURNS = 360  # directions of a contour's first dash
FULL = 255  # of a pixel that is blocked
_ZOOM = 2


@dataclass(frozen=True)
class Recipe:
    """Settings of the published generator, in pixels.

    Of `margins` each picture has one. `apart` are the starts of the two long contours. `contrasts` are of long and of
    short contours; a marker's is 1. `block` pictures are made at a time, from `pairs` of contours side by side.
    """

    side: int
    dash: int
    thickness: float
    margins: tuple[int, ...]
    continuity: float
    apart: int
    radius: float
    shorts: int
    contrasts: tuple[float, float]
    block: int
    pairs: int


PATHFINDER = Recipe(32, 2, 0.5, (1,), 1.0, 7, 1.5, 5, (1.5, 2.0), block=200, pairs=1024)
PATH_X = Recipe(128, 5, 1.5, (2, 3), 1.8, 20, 3.0, 8, (0.9, 0.9), block=20, pairs=512)


class Stamps(NamedTuple):
    """Small pictures as lists of pixels: steps from a place to them in a flattened canvas, and their values.

    All lists are of one length; a short one repeats its first pixel.
    """

    steps: Int[np.ndarray, "W Q"]
    values: Float[np.ndarray, "W Q"] | UInt8[np.ndarray, "W Q"]

    @classmethod
    def of(cls, pictures: Float[np.ndarray, "W S S"] | UInt8[np.ndarray, "W S S"], columns: int) -> "Stamps":
        """Of pictures whose middle pixel goes to the place, on a canvas of so many columns."""
        ways, size, _ = pictures.shape
        flat = pictures.reshape(ways, -1)
        used = np.count_nonzero(flat, 1)
        pixels = np.argsort(flat == 0, axis=1, kind="stable")[:, : used.max()]
        pixels = np.where(np.arange(used.max()) < used[:, None], pixels, pixels[:, :1])
        row, column = np.divmod(pixels, size)
        half = size // 2
        return cls((row - half) * columns + column - half, np.take_along_axis(flat, pixels, 1))

    def put(
        self,
        canvases: Shaped[np.ndarray, "M F"],
        who: Int[np.ndarray, " N"],
        places: Int[np.ndarray, " N"],
        way: Int[np.ndarray, " N"],
        scale: float = 1,
    ) -> None:
        """Onto a place of each of some canvases, where it is brighter than what is there."""
        flat = canvases.reshape(-1)
        pixels = (who * canvases.shape[1] + places)[:, None] + self.steps[way]
        values = self.values[way] if scale == 1 else scale * self.values[way]
        flat[pixels] = np.maximum(flat[pixels], values)


@dataclass(frozen=True)
class Dashes:
    """What all dashes of one margin have in common, in tables by their way.

    The first 360 ways are degrees, of dashes that begin a contour and are drawn forwards from their place. The others
    lead from a pivot, in the middle of the gap before the dash, to pixels on a circle: these are drawn backwards from
    their place, which is their far end.
    """

    recipe: Recipe
    margin: int

    @cached_property
    def clearance(self) -> float:
        """Contours are farther than this from each other."""
        return 2 * self.margin + self.recipe.thickness - 2 / 3

    @cached_property
    def rim(self) -> float:
        """Dashes are at least so far from a picture's outermost pixels."""
        return self.margin + self.recipe.thickness / 2 - 0.5

    @cached_property
    def border(self) -> int:
        """Pixels around a picture in which one may look but nothing may be."""
        return self.recipe.dash + 2 * self.margin + 3

    @cached_property
    def columns(self) -> int:
        """Of a canvas: a picture and its border."""
        return self.recipe.side + 2 * self.border

    @cached_property
    def size(self) -> int:
        """Pixels of a canvas."""
        return self.columns**2

    @cached_property
    def circle(self) -> Int[np.ndarray, "K 2"]:
        """From a pivot to where the dash after it may end."""
        radius = self.recipe.dash + self.margin
        # About a pixel apart, and the same from all eight sides.
        steps = 8 * round(2 * np.pi * radius / 8)
        return np.unique(np.round(radius * unit(2 * np.pi / steps * np.arange(steps))).astype(int), axis=0)

    @cached_property
    def angles(self) -> Float[np.ndarray, " W"]:
        """In which a contour goes on."""
        return np.concatenate([np.deg2rad(np.arange(TURNS)), np.arctan2(self.circle[:, 0], self.circle[:, 1])])

    @cached_property
    def toward(self) -> Float[np.ndarray, "W 2"]:
        """In which a dash is drawn from its place."""
        drawn = unit(self.angles)
        drawn[TURNS:] *= -1
        return drawn

    @cached_property
    def to_pivot(self) -> Int[np.ndarray, "360 2"]:
        """From the place of a first dash to the pivot before it."""
        return np.round(-self.margin * self.toward[:TURNS]).astype(int)

    @cached_property
    def advance(self) -> Int[np.ndarray, "W 2"]:
        """From the pivot before a dash to the one after it."""
        return np.round((self.recipe.dash + 2 * self.margin) * unit(self.angles)).astype(int)

    @cached_property
    def likelihood(self) -> Float[np.ndarray, "W K"]:
        """Of each direction after each, where nothing is in the way."""
        off = np.abs((self.angles[TURNS:] - self.angles[:, None] + np.pi) % (2 * np.pi) - np.pi)
        return np.cos(np.minimum(self.recipe.continuity * off, np.pi / 2)) ** 2

    @cached_property
    def pixels(self) -> Int[np.ndarray, "W P"]:
        """Steps to the pixels along a dash."""
        along = np.arange(self.recipe.dash + 1)[:, None]
        row, column = np.moveaxis(np.round(along * self.toward[:, None]).astype(int), -1, 0)
        return row * self.columns + column

    @cached_property
    def halo(self) -> Stamps:
        """What a dash blocks: 255 as far as the clearance, then less, to nothing a pixel farther."""
        half = self.recipe.dash + math.ceil(self.clearance)
        along, across = _frame(self.toward, half)
        beyond = along - np.clip(along, 0, self.recipe.dash)
        distance = np.hypot(beyond, across)
        return Stamps.of((FULL * np.clip(self.clearance + 1 - distance, 0, 1)).astype(np.uint8), self.columns)

    @cached_property
    def ink(self) -> Stamps:
        """How a dash is drawn. A line of one pixel has one in each row or column, whichever it has more of."""
        half = self.recipe.dash + math.ceil(self.recipe.thickness) + self.margin
        along, across = _frame(self.toward, half * _ZOOM)
        inside = (along >= -0.5) & (along <= self.recipe.dash * _ZOOM + 0.5)
        steep = np.abs(self.toward).max(1)[:, None, None]
        width = self.recipe.thickness * _ZOOM - 1 + steep
        return Stamps.of(_shrunk(inside & (np.abs(across) <= width / 2), half), self.columns)

    @cached_property
    def marker(self) -> Stamps:
        """How a marker is drawn."""
        half = math.ceil(self.recipe.radius) + 2
        row, column = np.ogrid[-half * _ZOOM : half * _ZOOM + 1, -half * _ZOOM : half * _ZOOM + 1]
        disc = row**2 + column**2 <= (self.recipe.radius * _ZOOM) ** 2
        return Stamps.of(_shrunk(disc[None], half), self.columns)

    def is_inside(
        self, at: Integer[np.ndarray, "*N 2"] | Float[np.ndarray, "*N 2"], rim: float
    ) -> Bool[np.ndarray, "*N"]:
        """Which places are at least so far from a picture's outermost pixels."""
        row, column = at[..., 0], at[..., 1]
        far = self.recipe.side - 1 - rim
        return (row >= rim) & (row <= far) & (column >= rim) & (column <= far)

    def flat(self, at: Int[np.ndarray, "*N 2"]) -> Int[np.ndarray, "*N"]:
        """Places in a flattened canvas."""
        return (at[..., 0] + self.border) * self.columns + at[..., 1] + self.border


@cache
def dashes_of(recipe: Recipe, margin: int) -> Dashes:
    """The tables, made once."""
    return Dashes(recipe, margin)


def unit(angle: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N 2"]:
    """A step of one pixel (rows, columns)."""
    return np.stack([np.sin(angle), np.cos(angle)], -1)


def _frame(
    toward: Float[np.ndarray, "W 2"], half: int
) -> tuple[Float[np.ndarray, "W S S"], Float[np.ndarray, "W S S"]]:
    """How far along and across a way the pixels around a place are."""
    row, column = np.mgrid[-half : half + 1, -half : half + 1]
    sine, cosine = toward[:, 0, None, None], toward[:, 1, None, None]
    return row * sine + column * cosine, row * cosine - column * sine


def _shrunk(drawn: Bool[np.ndarray, "W Z Z"], half: int) -> Float[np.ndarray, "W S S"]:
    """A drawing in the size of a picture."""
    shrink = lanczos(drawn.shape[-1], 2 * half + 1)
    return np.clip(shrink @ drawn.astype(np.float32) @ shrink.T, 0, 1)
