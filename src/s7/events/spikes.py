"""Spike encoding of audio: a model of a cochlea with channels from low to high frequencies.

    E_kc = Σ_f W_fc |F_kf|²                       power near frequency c, in a window that ends with hop k
    L_kc = 10 log10 E_kc                          level in decibels relative to full scale
    top_k = max(quiet, max_j≤k (max_c L_jc - release hop (k - j)))      recent peak level
    d_kc = clip(1 - (top_k - L_kc) / range, 0, 1)                       level relative to the peak
    S_kc = S_(k-1)c + peak d_kc² hop              a spike whenever S passes an integer

Levels are relative to the recent peak, so the loudness of the voice has little effect, while silence stays silent. The
square concentrates the spikes on the formants of vowels. The encoder is causal: a spike depends on sound at most one
hop later. The times of spikes between hops are interpolated linearly. S starts at a different fraction in each channel,
so that channels do not fire in synchrony.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Float32, Num
from numpy.lib.stride_tricks import sliding_window_view
from scipy.fft import next_fast_len, rfft

from s7.events.recordings import Recording, Sensor

# The corner frequency of the mel scale in Hz, which is linear below and logarithmic above.
BEND = 700.0
# Added to powers, so that the logarithm of digital silence is finite; far below the resolution of 16 bits.
NOTHING = 1e-15
# The fractional parts of its multiples are spread evenly over 0 to 1, for any number of them.
GOLDEN = (5**0.5 - 1) / 2
# Larger values are not audio relative to full scale, and their power might overflow.
LOUDEST = 1e6


@dataclass(frozen=True, kw_only=True)
class SpikeEncoder:
    """Converts audio to spikes. Settings are in Hz, ms, mels and dB."""

    channels: int = 200
    low: float = 100.0  # Hz, the frequency of the first channel
    high: float = 3800.0  # Hz, the frequency of the last channel
    width: float = 100.0  # mels from the centre of a channel to the edge of its band
    window: float = 20.0  # ms, the length of the window of a level
    hop: float = 2.0  # ms from one level to the next
    tilt: float = 3.0  # dB per octave of emphasis of high frequencies, where voices have little power
    range: float = 45.0  # dB below the recent peak at which a channel becomes silent
    release: float = 0.05  # dB per ms by which the recent peak decays
    quiet: float = -60.0  # dB relative to full scale: the lower limit of the recent peak
    peak: float = 30.0  # spikes per second and channel at the peak level

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
            raise ValueError(f"hop={self.hop} must not be longer than window={self.window}, or audio is skipped")

    @property
    def sensor(self) -> Sensor:
        """The channels as a sensor of height 1."""
        return Sensor(self.channels, 1, 1)

    @property
    def notes(self) -> Float[np.ndarray, " C"]:
        """The centre frequency of each channel, in Hz."""
        return BEND * np.expm1(np.linspace(np.log1p(self.low / BEND), np.log1p(self.high / BEND), self.channels))

    def __call__(self, audio: Num[np.ndarray, " T"], rate: int) -> Recording:
        """Convert a recording to spikes. A silent recording has none.

        Args:
            audio: The samples, (T,). Full scale is the largest value of an integer type, or 1 for floating point. An
                incomplete last hop is ignored.
            rate: The number of samples per second.

        Returns:
            The channel of each spike as x, and its time in ms from the start as t.
        """
        sound, step, size = _as_floats(audio), self._samples(self.hop, rate), self._samples(self.window, rate)
        levels = self._levels(sound, rate, step, size)
        step_ms = 1000 * step / rate
        nearness = self._nearness(levels, step_ms)
        return _fire(nearness * nearness * np.float32(self.peak * step_ms / 1000), step_ms)

    def _levels(self, sound: Float32[np.ndarray, " T"], rate: int, step: int, size: int) -> Float32[np.ndarray, "K C"]:
        """The levels L, one row for each complete hop."""
        window, bank = _bank(self, rate, size)
        heard = np.concatenate([np.zeros(size - step, np.float32), sound])
        frames = sliding_window_view(heard, size)[::step] if len(heard) >= size else np.empty((0, size), np.float32)
        spectrum = rfft(frames * window, 2 * (len(bank) - 1), axis=1)
        power = (spectrum.real**2 + spectrum.imag**2) @ bank
        return 10 * np.log10(power + np.float32(NOTHING))

    def _nearness(self, levels: Float32[np.ndarray, "K C"], step: float) -> Float32[np.ndarray, "K C"]:
        """d."""
        # Adding the decay back allows a running maximum to find the recent peak.
        forgotten = self.release * step * np.arange(len(levels))
        top = np.maximum.accumulate(levels.max(1) + forgotten) - forgotten
        top = np.maximum(top, self.quiet)
        return np.clip(1 - (top[:, None].astype(np.float32) - levels) / np.float32(self.range), 0, 1)

    def _samples(self, ms: float, rate: int) -> int:
        if not rate > 2 * self.high:
            raise ValueError(f"high={self.high} Hz must be below half of the {rate} samples a second")
        return max(1, round(ms * rate / 1000))


def mels(hertz: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """The mel scale of pitch, on which equal steps sound equal and 1,000 Hz are 1,000 mels."""
    return 1000 * np.log1p(hertz / BEND) / np.log1p(1000 / BEND)


@lru_cache(maxsize=16)
def _bank(encoder: SpikeEncoder, rate: int, size: int) -> tuple[Float32[np.ndarray, " N"], Float32[np.ndarray, "F C"]]:
    """A window of `size` samples and the triangular mel filters W, scaled so that E is the mean square in a band."""
    window = np.hanning(size + 2)[1:-1]
    bins = next_fast_len(2 * size, real=True)
    bins += bins % 2
    hertz = np.arange(bins // 2 + 1) * rate / bins
    distance = np.abs(mels(hertz)[:, None] - mels(encoder.notes)) / encoder.width
    if not (distance < 1).any(0).all():
        raise ValueError(
            f"width={encoder.width} mels is too narrow for the frequency resolution of a window of {encoder.window} ms"
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


def _fire(drive: Float32[np.ndarray, "K C"], step: float) -> Recording:
    """The spikes where the sum of the drive passes integers, sorted by time, then by channel."""
    hops, channels = drive.shape
    total = np.zeros((hops + 1, channels))
    np.cumsum(drive, axis=0, dtype=np.float64, out=total[1:])
    total += np.arange(channels) * GOLDEN % 1
    whole = np.floor(total)
    hop, channel = np.nonzero(whole[1:] > whole[:-1])
    fired = (whole[hop + 1, channel] - whole[hop, channel]).astype(np.int64)
    # The n-th spike of a channel in one hop, n = 1, 2, …
    nth = np.arange(fired.sum()) - np.repeat(np.cumsum(fired) - fired, fired) + 1
    hop, channel = np.repeat(hop, fired), np.repeat(channel, fired)
    before, after = total[hop, channel], total[hop + 1, channel]
    t = (hop + np.clip((whole[hop, channel] + nth - before) / (after - before), 0, 1)) * step
    order = np.argsort(t, kind="stable")
    none = np.zeros(len(t), np.int64)
    return Recording(channel[order], none, none, t[order])
