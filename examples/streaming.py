"""Watch a sensor: predict its next value event by event, report a fault, and continue after a restart.

python -m examples.streaming
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import numpy as np
from jaxtyping import Float

import s7

SMOOTHING, ALARM = 0.8, 3.0


def simulate(length: int, seed: int, fault: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """A swing with noise at irregular times: values (L, 1), gaps (L,). From event `fault` on it is twice as fast."""
    rng = np.random.default_rng(seed)
    dt = rng.exponential(0.25, length)
    speed = np.where(np.arange(length) >= (length if fault is None else fault), 2.0, 1.0)
    value = np.sin(np.cumsum(speed * dt) + rng.uniform(0, 6)) + rng.normal(0, 0.05, length)
    return value[:, None].astype(np.float32), dt.astype(np.float32)


def train(sequences: int, epochs: int) -> s7.S7Model:
    """A model that predicts the next value from the values so far and the gap before the next."""
    inputs, targets, gaps = [], [], []
    for seed in range(sequences):
        value, dt = simulate(80, seed)
        inputs.append(with_next_gap(value[:-1], dt[1:]))
        targets.append(value[1:])
        gaps.append(dt[:-1])
    samples = s7.Samples.of(inputs, targets, gaps)
    model = s7.S7Model(
        encoder=s7.LinearEncoder.of(samples),
        head=s7.PerStep(outputs=1),
        width=24,
        state=16,
        depth=2,
        form=s7.Factored(rank=8),
        transition=s7.Stable(oscillate=True),
        key=jax.random.key(0),
    )
    trained = s7.train(model, samples, valid=0.2, epochs=epochs, learning_rate=1e-2, progress=False)
    print(f"validation RMSE {trained.result['valid']['rmse']:.3f}; the noise alone is 0.05")
    return trained.model


def with_next_gap(value: Float[np.ndarray, "L 1"], following: Float[np.ndarray, " L"]) -> Float[np.ndarray, "L 2"]:
    """Inputs of the model: the value, and the time until the value to predict."""
    return np.concatenate([value, following[:, None]], 1)


def watch(model: s7.S7Model, value: np.ndarray, dt: np.ndarray, usual: float, folder: Path) -> None:
    """Stream the values, raise an alarm when the error stays large, and restart in the middle."""
    stream, level, alarm = s7.Stream(model), 0.0, None
    start = time.perf_counter()
    for k, event in enumerate(with_next_gap(value[:-1], dt[1:])):
        stream.push(event, dt[k])
        error = abs(float(stream.answer()[0] - value[k + 1, 0]))
        level = SMOOTHING * level + (1 - SMOOTHING) * error
        if alarm is None and level > ALARM * usual:
            alarm = k + 1
            print(f"alarm at event {alarm}: error {level / usual:.1f} times as large as usual")
        if k == len(value) // 2:  # as if the process ended here and another one continued
            stream = s7.Stream.restore(model, stream.save(folder / "state.safetensors"))
            print(f"restarted after {stream.events} events")
    if alarm is None:
        print("no alarm")
    print(f"{(time.perf_counter() - start) / len(value) * 1e6:.0f} µs per event, Python included")


def main(arguments: list[str] | None = None) -> None:
    """Train, and watch a sensor that is faulty after 300 of 400 events."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args(arguments)
    model = train(options.sequences, options.epochs)
    value, dt = simulate(400, seed=10_000)
    predicted = s7.predict(model, [with_next_gap(value[:-1], dt[1:])], [dt[:-1]])[0]
    usual = float(np.abs(predicted.ravel() - value[1:, 0]).mean())
    with TemporaryDirectory() as folder:
        watch(model, *simulate(400, seed=10_001, fault=300), usual, Path(folder))


if __name__ == "__main__":
    main()
