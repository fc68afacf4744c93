"""One training procedure for every model, so that a comparison compares the models and nothing else."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from examples.fitzhugh_nagumo import Split


@dataclass(frozen=True)
class Recipe:
    """How long and how fast: AdamW with a warm-up, then a cosine to zero at the last step."""

    epochs: int
    learning_rate: float
    batch: int = 8
    warm_up: float = 0.05
    weight_decay: float = 1e-4
    clip: float = 1.0

    def optimizer(self, sequences: int) -> optax.GradientTransformation:
        """The optimizer of a training set of this many sequences."""
        steps = self.epochs * (sequences // self.batch)
        rising = max(1, round(self.warm_up * steps))
        rate = optax.warmup_cosine_decay_schedule(0.0, self.learning_rate, rising, steps)
        return optax.chain(optax.clip_by_global_norm(self.clip), optax.adamw(rate, weight_decay=self.weight_decay))


class Forecast(eqx.Module):
    """v_{k+1} ≈ v_k + scale · core(v)_k: the core, any (L, 1) -> (L, 1), spends nothing on repeating its input."""

    core: Any
    scale: float = eqx.field(static=True)

    def __call__(self, inputs: Float[Array, "L 1"]) -> Float[Array, "L 1"]:
        """The next value at every step, from the values up to it."""
        return inputs + self.scale * self.core(inputs)

    @property
    def parameters(self) -> int:
        """How many numbers training adjusts."""
        return sum(q.size for q in jax.tree.leaves(eqx.filter(self, eqx.is_inexact_array)))


class Progress(NamedTuple):
    """Where training stands after an epoch. The errors are RMSE, `train` averaged while the epoch went."""

    epoch: int
    epochs: int
    train: float
    valid: float
    best: float
    seconds: float


class Fit(NamedTuple):
    """The model of the best validation epoch and how it came about; `seconds` are without compilation."""

    model: Forecast
    history: list[Progress]
    compile_seconds: float

    @property
    def valid(self) -> float:
        """The best validation RMSE."""
        return self.history[-1].best

    @property
    def seconds(self) -> float:
        """Spent in training and validation."""
        return self.history[-1].seconds


def difference_scale(split: Split) -> float:
    """The size of v_{k+1} − v_k, in which differences are of order one."""
    return float(np.std(split.targets - split.inputs))


@eqx.filter_jit
def rmse(model: Forecast, split: Split) -> Float[Array, ""]:
    """Over all steps of all sequences."""
    return jnp.sqrt(jnp.mean((jax.vmap(model)(jnp.asarray(split.inputs)) - split.targets) ** 2))


def fit(
    model: Forecast, train: Split, valid: Split, recipe: Recipe, *, seed: int, watch: Callable[[Progress], None]
) -> Fit:
    """Trains, calling `watch` after every epoch, and keeps the epoch that is best on `valid`."""
    sequences = train.inputs.shape[0]
    optimizer = recipe.optimizer(sequences)
    weights, rest = eqx.partition(model, eqx.is_inexact_array)
    train, valid = jax.tree.map(jnp.asarray, (train, valid))

    def loss(weights, inputs, targets):
        error = jax.vmap(eqx.combine(weights, rest))(inputs) - targets
        # In units of the difference's own variance, so that clipping and rates mean the same at any sampling.
        return jnp.mean((error / model.scale) ** 2)

    def step(carry, chosen):
        weights, state = carry
        value, gradient = jax.value_and_grad(loss)(weights, train.inputs[chosen], train.targets[chosen])
        updates, state = optimizer.update(gradient, state, weights)
        return (optax.apply_updates(weights, updates), state), value

    # A whole epoch is one call: dispatching each step of so small a model would cost as much as computing it.
    @jax.jit
    def run_epoch(weights, state, key):
        order = jax.random.permutation(key, sequences)
        batches = order[: sequences // recipe.batch * recipe.batch].reshape(-1, recipe.batch)
        (weights, state), losses = jax.lax.scan(step, (weights, state), batches)
        train_rmse = model.scale * jnp.sqrt(jnp.mean(losses))
        return weights, state, train_rmse, rmse(eqx.combine(weights, rest), valid)

    key = jax.random.key(seed)
    state = optimizer.init(weights)
    before = time.perf_counter()
    compiled = run_epoch.lower(weights, state, key).compile()
    start = time.perf_counter()
    kept, best, history = weights, float("inf"), []
    for epoch in range(1, recipe.epochs + 1):
        weights, state, train_rmse, valid_rmse = compiled(weights, state, jax.random.fold_in(key, epoch))
        if float(valid_rmse) < best:
            kept, best = weights, float(valid_rmse)
        seconds = time.perf_counter() - start
        history.append(Progress(epoch, recipe.epochs, float(train_rmse), float(valid_rmse), best, seconds))
        watch(history[-1])
    return Fit(eqx.combine(kept, rest), history, start - before)
