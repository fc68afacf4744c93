"""How fast recordings are varied: `python -m benchmarks.augmentation`.

Events per second on one core, as they come out, best of several: with no part, with each part alone, and with all of
them. A part is on for every recording, however seldom a recipe has it. Last, what a recording costs however short it is.
"""

import itertools
import time

import numpy as np

from s7.data.samples import Samples
from s7.events.augmentation import EventAugmentation, EventAugmenter
from s7.events.recordings import Events, Sensor, recordings_of

CLASSES = 10
SECONDS = 1.5

# Simulated recordings: the sensor, how many, events of each, milliseconds of each, and what a recipe would set.
CAMERA = {"drop": 0.05, "drop_chunk": 1.0, "jitter": 0.3, "skew": 1.12, "time_jitter": 5.0, "noise": 100, "cutmix": 1.0}
MOVES = {"roll": 32, "rotate": 10.0, "scale": 1.2}
COCHLEA = {"drop": 0.1, "drop_chunk": 1.0, "jitter": 0.55, "skew": 1.2, "time_jitter": 1.0, "noise": 35, "cutmix": 1.0}
CASES = {
    "128×128, 16 recordings of 65,536 events": (Sensor(128, 128), 16, 65_536, 6_000.0, CAMERA | MOVES),
    "700 channels, 64 recordings of 8,192 events": (Sensor(700, 1, 1), 64, 8_192, 1_000.0, COCHLEA | {"roll": 32}),
}


def simulated(sensor: Sensor, count: int, events: int, duration: float) -> Samples:
    """Recordings of events anywhere on a sensor, at times in whole microseconds."""
    rng = np.random.default_rng(0)
    recordings = []
    for _ in range(count):
        x, y, p = (rng.integers(limit, size=events) for limit in (sensor.width, sensor.height, sensor.polarities))
        recordings.append(Events(x, y, p, np.sort(rng.integers(int(1000 * duration), size=events)) / 1000))
    return recordings_of(recordings, rng.integers(CLASSES, size=count)).samples(sensor, "simulated")


def seconds(augmenter: EventAugmenter, samples: Samples) -> tuple[float, int]:
    """The least time to vary all recordings, and how many events came of them."""
    best, end = (float("inf"), 1), time.process_time() + SECONDS
    for epoch in itertools.takewhile(lambda _: time.process_time() < end, itertools.count()):
        start = time.process_time()
        varied = augmenter(samples, np.arange(len(samples)), 0, epoch)
        best = min(best, (time.process_time() - start, len(varied.inputs)))
    return best


def main() -> None:
    """Prints millions of events per second for each case and part."""
    for title, (sensor, count, events, duration, recipe) in CASES.items():
        print(title)
        samples = simulated(sensor, count, events, duration)
        parts: dict[str, dict] = {"none": {}, "crop to a half": {"crop": events // 2}}
        parts |= {name: {name: value} for name, value in recipe.items()}
        parts["all"] = recipe
        for name, values in parts.items():
            augmenter = EventAugmenter(EventAugmentation(geometry=1.0, **values), sensor, CLASSES)
            taken, made = seconds(augmenter, samples)
            print(f"  {name:<16}{made / taken / 1e6:6.1f} million events per second")
        short = simulated(sensor, 200, 10, 1.0)
        taken, _ = seconds(EventAugmenter(EventAugmentation(geometry=1.0, **recipe), sensor, CLASSES), short)
        print(f"  all, on recordings of 10 events: {taken / 200 * 1e6:.0f} µs each")


if __name__ == "__main__":
    main()
