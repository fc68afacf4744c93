"""What layers with a dictionary of parameters share: their constructor, and checks of the settings of their kinds."""

import math
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, DTypeLike, Float, Int, PRNGKeyArray

from s7.initialization import Parameters
from s7.sequence_layer import SequenceLayer

_Layer = TypeVar("_Layer", bound="DrawnLayer")


class DrawnLayer(SequenceLayer):
    """The base class of layers whose parameters are drawn by `kind.init(width, state, key=, dtype=)`.

    Subclasses define `init_state`, `drive`, `states` and `output`.
    """

    parameters: Parameters
    kind: Any = eqx.field(static=True)
    width: int = eqx.field(static=True)
    state: int = eqx.field(static=True)
    dt: float | None = eqx.field(static=True)

    @classmethod
    def drawn(
        cls: type[_Layer], kind: Any, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike = jnp.float32
    ) -> _Layer:
        """Make a layer with initial parameters."""
        for name, size in (("width", width), ("state", state)):
            if size < 1:
                raise ValueError(f"{type(kind).__name__}: {name}={size} must be at least 1")
        parameters = kind.init(width, state, key=key, dtype=dtype)
        return cls(parameters=parameters, kind=kind, width=width, state=state, dt=None)

    @property
    def dtype(self) -> jnp.dtype:
        return jax.tree.leaves(self.parameters)[0].dtype


def backwards(*arrays: Array | None) -> tuple[Array | None, ...]:
    """The arrays from their ends, for layers that run in one direction only."""
    return tuple(None if q is None else q[::-1] for q in arrays)


def event_numbers(
    mask: Bool[Array, " L"], reset: Bool[Array, " L"] | None, before: Array | int
) -> tuple[Int[Array, " L"], Int[Array, " L"]]:
    """The sequence of each position, from 0, and the number of each event in it; `before` events came earlier."""
    count = jnp.cumsum(mask)
    if reset is None:
        return jnp.zeros(len(count), int), count - 1 + before
    sequence = jnp.cumsum(reset)
    at_start = lax.cummax(jnp.where(reset, count - mask, 0))
    return sequence, count - 1 - at_start + jnp.where(sequence > 0, 0, before)


def check_sizes(settings: Any, *names: str, least: int = 1) -> None:
    """Raise ValueError if one of these settings is below `least`. None is allowed."""
    for name in names:
        size = getattr(settings, name)
        if size is not None and not size >= least:
            raise ValueError(f"{type(settings).__name__}: {name}={size} must be at least {least}")


def check_steps(settings: Any) -> None:
    """Raise ValueError unless 0 < dt_min ≤ dt_max."""
    low, high = settings.dt_min, settings.dt_max
    if not 0 < low <= high:
        name = type(settings).__name__
        raise ValueError(f"{name}: dt_min={low} and dt_max={high} must be positive and in this order")


def log_uniform(settings: Any, size: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Float[Array, " N"]:
    """Logarithms of step sizes, uniform between those of dt_min and dt_max."""
    return jax.random.uniform(key, (size,), dtype, math.log(settings.dt_min), math.log(settings.dt_max))
