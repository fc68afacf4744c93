"""Variants of recorded sound: the same words by another voice through another microphone.

A variant is played faster or slower, which also moves its pitch and formants, and its spectrum is filtered by a random
slope and a random smooth curve over the octaves. Both act on the Fourier transform of the whole recording. Its peak
stays as high as it was. Noise of a random colour and level may be added.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float, Float32, Num
from scipy.fft import irfft, rfft

# Hz, the frequency at which a slope changes nothing.
PIVOT = 1000.0
# Hz, the lowest frequency of the curve, which is constant below it.
LOWEST = 62.5
# The standard deviation of the slope of the noise's spectrum, in dB per octave.
COLOUR = 3.0
# The quietest noise relative to the loudest.
QUIETEST = 1e-3


@dataclass(frozen=True, kw_only=True)
class SoundVariation:
    """Settings of random variants of training recordings. By default there are none."""

    copies: int = 0  # the number of variants of each recording, besides itself
    speed: float = 1.0  # the largest factor of speed; the smallest is its inverse
    tilt: float = 0.0  # the standard deviation of the slope of the filter, in dB per octave
    ripple: float = 0.0  # the standard deviation of the curve of the filter at each octave, in dB
    noise: float = 0.0  # the largest root mean square of added noise, relative to the peak; the level is log-uniform

    def __post_init__(self) -> None:
        if not 0 <= self.copies <= 100:
            raise ValueError(f"copies={self.copies} must be from 0 to 100")
        if not 1 <= self.speed <= 4:
            raise ValueError(f"speed={self.speed} must be from 1 to 4")
        for name in ("tilt", "ripple"):
            value = getattr(self, name)
            if not 0 <= value <= 60:
                raise ValueError(f"{name}={value} must be from 0 to 60, in dB")
        if not 0 <= self.noise <= 1:
            raise ValueError(f"noise={self.noise} must be from 0 to 1, relative to the peak")

    def __call__(self, sound: Num[np.ndarray, " T"], rate: int, rng: np.random.Generator) -> Float32[np.ndarray, " N"]:
        """A random variant of a recording, at the same number of samples per second and in the same units."""
        if not len(sound):
            return sound.astype(np.float32)
        size = max(1, round(len(sound) * self.speed ** rng.uniform(-1, 1)))
        spectrum, octaves = rfft(sound.astype(np.float64)), _octaves(len(sound), rate)
        knots = np.arange(math.floor(np.log2(LOWEST / PIVOT)), math.ceil(np.log2(rate / 2 / PIVOT)) + 1)
        curve = np.interp(octaves, knots, rng.normal(0, self.ripple, len(knots)))
        # Another number of samples from the same spectrum is the same sound at another speed.
        varied = irfft(_filtered(spectrum, rng.normal(0, self.tilt) * octaves + curve), size)
        highest, peak = np.abs(sound.astype(np.float64)).max(), np.abs(varied).max()
        varied *= highest / peak if peak else 1
        if self.noise:
            white = rfft(rng.standard_normal(size))
            noise = irfft(_filtered(white, rng.normal(0, COLOUR) * _octaves(size, rate)), size)
            noise /= np.sqrt(np.mean(noise**2))
            varied += noise * (highest * self.noise * QUIETEST ** rng.random())
        return varied.astype(np.float32)


def _octaves(size: int, rate: int) -> Float[np.ndarray, " F"]:
    """The frequencies of the Fourier transform of so many samples, in octaves from PIVOT, and not below LOWEST."""
    return np.log2(np.maximum(np.arange(size // 2 + 1) * rate / size, LOWEST) / PIVOT)


def _filtered(spectrum: Complex[np.ndarray, " F"], decibels: Float[np.ndarray, " F"]) -> Complex[np.ndarray, " F"]:
    return spectrum * 10 ** (decibels / 20)
