"""Pictures of dashed contours with two round markers: does one contour lead from marker to marker, or not?

The recipe is that of Linsley and others (2018), with the settings of the Long Range Arena. Two contours of 14 dashes
start near the middle, a fixed distance apart, and grow in turn. A dash goes on from the one before it after a gap of
twice the margin, in a direction θ off the last one with probability in proportion to cos²(continuity θ); after three
that run into something the pair is given up, and another begun. Then come short contours of 4 dashes wherever there
is room, five attempts at each. The markers are at the start of one long contour and at the end of the same (joined)
or of the other one (apart).

Of the published generator come all settings, the order of things, what is tried how often, the antialiasing (drawn
twice as large, made smaller by Lanczos' filter), that short contours are brighter than long ones in the small
pictures, and that each picture is stretched to the range 0 to 255. It differs in small things:

- It has soft masks around dashes; here the clearance that they amount to is a distance (`Dashes.clearance`).
- It lets the newest dashes of two contours touch. Here contours never do.
- Its places are rounded up or down, which bends contours a little to one side; here to the nearest pixel.
- Its pictures are joined or apart by a throw of a coin; here every second one is joined, in random order of the two.
- The first dash only has to start in the middle square of the picture; there it must also end in it.

Many attempts run side by side, in arrays; most of them fail, so there are more of them than pictures.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Integer, UInt8

from s7.tasks.pendulum_frames import _lanczos

LONG, SHORT = 14, 4  # dashes
ATTEMPTS = 5  # at a short contour
DRAWS = 3  # of a direction, before a contour is given up
TURNS = 360  # directions of a contour's first dash
_FULL = 255  # of a place that a dash would block
_LEAST = 1e-4 * _FULL  # likelihood of any direction, for a contour to go on
_SOUGHT = 256  # places looked at for the start of a short contour
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


class Scenes(NamedTuple):
    """What is in pictures: contours of dashes, of which the two first are long, and two markers.

    A dash starts `at` a place (row, column) and goes a `way` (`Dashes.toward`), -1 where there is none.
    """

    at: Int[np.ndarray, "N C 14 2"]
    way: Int[np.ndarray, "N C 14"]
    markers: Int[np.ndarray, "N 2 2"]


class Pictures(NamedTuple):
    """Pictures, whether the markers are joined in them, and of what margin they are."""

    images: UInt8[np.ndarray, "N Y X"]
    labels: Int[np.ndarray, " N"]
    margins: Int[np.ndarray, " N"]
    scenes: Scenes


def make_block(recipe: Recipe, seed: int, block: int) -> Pictures:
    """A block of pictures, the same for the same numbers."""
    rng = np.random.default_rng([seed, block])
    count = recipe.block
    first = rng.integers(0, 2, count // 2)
    labels = np.stack([first, 1 - first], 1).ravel()
    # Drawn before the contours: a wide margin, which fails more often, is as frequent as a narrow one.
    margins = rng.choice(recipe.margins, count)
    images = np.empty((count, recipe.side, recipe.side), np.uint8)
    contours = 2 + recipe.shorts
    scenes = Scenes(
        np.zeros((count, contours, LONG, 2), int), np.zeros((count, contours, LONG), int), np.zeros((count, 2, 2), int)
    )
    for margin in recipe.margins:
        here = np.flatnonzero(margins == margin)
        dashes = dashes_of(recipe, margin)
        made = lay_out(dashes, labels[here], rng)
        for whole, part in zip(scenes, made, strict=True):
            whole[here] = part
        images[here] = render(dashes, made)
    return Pictures(images, labels, margins, scenes)


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

    def put(self, canvas: np.ndarray, places: Int[np.ndarray, " N"], way: Int[np.ndarray, " N"], scale: float = 1):
        """Onto places of a flattened canvas, where it is brighter than what is there."""
        pixels = places[:, None] + self.steps[way]
        values = self.values[way] if scale == 1 else scale * self.values[way]
        canvas[pixels] = np.maximum(canvas[pixels], values)


@dataclass(frozen=True)
class Dashes:
    """What all dashes of one margin have in common, in tables by their way.

    The first 360 ways are degrees, of dashes that begin a contour and are drawn forwards from their place. The others
    lead from a pivot, in the middle of the gap before the dash, to pixels on a circle: these are drawn backwards from
    their place, which is their far end.
    """

    recipe: Recipe
    margin: int

    @property
    def clearance(self) -> float:
        """Contours are farther than this from each other."""
        return 2 * self.margin + self.recipe.thickness - 2 / 3

    @property
    def rim(self) -> float:
        """Dashes are at least so far from a picture's outermost pixels."""
        return self.margin + self.recipe.thickness / 2 - 0.5

    @property
    def border(self) -> int:
        """Pixels around a picture in which one may look but nothing may be."""
        return self.recipe.dash + 2 * self.margin + 3

    @property
    def columns(self) -> int:
        """Of a canvas: a picture and its border."""
        return self.recipe.side + 2 * self.border

    @cached_property
    def circle(self) -> Int[np.ndarray, "K 2"]:
        """From a pivot to where the dash after it may end."""
        radius = self.recipe.dash + self.margin
        angle = np.arange(0, 2 * np.pi, 1 / radius)
        return np.unique(np.round(radius * _unit(angle)).astype(int), axis=0)

    @cached_property
    def angles(self) -> Float[np.ndarray, " W"]:
        """In which a contour goes on."""
        return np.concatenate([np.deg2rad(np.arange(TURNS)), np.arctan2(self.circle[:, 0], self.circle[:, 1])])

    @cached_property
    def toward(self) -> Float[np.ndarray, "W 2"]:
        """In which a dash is drawn from its place."""
        drawn = _unit(self.angles)
        drawn[TURNS:] *= -1
        return drawn

    @cached_property
    def to_pivot(self) -> Int[np.ndarray, "360 2"]:
        """From the place of a first dash to the pivot before it."""
        return np.round(-self.margin * self.toward[:TURNS]).astype(int)

    @cached_property
    def advance(self) -> Int[np.ndarray, "W 2"]:
        """From the pivot before a dash to the one after it."""
        return np.round((self.recipe.dash + 2 * self.margin) * _unit(self.angles)).astype(int)

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
        return Stamps.of((_FULL * np.clip(self.clearance + 1 - distance, 0, 1)).astype(np.uint8), self.columns)

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

    @property
    def size(self) -> int:
        """Pixels of a canvas."""
        return self.columns**2

    def is_inside(self, at: Integer[np.ndarray, "*N 2"] | Float[np.ndarray, "*N 2"], rim: float) -> Bool[np.ndarray, "*N"]:
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


def lay_out(dashes: Dashes, joined: Integer[np.ndarray, " N"], rng: np.random.Generator) -> Scenes:
    """As many scenes as there are answers to whether the markers are joined."""
    count = len(joined)
    parts: list[tuple[np.ndarray, ...]] = [_long_contours(dashes, rng)]
    while sum(len(part[0]) for part in parts) < count:
        parts.append(_long_contours(dashes, rng))
    at, way, blocked = (np.concatenate(q)[:count] for q in zip(*parts, strict=True))
    shorter = [_short_contour(dashes, blocked, rng) for _ in range(dashes.recipe.shorts)]
    at = np.concatenate([at, *(q[0][:, None] for q in shorter)], 1)
    way = np.concatenate([way, *(q[1][:, None] for q in shorter)], 1)
    rows = np.arange(count)
    start = rng.integers(0, 2, count)
    end = np.where(joined == 1, start, 1 - start)
    return Scenes(at, way, np.stack([at[rows, start, 0], at[rows, end, -1]], 1))


def render(dashes: Dashes, scenes: Scenes) -> UInt8[np.ndarray, "N Y X"]:
    """The pictures."""
    count, contours, _ = scenes.way.shape
    canvas = np.zeros(count * dashes.columns**2, np.float32)
    corner = np.arange(count) * dashes.columns**2
    for contour in range(contours):
        contrast = dashes.recipe.contrasts[contour >= 2]
        for at, way in zip(*(np.moveaxis(q[:, contour], 1, 0) for q in scenes[:2]), strict=True):
            there = np.flatnonzero(way >= 0)
            dashes.ink.put(canvas, corner[there] + dashes.flat(at[there]), way[there], contrast)
    for at in np.moveaxis(scenes.markers, 1, 0):
        dashes.marker.put(canvas, corner + dashes.flat(at), np.zeros(count, int))
    inner = slice(dashes.border, -dashes.border)
    images = canvas.reshape(count, dashes.columns, dashes.columns)[:, inner, inner]
    return np.round(images * (255 / images.max((1, 2), keepdims=True))).astype(np.uint8)


def _long_contours(
    dashes: Dashes, rng: np.random.Generator
) -> tuple[Int[np.ndarray, "N 2 14 2"], Int[np.ndarray, "N 2 14"], UInt8[np.ndarray, "N F"]]:
    """Places and ways of pairs of contours, and what they block. Of many pairs, in their order, those that succeed."""
    recipe, count = dashes.recipe, dashes.recipe.pairs
    # What is in the way of each of the two contours: all but its own newest dash, which the next one has to touch.
    blocked = np.zeros((count, 2, dashes.size), np.uint8)
    canvas = blocked.reshape(-1)
    corner = np.arange(2 * count).reshape(count, 2) * dashes.size
    at, way = np.zeros((count, 2, LONG, 2), int), np.zeros((count, 2, LONG), int)
    way[:, :, 0] = rng.integers(0, TURNS, (count, 2))
    at[:, 0, 0] = rng.integers(2 * recipe.apart, recipe.side - 2 * recipe.apart, (count, 2))
    at[:, 1, 0] = at[:, 0, 0] + np.round(recipe.apart * _unit(rng.uniform(0, 2 * np.pi, count))).astype(int)
    pivot = at[:, :, 0] + dashes.to_pivot[way[:, :, 0]]
    alive = np.arange(count)
    for step in range(LONG):
        for this, other in ((0, 1), (1, 0)):
            mine = corner[alive, this]
            if step == 0:
                fits = _is_free(dashes, canvas, mine, at[alive, this, :1], way[alive, this, :1])[:, 0]
                alive = alive[fits]
            else:
                last = way[alive, this, step - 1]
                fits, centre, end, turn = _next_dash(dashes, canvas, mine, pivot[alive, this], last, rng)
                alive = alive[fits]
                before = at[alive, this, step - 1]
                dashes.halo.put(canvas, corner[alive, this] + dashes.flat(before), last[fits])
                pivot[alive, this], at[alive, this, step], way[alive, this, step] = centre[fits], end[fits], turn[fits]
            places = corner[alive, other] + dashes.flat(at[alive, this, step])
            dashes.halo.put(canvas, places, way[alive, this, step])
    # The second contour's canvas lacks nothing but its own newest dash.
    dashes.halo.put(canvas, corner[alive, 1] + dashes.flat(at[alive, 1, -1]), way[alive, 1, -1])
    return at[alive], way[alive], blocked[alive, 1]


def _short_contour(
    dashes: Dashes, blocked: UInt8[np.ndarray, "N F"], rng: np.random.Generator
) -> tuple[Int[np.ndarray, "N 14 2"], Int[np.ndarray, "N 14"]]:
    """Places and ways of one more contour in each picture that has room for it; it is added to what is blocked."""
    count, size = blocked.shape
    at, way = np.zeros((count, LONG, 2), int), np.full((count, LONG), -1)
    without = np.arange(count)
    for _ in range(ATTEMPTS):
        trial = blocked[without]
        canvas = trial.reshape(-1)
        corner = np.arange(len(without)) * size
        turn = rng.integers(0, TURNS, len(without))
        # Any free place is as likely as any other: the first free one of many at random.
        sought = rng.integers(0, dashes.recipe.side, (len(without), _SOUGHT, 2))
        free = _is_free(dashes, canvas, corner, sought, turn[:, None])
        place = sought[np.arange(len(without)), free.argmax(1)]
        pivot = place + dashes.to_pivot[turn]
        alive = np.flatnonzero(free.any(1))
        tried = np.zeros((len(without), SHORT, 2), int), np.zeros((len(without), SHORT), int)
        tried[0][:, 0], tried[1][:, 0] = place, turn
        for step in range(1, SHORT):
            last = tried[1][alive, step - 1]
            fits, centre, end, turn = _next_dash(dashes, canvas, corner[alive], pivot[alive], last, rng)
            alive = alive[fits]
            dashes.halo.put(canvas, corner[alive] + dashes.flat(tried[0][alive, step - 1]), last[fits])
            pivot[alive], tried[0][alive, step], tried[1][alive, step] = centre[fits], end[fits], turn[fits]
        dashes.halo.put(canvas, corner[alive] + dashes.flat(tried[0][alive, -1]), tried[1][alive, -1])
        done = without[alive]
        blocked[done] = trial[alive]
        at[done, :SHORT], way[done, :SHORT] = tried[0][alive], tried[1][alive]
        without = np.delete(without, alive)
    return at, way


def _next_dash(
    dashes: Dashes,
    canvas: UInt8[np.ndarray, " E"],
    corner: Int[np.ndarray, " N"],
    pivot: Int[np.ndarray, "N 2"],
    last: Int[np.ndarray, " N"],
    rng: np.random.Generator,
) -> tuple[Bool[np.ndarray, " N"], Int[np.ndarray, "N 2"], Int[np.ndarray, "N 2"], Int[np.ndarray, " N"]]:
    """Whether a contour can go on, its next pivot, and the place and way of the dash."""
    pivot = pivot + dashes.advance[last]
    ends = pivot[:, None] + dashes.circle
    open_to = _FULL - canvas[corner[:, None] + dashes.flat(ends)].astype(float)
    chance = np.cumsum(dashes.likelihood[last] * open_to * dashes.is_inside(ends, dashes.margin + 1), 1)
    drawn = rng.random((len(pivot), DRAWS)) * chance[:, -1:]
    turn = (chance[:, None] > drawn[..., None]).argmax(-1)
    free = _is_free(dashes, canvas, corner, np.take_along_axis(ends, turn[..., None], 1), TURNS + turn)
    first = np.take_along_axis(turn, free.argmax(1)[:, None], 1)[:, 0]
    return free.any(1) & (chance[:, -1] > _LEAST), pivot, pivot + dashes.circle[first], TURNS + first


def _is_free(
    dashes: Dashes,
    canvas: UInt8[np.ndarray, " E"],
    corner: Int[np.ndarray, " N"],
    at: Int[np.ndarray, "N D 2"],
    way: Int[np.ndarray, "N #D"],
) -> Bool[np.ndarray, "N D"]:
    """Whether dashes would be in the picture, and on no pixel that is blocked."""
    end = at + dashes.recipe.dash * dashes.toward[way]
    free = dashes.is_inside(at, dashes.rim) & dashes.is_inside(end, dashes.rim)
    start = corner[:, None] + dashes.flat(at)
    for step in np.moveaxis(dashes.pixels[way], -1, 0):
        free &= canvas[start + step] < _FULL
    return free


def _unit(angle: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N 2"]:
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
    shrink = _lanczos(drawn.shape[-1], 2 * half + 1)
    return np.clip(shrink @ drawn.astype(np.float32) @ shrink.T, 0, 1)
