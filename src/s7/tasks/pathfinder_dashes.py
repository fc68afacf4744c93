"""Dashes of Pathfinder's contours: possible successors, clearance and drawing.

These depend only on the direction of a dash, of which there are about four hundred, so they are stored in tables.
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

    Attributes:
        margins: The margins, one of which each image has.
        apart: The distance between the starts of the two long contours.
        contrasts: The contrasts of long and of short contours; that of a marker is 1.
        block: The number of images that are generated at a time.
        pairs: The number of pairs of contours that are tried in parallel.
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
    """Small images as lists of pixels: their offsets from a position in a flattened canvas, and their values.

    All lists have the same length; a shorter one repeats its first pixel.
    """

    steps: Int[np.ndarray, "W Q"]
    values: Float[np.ndarray, "W Q"] | UInt8[np.ndarray, "W Q"]

    @classmethod
    def of(cls, pictures: Float[np.ndarray, "W S S"] | UInt8[np.ndarray, "W S S"], columns: int) -> "Stamps":
        """Build from images that are centred on the position, for a canvas with this number of columns."""
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
        """Draw at one position of each canvas; the brighter value of each pixel remains."""
        flat = canvases.reshape(-1)
        pixels = (who * canvases.shape[1] + places)[:, None] + self.steps[way]
        values = self.values[way] if scale == 1 else scale * self.values[way]
        flat[pixels] = np.maximum(flat[pixels], values)


@dataclass(frozen=True)
class Dashes:
    """Tables for all dashes of one margin, indexed by their way.

    The first 360 ways are directions in degrees, for the first dash of a contour, which is drawn forwards from its
    position. The others lead from a pivot, the middle of the gap before the dash, to pixels on a circle; these dashes
    are drawn backwards from their position, which is their far end.
    """

    recipe: Recipe
    margin: int

    @cached_property
    def clearance(self) -> float:
        """The minimum distance between contours."""
        return 2 * self.margin + self.recipe.thickness - 2 / 3

    @cached_property
    def rim(self) -> float:
        """The minimum distance of dashes from the outermost pixels of an image."""
        return self.margin + self.recipe.thickness / 2 - 0.5

    @cached_property
    def border(self) -> int:
        """The width of the border around an image, which may be read but stays empty."""
        return self.recipe.dash + 2 * self.margin + 3

    @cached_property
    def columns(self) -> int:
        """The size of a canvas: an image and its border."""
        return self.recipe.side + 2 * self.border

    @cached_property
    def size(self) -> int:
        """The number of pixels of a canvas."""
        return self.columns**2

    @cached_property
    def circle(self) -> Int[np.ndarray, "K 2"]:
        """Steps from a pivot to the possible ends of the dash after it."""
        radius = self.recipe.dash + self.margin
        # About a pixel apart, with the symmetry of a square.
        steps = 8 * round(2 * np.pi * radius / 8)
        return np.unique(np.round(radius * unit(2 * np.pi / steps * np.arange(steps))).astype(int), axis=0)

    @cached_property
    def angles(self) -> Float[np.ndarray, " W"]:
        """The direction in which a contour continues, for each way."""
        return np.concatenate([np.deg2rad(np.arange(TURNS)), np.arctan2(self.circle[:, 0], self.circle[:, 1])])

    @cached_property
    def toward(self) -> Float[np.ndarray, "W 2"]:
        """The direction in which a dash is drawn from its position, for each way."""
        drawn = unit(self.angles)
        drawn[TURNS:] *= -1
        return drawn

    @cached_property
    def to_pivot(self) -> Int[np.ndarray, "360 2"]:
        """Steps from the position of a first dash to the pivot before it."""
        return np.round(-self.margin * self.toward[:TURNS]).astype(int)

    @cached_property
    def advance(self) -> Int[np.ndarray, "W 2"]:
        """Steps from the pivot before a dash to the one after it."""
        return np.round((self.recipe.dash + 2 * self.margin) * unit(self.angles)).astype(int)

    @cached_property
    def likelihood(self) -> Float[np.ndarray, "W K"]:
        """The relative probability of each direction after each other one, if it is not blocked."""
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
        """The pixels that a dash blocks: 255 within the clearance, decreasing to 0 one pixel further."""
        half = self.recipe.dash + math.ceil(self.clearance)
        along, across = _frame(self.toward, half)
        beyond = along - np.clip(along, 0, self.recipe.dash)
        distance = np.hypot(beyond, across)
        return Stamps.of((FULL * np.clip(self.clearance + 1 - distance, 0, 1)).astype(np.uint8), self.columns)

    @cached_property
    def ink(self) -> Stamps:
        """The drawing of a dash. A line that is one pixel wide has one pixel per row or column, whichever are more."""
        half = self.recipe.dash + math.ceil(self.recipe.thickness) + self.margin
        along, across = _frame(self.toward, half * _ZOOM)
        inside = (along >= -0.5) & (along <= self.recipe.dash * _ZOOM + 0.5)
        steep = np.abs(self.toward).max(1)[:, None, None]
        width = self.recipe.thickness * _ZOOM - 1 + steep
        return Stamps.of(_shrunk(inside & (np.abs(across) <= width / 2), half), self.columns)

    @cached_property
    def marker(self) -> Stamps:
        """The drawing of a marker."""
        half = math.ceil(self.recipe.radius) + 2
        row, column = np.ogrid[-half * _ZOOM : half * _ZOOM + 1, -half * _ZOOM : half * _ZOOM + 1]
        disc = row**2 + column**2 <= (self.recipe.radius * _ZOOM) ** 2
        return Stamps.of(_shrunk(disc[None], half), self.columns)

    def is_inside(
        self, at: Integer[np.ndarray, "*N 2"] | Float[np.ndarray, "*N 2"], rim: float
    ) -> Bool[np.ndarray, "*N"]:
        """Whether positions are at least this far from the outermost pixels of an image."""
        row, column = at[..., 0], at[..., 1]
        far = self.recipe.side - 1 - rim
        return (row >= rim) & (row <= far) & (column >= rim) & (column <= far)

    def flat(self, at: Int[np.ndarray, "*N 2"]) -> Int[np.ndarray, "*N"]:
        """Indices of positions in a flattened canvas."""
        return (at[..., 0] + self.border) * self.columns + at[..., 1] + self.border


@cache
def dashes_of(recipe: Recipe, margin: int) -> Dashes:
    """The tables, computed once."""
    return Dashes(recipe, margin)


def unit(angle: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N 2"]:
    """A step of one pixel (rows, columns)."""
    return np.stack([np.sin(angle), np.cos(angle)], -1)


def _frame(
    toward: Float[np.ndarray, "W 2"], half: int
) -> tuple[Float[np.ndarray, "W S S"], Float[np.ndarray, "W S S"]]:
    """The coordinates of the pixels around a position, along and across each way."""
    row, column = np.mgrid[-half : half + 1, -half : half + 1]
    sine, cosine = toward[:, 0, None, None], toward[:, 1, None, None]
    return row * sine + column * cosine, row * cosine - column * sine


def _shrunk(drawn: Bool[np.ndarray, "W Z Z"], half: int) -> Float[np.ndarray, "W S S"]:
    """A drawing reduced to the resolution of an image."""
    shrink = lanczos(drawn.shape[-1], 2 * half + 1)
    return np.clip(shrink @ drawn.astype(np.float32) @ shrink.T, 0, 1)
