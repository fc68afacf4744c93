"""Pictures of accumulated events: images, and animations of one image per interval of time. They need matplotlib.

A pixel shows how many events it had, and by its colour whether they were brighter or darker. The events of a sensor of
one row, such as an artificial cochlea, are drawn over time.
"""

from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from s7.events.container import Events, Size
from s7.publishing import require
from s7.publishing.colours import LIGHT
from s7.storage import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGES, ANIMATIONS = (".png",), (".gif",)
# Intervals of time of a sensor of one row.
COLUMNS = 600
# The longest side of a drawn sensor, in inches.
SIDE = 6.0
DOTS_PER_INCH = 100
DARKER, BRIGHTER = LIGHT["c5"], LIGHT["c1"]
LEGEND = "blue: brighter, red: darker"


class Counts:
    """The number of events per pixel and polarity.

    Args:
        size: Width and height of the picture.
    """

    def __init__(self, size: Size):
        self.size = size
        self.events = 0
        self._counts = np.zeros(2 * size[0] * size[1], np.int64)

    def add(self, x: Int[np.ndarray, " E"], y: Int[np.ndarray, " E"], p: Int[np.ndarray, " E"]) -> None:
        """Add events. Those outside of the picture are left out."""
        width, height = self.size
        inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
        places = ((p * height + y) * width + x)[inside]
        self._counts += np.bincount(places, minlength=len(self._counts))
        self.events += len(places)

    def image(self) -> Float[np.ndarray, "H W 3"]:
        """Red, green and blue from 0 to 1: white without events, else the mixture of the two colours."""
        width, height = self.size
        darker, brighter = self._counts.reshape(2, height, width)
        total = darker + brighter
        # A few pixels that fire all the time must not make all others pale.
        full = max(float(np.percentile(total[total > 0], 99)) if self.events else 1.0, 1.0)
        strength = np.minimum(total / full, 1)[..., None] ** 0.5
        share = (brighter / np.maximum(total, 1))[..., None]
        colour = share * _colour(BRIGHTER) + (1 - share) * _colour(DARKER)
        return 1 - strength * (1 - colour)


def _colour(text: str) -> Float[np.ndarray, " 3"]:
    return np.array([int(text[at : at + 2], 16) / 255 for at in (1, 3, 5)])


def write_image(path: Path, blocks: Iterable[Events], size: Size, start: int, end: int, title: str) -> int:
    """Draw the events of an interval of time as a PNG image.

    Args:
        path: The file to write.
        blocks: The events.
        size: Width and height of the sensor.
        start: The first time, in microseconds.
        end: The last time.
        title: What the picture shows.

    Returns:
        The number of events that were drawn.
    """
    require("a picture of events", ("matplotlib",))
    row = size[1] == 1
    counts = Counts((COLUMNS, size[0]) if row else size)
    for block in blocks:
        kept = block[(block.t >= start) & (block.t <= end)]
        x, y, t, p = (column.astype(np.int64) for column in (kept.x, kept.y, kept.t, kept.p))
        counts.add((t - start) * COLUMNS // max(end - start + 1, 1) if row else x, x if row else y, p)
    figure = _figure(counts.size, f"{title}: {counts.events:,} events in {(end - start) / 1e6:.3g} s")
    (axes,) = figure.axes
    if row:
        extent = (start / 1e6, end / 1e6 if end > start else start / 1e6 + 1e-6, size[0], 0)
        axes.imshow(counts.image(), extent=extent, aspect="auto", interpolation="nearest")
        axes.set(xlabel="time, s", ylabel="channel")
    else:
        axes.imshow(counts.image(), interpolation="nearest")
        axes.set_xlabel(LEGEND, fontsize=8)
    file = BytesIO()
    figure.savefig(file, format="png", dpi=DOTS_PER_INCH)
    write_atomically(path, file.getvalue())
    return counts.events


def write_animation(
    path: Path, blocks: Iterable[Events], size: Size, start: int, end: int, every: int, title: str, fps: int = 20
) -> int:
    """Draw the events of each interval of time as one image of a GIF animation.

    Args:
        path: The file to write.
        blocks: The events in the order of time.
        size: Width and height of the sensor, which must have several rows.
        start: The first time, in microseconds.
        end: The last time.
        every: The length of an interval, in microseconds.
        title: What the animation shows.
        fps: Images per second.

    Returns:
        The number of images.
    """
    require("an animation of events", ("matplotlib", "PIL"))
    from PIL import Image

    frames: list[Image.Image] = []
    figure = _figure(size, title)
    (axes,) = figure.axes
    drawn = axes.imshow(np.ones((size[1], size[0], 3)), interpolation="nearest")
    axes.set_xlabel(LEGEND, fontsize=8)
    for number, counts in enumerate(frames_of(blocks, size, start, end, every)):
        drawn.set_data(counts.image())
        axes.set_title(f"{title}: {number * every / 1e6:.3f} s, {counts.events:,} events", fontsize=9, loc="left")
        file = BytesIO()
        figure.savefig(file, format="png", dpi=DOTS_PER_INCH)
        frames.append(Image.open(file).convert("P", palette=Image.Palette.ADAPTIVE, colors=64))
    file = BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=1000 // fps, loop=0)
    write_atomically(path, file.getvalue())
    return len(frames)


def frames_of(blocks: Iterable[Events], size: Size, start: int, end: int, every: int) -> Iterator[Counts]:
    """The counts of each interval of time, intervals without events included."""
    counts, number, last = Counts(size), 0, (end - start) // every
    for block in blocks:
        kept = block[(block.t >= start) & (block.t <= end)]
        frames = (kept.t - start) // every
        for frame in np.unique(frames).tolist():
            while number < frame:
                yield counts
                counts, number = Counts(size), number + 1
            part = kept[frames == frame]
            counts.add(*(column.astype(np.int64) for column in (part.x, part.y, part.p)))
    while number <= last:
        yield counts
        counts, number = Counts(size), number + 1


def _figure(size: Size, title: str) -> "Figure":
    from matplotlib.figure import Figure

    scale = SIDE / max(size)
    figure = Figure((max(scale * size[0], 2.5) + 1.0, max(scale * size[1], 1.5) + 0.8), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, fontsize=9, loc="left")
    axes.tick_params(labelsize=8)
    return figure
