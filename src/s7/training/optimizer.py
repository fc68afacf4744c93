"""Optimizers with the interface of optax, `init(parameters)` and `update(gradient, state, parameters)`, on one vector.

The default is AdamW with a learning rate and a weight decay for each of three parameter groups (see groups.py):

    m = β₁ m + (1 − β₁) g        v = β₂ v + (1 − β₂) g²
    update = −learning_rate · (m̂ / (√v̂ + ε) + weight_decay · q)        m̂ = m / (1 − β₁ᵗ),  v̂ = v / (1 − β₂ᵗ)

Learning rates rise linearly during warmup and then fall as a cosine to zero at the last step, or follow a schedule.
All parameters are one vector (see parameters.py), so the update is compiled once and not once per array.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float, Int

from s7.training.config import TrainConfig
from s7.training.parameters import ParamLayout

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

Schedule = Callable[[Any], Any]


@runtime_checkable
class Optimizer(Protocol):
    """The interface of an `optax.GradientTransformation`, on the vector of all parameters."""

    def init(self, parameters: Float[Array, " N"]) -> Any:
        """The state before the first batch."""

    def update(
        self, gradient: Float[Array, " N"], state: Any, parameters: Float[Array, " N"], **extra: Any
    ) -> tuple[Float[Array, " N"], Any]:
        """The update of the parameters, and the next state."""


class Moments(NamedTuple):
    """State of AdamW: both moments, the gradient accumulated so far, and the number of batches seen."""

    m: Float[Array, " N"]
    v: Float[Array, " N"]
    accumulated: Float[Array, "..."]
    batches: Int[Array, ""]


class AdamW(eqx.Module):
    """The default optimizer.

    Attributes:
        rate, decay: peak learning rate and weight decay of every number of the vector.
        steps: updates in all, of which the first `warmup` have a rising learning rate.
        clip_norm: upper bound of the gradient's norm; 0 means none.
        accumulate: batches whose mean gradient makes one update.
        given: a schedule that maps the number of the update to the learning rate, in place of warmup and cosine.

    The arrays are arguments of the compiled step, so one program serves runs of any length and learning rate.
    """

    rate: Float[Array, " N"]
    decay: Float[Array, " N"]
    steps: Int[Array, ""]
    warmup: Int[Array, ""]
    clip_norm: float = eqx.field(default=0.0, static=True)
    accumulate: int = eqx.field(default=1, static=True)
    given: Schedule | None = eqx.field(default=None, static=True)

    @classmethod
    def of(cls, config: TrainConfig, layout: ParamLayout, batches: int, schedule: Schedule | None = None) -> "AdamW":
        """Build it from the settings, for training on `batches` batches in all."""
        rates, decays = config.rates, config.decays
        steps = max(1, batches // config.accumulate)

        def rate(name: str, shape: tuple[int, ...]) -> float:
            return 1.0 if schedule is not None else rates[layout.groups[name]]

        def decay(name: str, shape: tuple[int, ...]) -> float:
            # Vectors (biases, norms, time constants) are not decayed: zero is not a natural value for them.
            return decays[layout.groups[name]] if len(shape) > 1 else 0.0

        return cls(
            jnp.asarray(layout.spread(rate)),
            jnp.asarray(layout.spread(decay)),
            jnp.asarray(steps, jnp.int32),
            jnp.asarray(round(config.warmup * steps), jnp.int32),
            config.clip_norm,
            config.accumulate,
            schedule,
        )

    def init(self, parameters: Float[Array, " N"]) -> Moments:
        """The state before the first batch."""
        zeros = np.zeros(parameters.shape, parameters.dtype)
        accumulated = zeros if self.accumulate > 1 else np.zeros(0, parameters.dtype)
        return Moments(jnp.array(zeros), jnp.array(zeros), jnp.array(accumulated), jnp.array(0, jnp.int32))

    def update(
        self, gradient: Float[Array, " N"], state: Moments, parameters: Float[Array, " N"], **extra: Any
    ) -> tuple[Float[Array, " N"], Moments]:
        """The update of the parameters, and the next state. The update is zero between accumulated batches."""
        if self.accumulate == 1:
            return self._step(gradient, state, parameters)
        accumulated = state.accumulated + gradient / self.accumulate
        more = state._replace(accumulated=accumulated, batches=state.batches + 1)

        def step(_):
            update, after = self._step(accumulated, state, parameters)
            return update, after._replace(accumulated=jnp.zeros_like(accumulated))

        def wait(_):
            return jnp.zeros_like(parameters), more

        return lax.cond(more.batches % self.accumulate == 0, step, wait, None)

    def _step(self, gradient, state, parameters):
        if self.clip_norm:
            norm = jnp.sqrt(jnp.sum(gradient**2))
            gradient = gradient * jnp.minimum(1, self.clip_norm / jnp.maximum(norm, self.clip_norm))
        batches = state.batches + 1
        t = batches // self.accumulate
        m = BETA1 * state.m + (1 - BETA1) * gradient
        v = BETA2 * state.v + (1 - BETA2) * gradient**2
        power = t.astype(parameters.dtype)
        direction = m / (1 - BETA1**power) / (jnp.sqrt(v / (1 - BETA2**power)) + EPSILON)
        rate = self.schedule(t - 1).astype(parameters.dtype) * self.rate.astype(parameters.dtype)
        decayed = direction + self.decay.astype(parameters.dtype) * parameters
        return -(rate * decayed), Moments(m, v, state.accumulated, batches)

    def schedule(self, step: Array | int) -> Array:
        """The fraction of the peak learning rate at an update, counted from 0; with a given schedule, its value."""
        if self.given is not None:
            return jnp.asarray(self.given(step), jnp.float32)
        rising = jnp.asarray(step + 1, jnp.float32) / (self.warmup + 1)
        through = (jnp.asarray(step, jnp.float32) - self.warmup) / jnp.maximum(1, self.steps - self.warmup)
        falling = 0.5 * (1 + jnp.cos(math.pi * jnp.clip(through, 0, 1)))
        return jnp.where(step < self.warmup, rising, falling)


class ByName(eqx.Module):
    """An optax transformation, which sees the parameters as a dictionary of arrays by their names in the model."""

    transformation: Any = eqx.field(static=True)
    layout: ParamLayout = eqx.field(static=True)

    def init(self, parameters: Float[Array, " N"]) -> Any:
        """The transformation's state before the first batch."""
        return self.transformation.init(self.layout.unravel(parameters))

    def update(
        self, gradient: Float[Array, " N"], state: Any, parameters: Float[Array, " N"], **extra: Any
    ) -> tuple[Float[Array, " N"], Any]:
        """The update of the parameters, and the transformation's next state."""
        arrays = self.layout.unravel(parameters)
        try:
            updates, state = self.transformation.update(self.layout.unravel(gradient), state, arrays, **extra)
        except TypeError as error:  # such as optax.lbfgs, whose line search evaluates the loss itself
            raise TypeError(f"optimizer: it needs more than gradients and the loss ({error})") from None
        return self.layout.ravel(updates), state


def by_name(transformation: Any, layout: ParamLayout) -> ByName:
    """Adapt an optax transformation; raises TypeError if it is not one."""
    if isinstance(transformation, optax.MultiSteps):
        transformation = transformation.gradient_transformation()
    if not isinstance(transformation, optax.GradientTransformation):
        raise TypeError(
            f"optimizer: expected an optax.GradientTransformation, such as optax.adam(1e-3), "
            f"not {type(transformation).__name__}"
        )
    return ByName(optax.with_extra_args_support(transformation), layout)


def description(value: Any, depth: int = 12) -> Any:
    """A description of a transformation or schedule as JSON values: the names of its functions and their closures.

    Two transformations with different hyperparameters have different descriptions. Objects of other kinds are described
    by their type.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth == 0:
        return type(value).__name__
    if isinstance(value, np.ndarray | np.generic) or eqx.is_array(value):
        return np.asarray(value).tolist()
    if isinstance(value, dict):
        return {str(name): description(item, depth - 1) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [description(item, depth - 1) for item in value]
    if callable(value) and hasattr(value, "func"):  # functools.partial
        return [description(part, depth - 1) for part in (value.func, value.args, value.keywords)]
    if callable(value) and hasattr(value, "__qualname__"):
        cells = [_content(cell) for cell in getattr(value, "__closure__", None) or ()]
        inside = [description(cell, depth - 1) for cell in cells if cell is not value]
        constants = getattr(getattr(value, "__code__", None), "co_consts", ())
        inside += [constant for constant in constants if isinstance(constant, int | float)]
        return [f"{value.__module__}.{value.__qualname__}", *inside]
    return type(value).__name__


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None
