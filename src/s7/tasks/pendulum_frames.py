"""Simulated pendulums: images of 24×24 pixels with correlated noise, at half of the frames.

    θ'' = c sin θ − 0.1 θ'        c = g l m / I,  I = 1/3        θ(0) ~ U(0, 2π),  θ'(0) = 0

θ is integrated in Euler steps of 1e-4 and observed every 0.01, when N(0, 0.1) is added to θ'. The procedure is that of
the CRU and S5 papers. A model reads the images and the gaps between them and predicts (sin θ, cos θ).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8

FRAMES = 100
SIDE = 24
CANVAS = 128
ROD = (55.0, 8.0)  # length and width on the canvas, from its middle
STEP, SUBSTEPS = 1e-4, 100
PULL, FRICTION, PUSH = 9.81 * 3, 0.1, 0.1
CLEAN_FRAMES = 5
# Images rendered at a time: 16 MB of canvas.
_RENDERED = 256


class Pendulums(NamedTuple):
    """The images at the selected frames, the frame numbers, and the sine and cosine of the angle."""

    images: UInt8[np.ndarray, "N K 24 24"]
    frames: Int[np.ndarray, "N K"]
    angles: Float[np.ndarray, "N K 2"]


def generate(count: int, kept: int, seed: int, watch: Callable[[int, int], None] | None = None) -> Pendulums:
    """Simulate `count` sequences of `kept` frames out of a hundred, a function of the seed and the count.

    `watch` is called with the number of finished sequences.
    """
    if not 1 <= kept <= FRAMES:
        raise ValueError(f"pendulum: kept={kept} must be between 1 and {FRAMES}")
    rng = np.random.default_rng(seed)
    angle = swing(count, rng)
    clear = visibility(count, rng)
    # A random half of the frames, in order: the ranks of random numbers are a random permutation.
    frames = np.sort(np.argsort(rng.random((count, FRAMES)), 1)[:, :kept], 1)
    angle, clear = (np.take_along_axis(q, frames, 1) for q in (angle, clear))
    images = photograph(angle, clear, rng, watch)
    angles = np.stack([np.sin(angle), np.cos(angle)], -1).astype(np.float32)
    return Pendulums(images, frames.astype(np.int32), angles)


def photograph_again(pendulums: Pendulums, seed: int) -> Pendulums:
    """The same angles at the same frames, with other noise."""
    rng = np.random.default_rng(seed)
    clear = np.take_along_axis(visibility(len(pendulums.frames), rng), pendulums.frames, 1)
    sine, cosine = np.moveaxis(pendulums.angles, -1, 0)
    return pendulums._replace(images=photograph(np.arctan2(sine, cosine), clear, rng))


def photograph(
    angle: Float[np.ndarray, "N K"],
    clear: Float[np.ndarray, "N K"],
    rng: np.random.Generator,
    watch: Callable[[int, int], None] | None = None,
) -> UInt8[np.ndarray, "N K 24 24"]:
    """Images of the angles. The noise is stronger where `clear` is smaller."""
    count, kept = angle.shape
    images = np.empty((count, kept, SIDE, SIDE), np.uint8)
    at_a_time = max(1, _RENDERED // kept)
    for start in range(0, count, at_a_time):
        here = slice(start, start + at_a_time)
        pictures = render(angle[here].ravel()).reshape(-1, kept, SIDE, SIDE)
        f = clear[here, :, None, None]
        noise = rng.uniform(0, 255, pictures.shape)
        images[here] = f * pictures + (1 - f) * noise
        if watch is not None:
            watch(min(start + at_a_time, count), count)
    return images


def swing(count: int, rng: np.random.Generator) -> Float[np.ndarray, "N 100"]:
    """θ at every frame, in [−π, π)."""
    theta = rng.uniform(0, 2 * np.pi, count)
    speed = np.zeros(count)
    trace = np.empty((FRAMES, count))
    for frame in range(FRAMES):
        trace[frame] = theta % (2 * np.pi) - np.pi
        for _ in range(SUBSTEPS):
            speed = speed + STEP * (PULL * np.sin(theta) - FRICTION * speed)
            theta = theta + STEP * speed
        speed = speed + rng.normal(0, PUSH, count)
    return trace.T


def visibility(count: int, rng: np.random.Generator) -> Float[np.ndarray, "N 100"]:
    """The visibility of the image, 0 to 1: a random walk, scaled and clipped so that it often stays at its limits."""
    f = np.empty((FRAMES, count))
    f[0] = rng.uniform(0, 1, count)
    for frame in range(1, FRAMES):
        f[frame] = np.clip(f[frame - 1] + rng.uniform(-0.2, 0.2, count), 0, 1)
    low, high = rng.uniform(0, 0.25, count), rng.uniform(0.75, 1, count)
    f = np.clip((f - low) / (high - low), 0, 1)
    f[:CLEAN_FRAMES] = 1
    return f.T


def render(angle: Float[np.ndarray, " M"]) -> Float[np.ndarray, "M 24 24"]:
    """A bright rod on a dark canvas, reduced by a Lanczos filter."""
    length, width = ROD
    middle = CANVAS / 2
    place = (np.arange(CANVAS) + 0.5 - middle).astype(np.float32)
    s, c = (f(angle).astype(np.float32)[:, None, None] for f in (np.sin, np.cos))
    x, y = place[None, None, :], place[None, :, None]
    along, across = s * x + c * y, c * x - s * y
    rod = (along >= 0) & (along <= length) & (np.abs(across) <= width / 2)
    pictures = _SHRINK @ rod.astype(np.float32) @ _SHRINK.T
    return np.clip(np.round(255 * pictures), 0, 255)


def lanczos(size: int, smaller: int, lobes: int = 3) -> Float[np.ndarray, "S N"]:
    """The weights of a Lanczos filter that reduces `size` pixels to `smaller` pixels."""
    ratio = size / smaller
    centre = (np.arange(smaller) + 0.5)[:, None] * ratio
    q = (np.arange(size) + 0.5 - centre) / ratio
    kernel = np.where(np.abs(q) < lobes, np.sinc(q) * np.sinc(q / lobes), 0)
    return (kernel / kernel.sum(1, keepdims=True)).astype(np.float32)


_SHRINK = lanczos(CANVAS, SIDE)
