"""Classify recordings by the time between their events, with a model that reads the gaps and one that ignores them.

A machine reports vibration at irregular times. The values of both classes have the same distribution: a worn machine
swings faster in seconds, but its sensor also reports faster, so that the values look the same step by step. Only the
gaps tell the classes apart.

    python -m examples.irregular_sensors
"""

import argparse

import jax
import numpy as np

import s7


def simulate(recordings: int, seed: int) -> s7.Samples:
    """Recordings of 30 to 60 values of a swing with noise; half of them twice as fast, in values and in reports."""
    rng = np.random.default_rng(seed)
    inputs, times, labels = [], [], []
    for n in range(recordings):
        speed = 2.0 if n % 2 else 1.0
        count = rng.integers(30, 60)
        t = np.cumsum(rng.exponential(0.5 / speed, count))
        phase = rng.uniform(0, 2 * np.pi)
        swing = np.sin(speed * t + phase) + rng.normal(0, 0.2, count)
        inputs.append(swing[:, None].astype(np.float32))
        times.append(t)
        labels.append("worn" if n % 2 else "fine")
    return s7.Samples.of(inputs, labels, s7.gaps(times))


def main(arguments: list[str] | None = None) -> None:
    """Train both models and print their accuracy on recordings that they have not seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=int, default=300)
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args(arguments)
    train, test = simulate(options.recordings, seed=0), simulate(options.recordings, seed=1)
    for gaps in ("read", "ignored"):
        model = s7.S7Model(
            encoder=s7.LinearEncoder.of(train),
            head=s7.Mean(outputs=2),
            width=16,
            state=8,
            depth=1,
            gaps=gaps,
            key=jax.random.key(0),
        )
        trained = s7.train(model, train, valid=0.2, epochs=options.epochs, learning_rate=1e-2, progress=False)
        print(f"gaps {gaps}: test accuracy {s7.evaluate(trained.model, test)['accuracy']:.2f}")


if __name__ == "__main__":
    main()
