"""Augmentation of event recordings: drop events, move them, change their times, add noise, mix recordings.

Each augmentation is a function of one recording and does not modify its argument. Events that leave the sensor are
dropped, because clipping would accumulate them at the edge. An augmentation that would drop all events is skipped.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Integer

from s7.data.loader import Augmentation
from s7.data.samples import Samples
from s7.events.recordings import Recording, Sensor

# The largest fraction of the events of a recording that are dropped as a chunk.
CHUNK = 0.1
# The points along each side of a sensor at which a field that varies smoothly over it is drawn.
KNOTS = 5


@dataclass(frozen=True, kw_only=True)
class EventAugmentation:
    """Settings of the augmentation of event recordings. By default all are off. Probabilities are per recording."""

    crop: int = 0  # the largest number of events, a random contiguous part; 0: all events
    trim: float = 0.0  # the largest part of the duration that is cut off at each end
    drop: float = 0.0  # the largest fraction of single events that are dropped
    fade: float = 0.0  # the largest fraction that is dropped at a place; it varies smoothly over the sensor
    drop_chunk: float = 0.0  # the probability that a contiguous part of up to a tenth of the events is dropped
    jitter: float = 0.0  # the standard deviation of the shift of each event, in pixels or channels
    roll: int = 0  # the largest shift of all events together, in pixels or channels
    rotate: float = 0.0  # the largest angle, in degrees
    scale: float = 1.0  # the largest factor of size; the smallest is its inverse
    warp: float = 0.0  # the standard deviation of a smooth shift that varies over the sensor, in pixels or channels
    geometry: float = 0.3  # the probability of each of roll, rotate and scale
    skew: float = 1.0  # the largest factor of duration; the smallest is its inverse
    time_jitter: float = 0.0  # the standard deviation of the time shift of each event, in ms
    noise: int = 0  # the largest number of random events that are added
    cutmix: float = 0.0  # the probability that a contiguous part is replaced by one of another recording

    def on(self, sensor: Sensor, classes: int) -> "EventAugmenter | None":
        """The augmentation for recordings of a sensor; None if all settings are off."""
        return None if self == EventAugmentation(geometry=self.geometry) else EventAugmenter(self, sensor, classes)

    def __post_init__(self) -> None:
        for names, least, most in (
            (("crop", "roll", "noise"), 0, math.inf),
            (("jitter", "time_jitter", "warp"), 0, 1e6),
            (("drop", "fade", "drop_chunk", "geometry", "cutmix"), 0, 1),
            (("trim",), 0, 0.5),
            (("rotate",), 0, 180),
            (("scale", "skew"), 1, 100),
        ):
            for name in names:
                value = getattr(self, name)
                if not least <= value <= most:
                    wanted = f"at least {least}" if most == math.inf else f"from {least} to {most:,.10g}"
                    raise ValueError(f"{name}={value} must be {wanted}")


@dataclass(frozen=True)
class EventAugmenter(Augmentation):
    """Augments recordings of a sensor. With CutMix, a target is the fraction of events of each of `classes` classes."""

    settings: EventAugmentation
    sensor: Sensor
    classes: int

    def __post_init__(self) -> None:
        if self.classes < 1:
            raise ValueError(f"classes={self.classes} must be at least 1")
        for name, off in (("rotate", 0), ("scale", 1)):
            value = getattr(self.settings, name)
            if self.sensor.height == 1 and value != off:
                raise ValueError(f"{name}={value} needs a sensor of more than one row; with one row, {name}={off}")

    def longest(self, lengths: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """The largest possible lengths. Only noise adds events; CutMix replaces as many as it inserts."""
        kept = np.minimum(lengths, self.settings.crop) if self.settings.crop else lengths
        return kept + self.settings.noise

    def __call__(self, samples: Samples, chosen: Int[np.ndarray, " M"], seed: int, epoch: int) -> Samples:
        """The chosen recordings, each augmented as a function of (seed, epoch, index)."""
        self._check(samples)
        varied = [
            self._one(samples, sample, np.random.default_rng([seed, epoch, sample])) for sample in chosen.tolist()
        ]
        offsets = np.concatenate([[0], np.cumsum([len(one.tokens) for one in varied])])
        targets = samples.targets[chosen]
        if self.settings.cutmix > 0:
            shares = np.array([one.share for one in varied], np.float32)
            partners = samples.targets[[one.partner for one in varied]]
            targets = np.zeros((len(chosen), self.classes), np.float32)
            targets[np.arange(len(chosen)), samples.targets[chosen]] = 1 - shares
            targets[np.arange(len(chosen)), partners] += shares
        tokens = np.concatenate([one.tokens for one in varied])
        return Samples(tokens, targets, offsets, np.concatenate([one.dt for one in varied]), name=samples.name)

    def vary(self, events: Recording, rng: np.random.Generator) -> Recording:
        """Apply all augmentations of a single recording.

        Those that shorten a recording come first, which saves time. Events are moved before they are jittered, so that
        jitter has the requested size in pixels and milliseconds. Noise comes last, because noise of a sensor does not
        move with the scene.
        """
        settings, sensor = self.settings, self.sensor
        events = trim_events(events, settings.trim, rng)
        if settings.drop > 0:
            events = drop_events(events, rng.uniform(0, settings.drop), rng)
        events = fade_events(events, settings.fade, sensor, rng)
        if rng.random() < settings.drop_chunk:
            events = drop_chunk(events, rng)
        events = move_events(events, draw_move(settings, sensor, rng), sensor)
        events = warp_events(events, settings.warp, sensor, rng)
        events = jitter_events(events, settings.jitter, sensor, rng)
        events = skew_time(events, _factor(settings.skew, rng))
        events = jitter_time(events, settings.time_jitter, rng)
        return add_noise(events, int(rng.integers(settings.noise + 1)), sensor, rng)

    def _one(self, samples: Samples, sample: int, rng: np.random.Generator) -> "_Varied":
        read, gaps = self._read(samples, sample, self.settings.crop, rng)
        events, partner, count = self.vary(read, rng), sample, 0
        if rng.random() < self.settings.cutmix:
            # The partner is augmented independently, so that its events look like those of other recordings with its
            # label. Only as many of its events are read as can be used.
            partner = int(rng.integers(len(samples)))
            other, _ = self._read(samples, partner, len(events.t), rng)
            events, count = mix(events, self.vary(other, rng), rng)
        tokens = self.sensor.tokens_of(events).astype(samples.inputs.dtype, copy=False)
        dt = np.zeros(len(tokens), gaps.dtype)
        if events.t is read.t:
            dt[1:] = gaps[1:]  # unchanged times give bit-equal gaps
        else:
            np.subtract(events.t[1:], events.t[:-1], out=dt[1:])
        return _Varied(tokens, dt, partner, count / len(tokens))

    def _read(
        self, samples: Samples, sample: int, crop: int, rng: np.random.Generator
    ) -> tuple[Recording, Float[np.ndarray, " E"]]:
        """The events of a recording, or a contiguous part of `crop` of them, and the gaps."""
        start, end = samples.offsets[sample : sample + 2].tolist()
        run = _run(start, end, crop, rng) if 0 < crop < end - start else slice(start, end)
        assert samples.dt is not None
        tokens, gaps = samples.inputs[run], samples.dt[run]
        if tokens.min() < 0 or tokens.max() >= self.sensor.tokens:
            raise ValueError(
                f"{samples.name}: recording {sample} has tokens from {tokens.min()} to {tokens.max()}, "
                f"outside of 0 to {self.sensor.tokens - 1} on a sensor of {self.sensor.width}×{self.sensor.height}"
            )
        tokens = tokens.astype(np.intp)
        x, y, p = (values.take(tokens) for values in self._places)
        return Recording(x, y, p, np.cumsum(gaps, dtype=np.float64)), gaps

    @cached_property
    def _places(self) -> tuple[Int[np.ndarray, " T"], Int[np.ndarray, " T"], Int[np.ndarray, " T"]]:
        """x, y and p of every token in the smallest type. Looking them up is faster than computing them."""
        small = np.min_scalar_type(-max(self.sensor.width, self.sensor.height))
        x, y, p, _ = self.sensor.events_of(np.arange(self.sensor.tokens), np.zeros(self.sensor.tokens))
        return x.astype(small), y.astype(small), p.astype(np.int8)

    def _check(self, samples: Samples) -> None:
        if samples.inputs.dtype.kind not in "iu" or samples.inputs.ndim != 1:
            raise ValueError(f"{samples.name}: inputs are not event tokens; train without augmentation")
        if samples.dt is None:
            raise ValueError(f"{samples.name}: augmentation needs the gaps between events, dt in ms")
        if samples.per_step or samples.counts is not None or samples.documents != 1:
            raise ValueError(f"{samples.name}: only recordings with one target each can be augmented")
        if self.settings.cutmix > 0:
            samples.require_labels(self.classes)


class _Varied(NamedTuple):
    """One augmented recording, and the fraction of its events that are from its partner."""

    tokens: Integer[np.ndarray, " E"]
    dt: Float[np.ndarray, " E"]
    partner: int
    share: float


class Move(NamedTuple):
    """A transformation of all events: rotation and scaling about the centre of the sensor, then a shift."""

    degrees: float = 0.0
    factor: float = 1.0
    x: int = 0
    y: int = 0


def draw_move(settings: EventAugmentation, sensor: Sensor, rng: np.random.Generator) -> Move:
    """Draw a random transformation: each of roll, rotate and scale with probability `geometry`."""
    rolls, rotates, scales = rng.random(3) < settings.geometry
    reach = settings.roll if rolls else 0
    x, y = (
        int(rng.integers(-reach, reach, endpoint=True)) if size > 1 else 0 for size in (sensor.width, sensor.height)
    )
    degrees = rng.uniform(-settings.rotate, settings.rotate) if rotates else 0.0
    return Move(degrees, _factor(settings.scale, rng) if scales else 1.0, x, y)


def drop_events(events: Recording, share: float, rng: np.random.Generator) -> Recording:
    """Drop each event with probability `share`."""
    return _only(events, rng.random(len(events.t), dtype=np.float32) >= share)


def trim_events(events: Recording, most: float, rng: np.random.Generator) -> Recording:
    """Cut off a random part of the duration at each end, up to `most`."""
    if not most:
        return events
    first, last = events.t[0], events.t[-1]
    start, end = (last - first) * most * rng.random(2)
    return _only(events, (events.t >= first + start) & (events.t <= last - end))


def fade_events(events: Recording, most: float, sensor: Sensor, rng: np.random.Generator) -> Recording:
    """Drop each event with a probability that varies smoothly over the sensor, as if parts of it were insensitive."""
    if not most:
        return events
    (share,) = _smooth_field(most * rng.random((1, *_knots(sensor)), dtype=np.float32), events, sensor)
    return _only(events, rng.random(len(events.t), dtype=np.float32) >= share)


def drop_chunk(events: Recording, rng: np.random.Generator) -> Recording:
    """Drop a contiguous part of the events, leaving a pause. Its length is uniform up to a tenth of all events.

    The length is measured in events, not in time: events come in bursts, so a tenth of the time may contain most
    events.
    """
    most = int(CHUNK * len(events.t))
    if not most:
        return events
    chunk = _run(0, len(events.t), int(rng.integers(1, most, endpoint=True)), rng)
    return Recording(*(np.concatenate([q[: chunk.start], q[chunk.stop :]]) for q in events))


def move_events(events: Recording, move: Move, sensor: Sensor) -> Recording:
    """Transform all events. Rotation, scaling and shift are combined, so that pixels are rounded only once."""
    if move == Move():
        return events
    middle_x, middle_y = (sensor.width - 1) / 2, (sensor.height - 1) / 2
    along = move.factor * math.cos(math.radians(move.degrees))
    across = move.factor * math.sin(math.radians(move.degrees))
    x, y = events.x.astype(np.float32) - middle_x, events.y.astype(np.float32) - middle_y
    new_x = along * x - across * y + (middle_x + move.x)
    new_y = across * x + along * y + (middle_y + move.y)
    return _placed(events, new_x, new_y, sensor)


def warp_events(events: Recording, std: float, sensor: Sensor, rng: np.random.Generator) -> Recording:
    """Shift events by a smooth random field: normally distributed at a grid of points, and bilinear between them."""
    if not std:
        return events
    drawn = std * rng.standard_normal((2, *_knots(sensor)), dtype=np.float32)
    x, y = _smooth_field(drawn, events, sensor)
    if sensor.height == 1:
        y[:] = 0
    return _placed(events, events.x.astype(np.float32) + x, events.y.astype(np.float32) + y, sensor)


def jitter_events(events: Recording, std: float, sensor: Sensor, rng: np.random.Generator) -> Recording:
    """Shift each event by normally distributed numbers of pixels, in x and, if the sensor has several rows, in y."""
    if not std:
        return events
    x = _jittered(events.x.astype(np.float32), std, rng)
    y = events.y.astype(np.float32)
    return _placed(events, x, _jittered(y, std, rng) if sensor.height > 1 else y, sensor)


def skew_time(events: Recording, factor: float) -> Recording:
    """Multiply all times by a factor. The recording becomes slower if it is above 1."""
    return events if factor == 1 else events._replace(t=events.t * factor)


def jitter_time(events: Recording, std: float, rng: np.random.Generator) -> Recording:
    """Shift the time of each event by a normally distributed number of milliseconds."""
    return _in_order(events._replace(t=_jittered(events.t, std, rng))) if std else events


def add_noise(events: Recording, count: int, sensor: Sensor, rng: np.random.Generator) -> Recording:
    """Add `count` events at random positions of the sensor and random times of the recording."""
    if not count:
        return events
    t = rng.uniform(events.t[0], events.t[-1], count)
    t.sort()  # two sorted parts are merged quickly
    noise = sensor.events_of(rng.integers(sensor.tokens, size=count), t)
    pairs = zip(events, noise, strict=True)
    return _in_order(Recording(*(np.concatenate([q, added], dtype=q.dtype, casting="unsafe") for q, added in pairs)))


def mix(events: Recording, partner: Recording, rng: np.random.Generator) -> tuple[Recording, int]:
    """Replace a contiguous part of the events by as many events of the partner (CutMix).

    The inserted events keep their gaps, so the duration of the recording changes.

    Returns:
        The events, and the number of inserted events, at least one.
    """
    count = int(rng.integers(1, min(len(events.t), len(partner.t)), endpoint=True))
    out, into = _run(0, len(events.t), count, rng), _run(0, len(partner.t), count, rng)
    played = partner.t[into] - partner.t[into.start] + events.t[out.start]
    # This order of operations ensures that rounding does not make times decrease.
    after = events.t[out.stop :] - events.t[out.stop - 1] + played[-1]
    t = np.concatenate([events.t[: out.start], played, after])
    x, y, p = (
        np.concatenate([q[: out.start], other[into], q[out.stop :]])
        for q, other in zip(events[:3], partner[:3], strict=True)
    )
    return Recording(x, y, p, t), count


def _knots(sensor: Sensor) -> tuple[int, int]:
    """The number of points along the height and the width of a sensor at which a smooth field is drawn."""
    return len(_between_knots(sensor.height).T), len(_between_knots(sensor.width).T)


def _smooth_field(drawn: Float32[np.ndarray, "F Y X"], events: Recording, sensor: Sensor) -> Float32[np.ndarray, "F E"]:
    """Fields at the places of events: the values at a grid of points, and bilinear between them."""
    pixel = events.y.astype(np.intp) * sensor.width + events.x
    fields = _between_knots(sensor.height) @ drawn @ _between_knots(sensor.width).T
    return fields.reshape(len(fields), -1).take(pixel, axis=1)


@cache
def _between_knots(size: int) -> Float32[np.ndarray, "S K"]:
    """The weights that interpolate linearly between knots along a side of a sensor; a side of 1 has one knot."""
    knots = KNOTS if size > 1 else 1
    place = np.linspace(0, knots - 1, size)
    return np.maximum(0, 1 - np.abs(place[:, None] - np.arange(knots))).astype(np.float32)


def _run(start: int, end: int, length: int, rng: np.random.Generator) -> slice:
    """A random contiguous part of this length between start and end."""
    first = int(rng.integers(start, end - length, endpoint=True))
    return slice(first, first + length)


def _factor(largest: float, rng: np.random.Generator) -> float:
    """A random factor up to `largest`, as likely as its inverse."""
    return largest ** (2 * rng.random() - 1)


def _jittered(values: Float[np.ndarray, " E"], std: float, rng: np.random.Generator) -> Float[np.ndarray, " E"]:
    """Add normally distributed numbers. Single precision is sufficient for the shift."""
    shift = rng.standard_normal(len(values), dtype=np.float32)
    shift *= std
    return values + shift


def _in_order(events: Recording) -> Recording:
    """Sort events by time, stably."""
    if not np.count_nonzero(events.t[1:] < events.t[:-1]):
        return events
    order = events.t.argsort(kind="stable")
    return Recording(*(q.take(order) for q in events))


def _only(events: Recording, keep: Bool[np.ndarray, " E"]) -> Recording:
    """The events to keep; all events if there are none to keep."""
    kept = keep.nonzero()[0]
    if len(kept) in (0, len(keep)):
        return events
    return Recording(*(q.take(kept) for q in events))


def _placed(events: Recording, x: Float32[np.ndarray, " E"], y: Float32[np.ndarray, " E"], sensor: Sensor) -> Recording:
    """The events at new positions, rounded, without those outside of the sensor; unchanged if all are outside."""
    x, y = np.rint(x), np.rint(y)
    inside = (x >= 0) & (x < sensor.width) & (y >= 0) & (y < sensor.height)
    if not np.count_nonzero(inside):
        return events
    # Convert to integers last, because positions far outside of the sensor may not fit.
    x, y, p, t = _only(Recording(x, y, events.p, events.t), inside)
    return Recording(x.astype(events.x.dtype), y.astype(events.y.dtype), p, t)
