"""Images of dashed contours with two round markers. The question is whether one contour connects the markers.

The procedure is that of Linsley et al. (2018), with the settings of the Long Range Arena. Two contours of 14 dashes
start near the centre, a fixed distance apart, and grow in turn. Each dash follows the previous one after a gap of twice
the margin, in a direction that differs by θ with probability proportional to cos²(continuity θ). After three blocked
attempts the pair is discarded and another one is started. Short contours of 4 dashes are then added where there is
room, with five attempts each. The markers are at the start of one long contour and at the end of the same contour
(connected) or of the other one (not connected).

All settings, the order of operations, the number of attempts, the antialiasing (images are drawn at twice the size and
reduced by a Lanczos filter), the higher contrast of short contours in small images and the normalization of each image
to 0 to 255 follow the published generator. Small differences:

- The published generator has soft masks around dashes; here the equivalent clearance is a distance
  (`Dashes.clearance`).
- It allows the newest dashes of two contours to touch. Here contours never touch, and about 4 short contours fit into
  an image of 32×32 instead of 4.5.
- It rounds positions up or down, which bends contours slightly to one side; here they are rounded to the nearest pixel.
- It draws at random whether the markers are connected; here they are in one of every two images, in random order.
- Its first dash must start and end in the central square of the image; here it only has to start there.

Many attempts run in parallel, in arrays. Most of them fail, so there are more attempts than images.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Integer, Shaped, UInt8

from s7.tasks.pathfinder_dashes import FULL, TURNS, Dashes, Recipe, dashes_of, unit

LONG, SHORT = 14, 4  # dashes
ATTEMPTS = 5  # to place a short contour
DRAWS = 3  # of a direction, before a contour is discarded
_LEAST = 1e-4 * FULL  # the least likelihood of a direction for a contour to continue
_SOUGHT = 256  # positions tried for the start of a short contour
# Which markers a contour carries: none, the first one in reading order and perhaps the second, or only the second.
UNMARKED, FIRST, SECOND = range(3)


class Scenes(NamedTuple):
    """The contents of images: contours of dashes, the first two of them long, and two markers.

    A dash has a position `at` (row, column) and a `way` (`Dashes.toward`), -1 if there is no dash.
    """

    at: Int[np.ndarray, "N C 14 2"]
    way: Int[np.ndarray, "N C 14"]
    markers: Int[np.ndarray, "N 2 2"]


class Pictures(NamedTuple):
    """Images, whether their markers are connected, and their margins."""

    images: UInt8[np.ndarray, "N Y X"]
    labels: Int[np.ndarray, " N"]
    margins: Int[np.ndarray, " N"]
    scenes: Scenes

    def contour_classes(self, recipe: Recipe) -> UInt8[np.ndarray, "N Y X"]:
        """The class of the contour in each pixel; see `contour_classes`."""
        classes = np.empty_like(self.images)
        for margin in recipe.margins:
            here = np.flatnonzero(self.margins == margin)
            classes[here] = contour_classes(dashes_of(recipe, margin), Scenes(*(part[here] for part in self.scenes)))
        return classes


def make_block(recipe: Recipe, seed: int, block: int) -> Pictures:
    """A block of images, a function of these arguments."""
    rng = np.random.default_rng([seed, block])
    count = recipe.block
    first = rng.integers(0, 2, count // 2)
    labels = np.stack([first, 1 - first], 1).ravel()
    # Drawn before the contours, so that wide margins, which fail more often, are as frequent as narrow ones.
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


def lay_out(dashes: Dashes, joined: Integer[np.ndarray, " N"], rng: np.random.Generator) -> Scenes:
    """One scene for each entry of `joined`: whether its markers are connected."""
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
    canvas = np.zeros((count, dashes.size), np.float32)
    everywhere = np.ones((count, contours), bool)
    _draw_contours(dashes, scenes, everywhere, canvas)
    for marker in range(2):
        _draw_marker(dashes, scenes, marker, np.arange(count), canvas)
    images = _cropped(dashes, canvas)
    return np.round(images * (255 / images.max((1, 2), keepdims=True))).astype(np.uint8)


def contour_classes(dashes: Dashes, scenes: Scenes) -> UInt8[np.ndarray, "N Y X"]:
    """Which markers the contour has that is the brightest in each pixel: UNMARKED, FIRST or SECOND.

    A marker belongs to its contour. Pixels without ink are UNMARKED.
    """
    count, contours, _ = scenes.way.shape
    every, owners = np.arange(count), _owners(scenes)
    place = dashes.flat(scenes.markers)
    first = place.argmin(1)
    kinds = np.full((count, contours), UNMARKED)
    kinds[every, owners[every, 1 - first]] = SECOND
    kinds[every, owners[every, first]] = FIRST
    drawn = np.zeros((3, count, dashes.size), np.float32)
    for kind, canvas in enumerate(drawn):
        _draw_contours(dashes, scenes, kinds == kind, canvas)
        for marker in range(2):
            _draw_marker(dashes, scenes, marker, np.flatnonzero(kinds[every, owners[:, marker]] == kind), canvas)
    return _cropped(dashes, drawn.argmax(0)).astype(np.uint8)


def _owners(scenes: Scenes) -> Int[np.ndarray, "N 2"]:
    """Which of the two long contours starts at the first marker, and which one ends at the second."""
    ends = scenes.at[:, :2][:, :, [0, -1]]
    return (ends == scenes.markers[:, None]).all(-1).argmax(1)


def _draw_contours(
    dashes: Dashes, scenes: Scenes, chosen: Bool[np.ndarray, "N C"], canvas: Float[np.ndarray, "N F"]
) -> None:
    """Draw the chosen contours of each image."""
    for contour in range(chosen.shape[1]):
        contrast = dashes.recipe.contrasts[contour >= 2]
        for step in range(LONG):
            at, way = scenes.at[:, contour, step], scenes.way[:, contour, step]
            there = np.flatnonzero((way >= 0) & chosen[:, contour])
            dashes.ink.put(canvas, there, dashes.flat(at[there]), way[there], contrast)


def _draw_marker(
    dashes: Dashes, scenes: Scenes, marker: int, who: Int[np.ndarray, " M"], canvas: Float[np.ndarray, "N F"]
) -> None:
    """Draw one of the two markers of some images."""
    dashes.marker.put(canvas, who, dashes.flat(scenes.markers[who, marker]), np.zeros_like(who))


def _cropped(dashes: Dashes, canvas: Shaped[np.ndarray, "N F"]) -> Shaped[np.ndarray, "N Y X"]:
    """The images without their borders."""
    inner = slice(dashes.border, -dashes.border)
    return canvas.reshape(-1, dashes.columns, dashes.columns)[:, inner, inner]


def _long_contours(
    dashes: Dashes, rng: np.random.Generator
) -> tuple[Int[np.ndarray, "N 2 14 2"], Int[np.ndarray, "N 2 14"], UInt8[np.ndarray, "N F"]]:
    """The positions and ways of the pairs of contours that succeed, in order, and the pixels that they block."""
    recipe, count = dashes.recipe, dashes.recipe.pairs
    pair = [_Growing(dashes, np.zeros((count, dashes.size), np.uint8)) for _ in range(2)]
    ways = rng.integers(0, TURNS, (2, count))
    middle = rng.integers(2 * recipe.apart, recipe.side - 2 * recipe.apart, (count, 2))
    beside = middle + np.round(recipe.apart * unit(rng.uniform(0, 2 * np.pi, count))).astype(int)
    who = np.arange(count)
    for this, other, at, way in zip(pair, pair[::-1], (middle, beside), ways, strict=True):
        who = this.begin(who, at[who, None], way[who])
        other.avoid(who, this.at[who, 0], this.way[who, 0])
    for step in range(1, LONG):
        for this, other in zip(pair, pair[::-1], strict=True):
            who = this.extend(who, step, rng)
            other.avoid(who, this.at[who, step], this.way[who, step])
    second = pair[1]
    second.avoid(who, second.at[who, -1], second.way[who, -1])
    at, way = (np.stack([getattr(contour, name)[who] for contour in pair], 1) for name in ("at", "way"))
    return at, way, second.blocked[who]


def _short_contour(
    dashes: Dashes, blocked: UInt8[np.ndarray, "N F"], rng: np.random.Generator
) -> tuple[Int[np.ndarray, "N 14 2"], Int[np.ndarray, "N 14"]]:
    """The positions and ways of one more contour in each image that has room; updates the blocked pixels."""
    count = len(blocked)
    at, way = np.zeros((count, LONG, 2), int), np.full((count, LONG), -1)
    without = np.arange(count)
    for _ in range(ATTEMPTS):
        attempt = _Growing(dashes, blocked[without])
        # The first free one of many random positions is uniformly distributed over the free positions.
        sought = rng.integers(0, dashes.recipe.side, (len(without), _SOUGHT, 2))
        who = attempt.begin(np.arange(len(without)), sought, rng.integers(0, TURNS, len(without)))
        for step in range(1, SHORT):
            who = attempt.extend(who, step, rng)
        attempt.avoid(who, attempt.at[who, SHORT - 1], attempt.way[who, SHORT - 1])
        done = without[who]
        at[done], way[done], blocked[done] = attempt.at[who], attempt.way[who], attempt.blocked[who]
        without = np.delete(without, who)
    return at, way


class _Growing:
    """A growing contour in each of many images. `blocked` contains everything except its own newest dash.

    `who` are the images in which it still grows. Methods return the images in which they succeeded.
    """

    def __init__(self, dashes: Dashes, blocked: UInt8[np.ndarray, "N F"]):
        self.dashes, self.blocked = dashes, blocked
        self.at = np.zeros((len(blocked), LONG, 2), int)
        self.way = np.full((len(blocked), LONG), -1)
        self._pivot = np.zeros((len(blocked), 2), int)

    def begin(
        self, who: Int[np.ndarray, " N"], at: Int[np.ndarray, "N D 2"], way: Int[np.ndarray, " N"]
    ) -> Int[np.ndarray, " M"]:
        """Start with a first dash at the first of these positions that is free."""
        free = self._is_free(who, at, way[:, None])
        chosen = at[np.arange(len(who)), free.argmax(1)]
        self.at[who, 0], self.way[who, 0] = chosen, way
        self._pivot[who] = chosen + self.dashes.to_pivot[way]
        return who[free.any(1)]

    def extend(self, who: Int[np.ndarray, " N"], step: int, rng: np.random.Generator) -> Int[np.ndarray, " M"]:
        """Extend by the dash of this number."""
        dashes, last = self.dashes, self.way[who, step - 1]
        pivot = self._pivot[who] + dashes.advance[last]
        ends = pivot[:, None] + dashes.circle
        room = FULL - self.blocked[who[:, None], dashes.flat(ends)].astype(float)
        chance = np.cumsum(dashes.likelihood[last] * room * dashes.is_inside(ends, dashes.margin + 1), 1)
        drawn = rng.random((len(who), DRAWS)) * chance[:, -1:]
        turn = (chance[:, None] > drawn[..., None]).argmax(-1)
        free = self._is_free(who, np.take_along_axis(ends, turn[..., None], 1), TURNS + turn)
        fits = np.flatnonzero(free.any(1) & (chance[:, -1] > _LEAST))
        who, pivot, turn = who[fits], pivot[fits], turn[fits, free.argmax(1)[fits]]
        self.avoid(who, self.at[who, step - 1], last[fits])
        self._pivot[who], self.at[who, step], self.way[who, step] = pivot, pivot + dashes.circle[turn], TURNS + turn
        return who

    def avoid(self, who: Int[np.ndarray, " N"], at: Int[np.ndarray, "N 2"], way: Int[np.ndarray, " N"]) -> None:
        """Place a dash in each image."""
        self.dashes.halo.put(self.blocked, who, self.dashes.flat(at), way)

    def _is_free(
        self, who: Int[np.ndarray, " N"], at: Int[np.ndarray, " N D 2"], way: Int[np.ndarray, " N #D"]
    ) -> Bool[np.ndarray, "N D"]:
        """Whether dashes would be inside the image and on no blocked pixel."""
        dashes = self.dashes
        end = at + dashes.recipe.dash * dashes.toward[way]
        free = dashes.is_inside(at, dashes.rim) & dashes.is_inside(end, dashes.rim)
        start = dashes.flat(at)
        for step in np.moveaxis(dashes.pixels[way], -1, 0):
            free &= self.blocked[who[:, None], start + step] < FULL
        return free
