"""Speed of event augmentation: `python -m benchmarks.augmentation`.

Measures events per second on one core, best of several runs: without augmentation, with each augmentation alone, and
with all of them. Each augmentation is applied to every recording, whatever its probability in a recipe; CutMix then
augments two recordings for one. The last line is the constant cost per recording.
"""

import time
from typing import Any

import numpy as np

from s7.data.samples import Samples
from s7.events.augmentation import EventAugmentation, EventAugmenter
from s7.events.recordings import Recording, Sensor, recordings_of

CLASSES = 10
REPEATS = 15
SHORT_REPEATS = 300

# The settings of the recipes for gestures and spoken digits, and simulated recordings: sensor, number of recordings,
# events per recording, milliseconds per recording.
ALWAYS: dict[str, Any] = {"drop_chunk": 1.0, "cutmix": 1.0, "roll": 32}
GESTURES = ALWAYS | {"drop": 0.05, "jitter": 0.3, "rotate": 10.0, "scale": 1.2, "skew": 1.12, "time_jitter": 5.0}
DIGITS = ALWAYS | {"drop": 0.1, "jitter": 0.55, "skew": 1.2, "time_jitter": 1.0, "noise": 35}
CASES = {
    "128×128, recordings of 65,536 events": (Sensor(128, 128), 8, 65_536, 6_000, GESTURES | {"noise": 100}),
    "700 channels, recordings of 8,192 events": (Sensor(700, 1, 1), 16, 8_192, 1_000, DIGITS),
}


def simulated(sensor: Sensor, count: int, events: int, duration: int) -> Samples:
    """Simulate recordings with uniformly distributed events at whole microseconds."""
    rng = np.random.default_rng(0)
    recordings = []
    for _ in range(count):
        x, y, p = (rng.integers(limit, size=events) for limit in (sensor.width, sensor.height, sensor.polarities))
        recordings.append(Recording(x, y, p, np.sort(rng.integers(1000 * duration, size=events)) / 1000))
    return recordings_of(recordings, rng.integers(CLASSES, size=count)).samples(sensor, "simulated")


def best(settings: dict[str, Any], sensor: Sensor, samples: Samples, repeats: int = REPEATS) -> tuple[float, int]:
    """Return the least CPU time in seconds to augment all recordings, and the number of resulting events."""
    augmenter = EventAugmenter(EventAugmentation(geometry=1.0, **settings), sensor, CLASSES)
    least = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        varied = augmenter(samples, np.arange(len(samples)), 0, 0)
        least = min(least, time.process_time() - start)
    return least, len(varied.inputs)


def main() -> None:
    """Print millions of events per second for each sensor and augmentation."""
    for title, (sensor, count, events, duration, recipe) in CASES.items():
        print(title)
        samples = simulated(sensor, count, events, duration)
        parts = {"none": {}, "crop": {"crop": events // 2}} | {name: {name: recipe[name]} for name in recipe}
        for name, settings in (parts | {"all": recipe | {"crop": events - 1}}).items():
            seconds, made = best(settings, sensor, samples)
            print(f"  {name:<12}{made / seconds / 1e6:6.1f} million events per second")
        short = simulated(sensor, count, 10, duration)
        seconds, _ = best(recipe | {"cutmix": 0.0}, sensor, short, SHORT_REPEATS)
        print(f"  all but cutmix, on recordings of 10 events: {seconds / count * 1e6:.0f} µs each")


if __name__ == "__main__":
    main()
