"""An S7 layer inside an Equinox model of your own, trained with your own loop and with `s7.train`.

The model sees a value and a mark at each event, at irregular times, and predicts the sum of the marked values, which
forgets with a time constant of five seconds.

    python -m examples.equinox_model
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

import s7

FORGETTING = 5.0


class Counter(eqx.Module):
    """A convolution over three events, an S7 layer with a skip connection, and a linear map per event."""

    convolution: eqx.nn.Conv1d
    layer: s7.S7Layer
    out: eqx.nn.Linear

    def __init__(self, width: int, *, key: PRNGKeyArray):
        keys = jax.random.split(key, 3)
        # Padding on the left alone keeps the model causal.
        self.convolution = eqx.nn.Conv1d(2, width, 3, padding=((2, 0),), key=keys[0])
        self.layer = s7.S7Layer(width, state=16, form=s7.Factored(rank=8), key=keys[1])
        self.out = eqx.nn.Linear(width, 1, key=keys[2])

    def __call__(self, inputs, dt=None, length=None, *, key=None) -> Float[Array, "L 1"]:
        """Outputs for one sequence (L, 2) with gaps (L,), in the form that `s7.train` calls."""
        u = self.convolution(jnp.asarray(inputs, jnp.float32).T).T
        mask = None if length is None else jnp.arange(len(u)) < length
        y, _ = self.layer(u, dt, mask)
        return jax.vmap(self.out)(u + jax.nn.gelu(y))


def simulate(sequences: int, length: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs (N, L, 2), targets (N, L, 1) and gaps (N, L)."""
    rng = np.random.default_rng(seed)
    value, marked = rng.normal(size=(sequences, length)), rng.random((sequences, length)) < 0.3
    dt = rng.exponential(1.0, (sequences, length))
    target, total = np.zeros((sequences, length)), np.zeros(sequences)
    for k in range(length):
        total = total * np.exp(-dt[:, k] / FORGETTING) + np.where(marked[:, k], value[:, k], 0)
        target[:, k] = total
    inputs = np.stack([value, marked], -1)
    return inputs.astype(np.float32), target[..., None].astype(np.float32), dt.astype(np.float32)


def own_loop(model: Counter, data: tuple, steps: int) -> Counter:
    """A plain loop: random batches and AdamW."""
    inputs, targets, dt = data
    optimizer = optax.adamw(optax.cosine_decay_schedule(1e-2, steps))
    moments = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    def loss(model, x, y, gaps):
        return jnp.mean((jax.vmap(model)(x, gaps) - y) ** 2)

    @eqx.filter_jit
    def update(model, moments, x, y, gaps):
        value, gradient = eqx.filter_value_and_grad(loss)(model, x, y, gaps)
        changes, moments = optimizer.update(gradient, moments, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, changes), moments, value

    rng, value = np.random.default_rng(0), jnp.inf
    for _ in range(steps):
        chosen = rng.integers(0, len(inputs), 16)
        model, moments, value = update(model, moments, inputs[chosen], targets[chosen], dt[chosen])
    print(f"own loop: loss of the last batch {float(value):.3f}")
    return model


def main(arguments: list[str] | None = None) -> None:
    """Train the model in both ways and print its error on new sequences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=256)
    parser.add_argument("--steps", type=int, default=300, help="steps of the own loop, and of s7.train")
    options = parser.parse_args(arguments)
    train, test = simulate(options.sequences, 60, seed=0), simulate(100, 60, seed=1)
    print(f"variance of the target {test[1].var():.3f}")
    model = Counter(16, key=jax.random.key(0))
    start = time.perf_counter()
    model_1 = own_loop(model, train, options.steps)
    print(f"own loop: test MSE {s7.evaluate(model_1, test)['mse']:.3f}, {time.perf_counter() - start:.0f} s")
    settings = {"steps": options.steps, "batch_size": 16, "learning_rate": 1e-2, "progress": False}
    model_2 = s7.train(model, train, valid=0.2, **settings).model
    print(f"s7.train: test MSE {s7.evaluate(model_2, test)['mse']:.3f}")


if __name__ == "__main__":
    main()
