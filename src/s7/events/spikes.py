"""Sound as spikes: what an ear's nerve would tell of it, on a row of channels from low notes to high ones.

    E_kc = Σ_f W_fc |F_kf|²                       power near note c, in a window that ends with hop k
    L_kc = 10 log10 E_kc                          decibels of full scale
    top_k = max(quiet, max_j≤k (max_c L_jc - release hop (k - j)))      the loudest of late
    d_kc = clip(1 - (top_k - L_kc) / range, 0, 1)                       how near to it
    S_kc = S_(k-1)c + peak d_kc² hop              a spike whenever S passes a whole number

Levels are measured from the loudest of late, so that how loud the voice is hardly matters, while silence stays silent.
The square leaves most spikes to the resonances that make a vowel. All is causal: no spike depends on sound that is
more than a hop later. Spikes fall between the hops, where a straight line through S says; every channel's S starts at
another fraction, or they would all fire in step.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Float32, Num
from numpy.lib.stride_tricks import sliding_window_view
from scipy.fft import next_fast_len, rfft

from s7.events.recordings import Events, Sensor

# Of the mel scale: below this pitch is heard as frequency, above as its logarithm.
BEND = 700.0
# Added to powers, so that digital silence has a logarithm; far below what 16 bits can hold.
NOTHING = 1e-15
# Multiples of it, less their whole parts, spread evenly over 0 to 1 however many there are.
GOLDEN = (5**0.5 - 1) / 2
# Beyond this it is no sound in parts of full scale, and its power might overflow.
LOUDEST = 1e6


@dataclass(frozen=True, kw_only=True)
class SpikeEncoder:
    """Calling it turns sound into spikes; these are its settings, in Hz, ms, mels and dB."""

    channels: int = 200
    low: float = 100.0  # Hz, the note of the first channel
    high: float = 3800.0  # Hz, the note of the last
    width: float = 100.0  # mels from a channel's note to where it is deaf
    window: float = 20.0  # ms of sound that a level is measured in
    hop: float = 2.0  # ms from one level to the next
    tilt: float = 3.0  # dB per octave by which high notes are raised, for voices have little power there
    range: float = 45.0  # dB below the loudest at which a channel falls silent
    release: float = 0.05  # dB per ms by which the loudest of late is forgotten
    quiet: float = -60.0  # dB of full scale: what is fainter is not raised to the loudest
    peak: float = 30.0  # spikes per second and channel at the loudest

    def __post_init__(self) -> None:
        if self.channels < 1:
            raise ValueError(f"channels={self.channels} must be at least 1")
        for name in ("low", "width", "window", "hop", "range", "peak"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise ValueError(f"{name}={value} must be positive")
        for name in ("tilt", "release"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name}={value} must not be negative")
        if not self.low < self.high < float("inf"):
            raise ValueError(f"high={self.high} must be above low={self.low}")
        if not -120 <= self.quiet <= 0:
            raise ValueError(f"quiet={self.quiet} must be from -120 to 0, in dB of full scale")
        if self.hop > self.window:
            raise ValueError(f"hop={self.hop} must not be longer than window={self.window}, or sound is missed")

    @property
    def sensor(self) -> Sensor:
        """A row of channels."""
        return Sensor(self.channels, 1, 1)

    @property
    def notes(self) -> Float[np.ndarray, " C"]:
        """The frequency that each channel hears best, in Hz."""
        return BEND * np.expm1(np.linspace(np.log1p(self.low / BEND), np.log1p(self.high / BEND), self.channels))

    def __call__(self, audio: Num[np.ndarray, " T"], rate: int) -> Events:
        """The spikes of a recording at `rate` samples a second, in ms from its start; none if it is silent.

        Full scale is the largest number of the audio's type, or 1 for floating point. What the last hop does not
        fill is not heard.
        """
        sound, step, size = _as_floats(audio), self._samples(self.hop, rate), self._samples(self.window, rate)
        levels = self._levels(sound, rate, step, size)
        step_ms = 1000 * step / rate
        nearness = self._nearness(levels, step_ms)
        return _fire(nearness * nearness * np.float32(self.peak * step_ms / 1000), step_ms)

    def _levels(self, sound: Float32[np.ndarray, " T"], rate: int, step: int, size: int) -> Float32[np.ndarray, "K C"]:
        """L, one row for each hop that the sound fills."""
        window, bank = _bank(self, rate, size)
        heard = np.concatenate([np.zeros(size - step, np.float32), sound])
        frames = sliding_window_view(heard, size)[::step] if len(heard) >= size else np.empty((0, size), np.float32)
        spectrum = rfft(frames * window, 2 * (len(bank) - 1), axis=1)
        power = (spectrum.real**2 + spectrum.imag**2) @ bank
        return 10 * np.log10(power + np.float32(NOTHING))

    def _nearness(self, levels: Float32[np.ndarray, "K C"], step: float) -> Float32[np.ndarray, "K C"]:
        """d."""
        # What was forgotten since is added back, so that a running maximum finds the loudest of late.
        forgotten = self.release * step * np.arange(len(levels))
        top = np.maximum.accumulate(levels.max(1) + forgotten) - forgotten
        top = np.maximum(top, self.quiet)
        return np.clip(1 - (top[:, None].astype(np.float32) - levels) / np.float32(self.range), 0, 1)

    def _samples(self, ms: float, rate: int) -> int:
        if not rate > 2 * self.high:
            raise ValueError(f"high={self.high} Hz must be below half of the {rate} samples a second")
        return max(1, round(ms * rate / 1000))


def mels(hertz: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Pitch as it is heard: equal steps sound equal, and a thousand hertz are a thousand mels."""
    return 1000 * np.log1p(hertz / BEND) / np.log1p(1000 / BEND)


@lru_cache(maxsize=16)
def _bank(encoder: SpikeEncoder, rate: int, size: int) -> tuple[Float32[np.ndarray, " N"], Float32[np.ndarray, "F C"]]:
    """A window of `size` samples, and W: triangles on the mel scale. E is the mean square of what a channel hears."""
    window = np.hanning(size + 2)[1:-1]
    bins = next_fast_len(2 * size, real=True)
    bins += bins % 2
    hertz = np.arange(bins // 2 + 1) * rate / bins
    distance = np.abs(mels(hertz)[:, None] - mels(encoder.notes)) / encoder.width
    if not (distance < 1).any(0).all():
        raise ValueError(
            f"width={encoder.width} mels is too narrow for what a window of {encoder.window} ms tells apart"
        )
    weight = np.maximum(0, 1 - distance) * (1 + hertz[:, None] / BEND) ** (encoder.tilt / (10 * np.log10(2)))
    return window.astype(np.float32), (weight * (2 / (bins * np.sum(window**2)))).astype(np.float32)


def _as_floats(audio: Num[np.ndarray, " T"]) -> Float32[np.ndarray, " T"]:
    if audio.ndim != 1:
        raise ValueError(f"audio has shape {audio.shape}, expected one channel of sound")
    if audio.dtype.kind == "i":
        return audio.astype(np.float32) / -float(np.iinfo(audio.dtype).min)
    if audio.dtype.kind != "f":
        raise ValueError(f"audio of {audio.dtype} is neither signed whole numbers nor floating point")
    good = np.abs(audio) <= LOUDEST
    if not good.all():
        n = int(np.argmin(good))
        raise ValueError(f"audio: sample {n} is {audio[n]}, expected -1 to 1 or not much beyond")
    return audio.astype(np.float32)


def _fire(drive: Float32[np.ndarray, "K C"], step: float) -> Events:
    """Spikes where the sum of the drive passes whole numbers, in the order of time, then of channels."""
    hops, channels = drive.shape
    total = np.zeros((hops + 1, channels))
    np.cumsum(drive, axis=0, dtype=np.float64, out=total[1:])
    total += np.arange(channels) * GOLDEN % 1
    whole = np.floor(total)
    hop, channel = np.nonzero(whole[1:] > whole[:-1])
    fired = (whole[hop + 1, channel] - whole[hop, channel]).astype(np.int64)
    # The n-th spike that a channel fires in one hop, n = 1, 2, …
    nth = np.arange(fired.sum()) - np.repeat(np.cumsum(fired) - fired, fired) + 1
    hop, channel = np.repeat(hop, fired), np.repeat(channel, fired)
    before, after = total[hop, channel], total[hop + 1, channel]
    t = (hop + np.clip((whole[hop, channel] + nth - before) / (after - before), 0, 1)) * step
    order = np.argsort(t, kind="stable")
    none = np.zeros(len(t), np.int64)
    return Events(channel[order], none, none, t[order])
