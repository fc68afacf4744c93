"""A moving average of the parameters, which is often better than the parameters themselves.

average = d average + (1 − d) parameters        d = min(decay, (1 + t) / (10 + t)) at update t

The early updates count less, so that the average forgets the initial parameters soon.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from s7.training.optimizer import Optimizer
from s7.training.parameters import ParamLayout


class AveragedState(NamedTuple):
    """State of an averaging optimizer: that of the optimizer inside, the average, and the number of batches seen."""

    inner: Any
    average: Float[Array, " N"]
    batches: Int[Array, ""]


class Averaged(eqx.Module):
    """An optimizer that also keeps an exponential moving average of the parameters."""

    inner: Optimizer
    decay: float = eqx.field(static=True)

    def init(self, parameters: Float[Array, " N"]) -> AveragedState:
        """The state before the first batch."""
        return AveragedState(self.inner.init(parameters), jnp.array(parameters), jnp.array(0, jnp.int32))

    def update(
        self, gradient: Float[Array, " N"], state: AveragedState, parameters: Float[Array, " N"], **extra: Any
    ) -> tuple[Float[Array, " N"], AveragedState]:
        """The update of the optimizer inside, and the next state."""
        update, inner = self.inner.update(gradient, state.inner, parameters, **extra)
        t = state.batches.astype(parameters.dtype)
        decay = jnp.minimum(self.decay, (1 + t) / (10 + t))
        average = decay * state.average + (1 - decay) * (parameters + update)
        return update, AveragedState(inner, average, state.batches + 1)


def averaged(
    new_optimizer: Callable[[ParamLayout, int], Optimizer], decay: float
) -> Callable[[ParamLayout, int], Optimizer]:
    """Make optimizers that also average the parameters."""
    return lambda layout, batches: Averaged(new_optimizer(layout, batches), decay)
