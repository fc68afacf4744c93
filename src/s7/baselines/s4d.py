"""S4D: one diagonal, time-invariant state space per channel.

Gu, Gupta, Goel & Ré, On the parameterization and initialization of diagonal state space models, NeurIPS 2022
(arXiv 2206.11893): S4D-Lin.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Complex, DTypeLike, Float, PRNGKeyArray

from s7.baselines.architecture import Architecture, layered
from s7.baselines.chunks import scan_chunks
from s7.baselines.drawn_layer import DrawnLayer, check_steps, log_uniform
from s7.initialization import Parameters, draw, split
from s7.recurrence import recurrence
from s7.sequence_layer import LayerKind, reverse_gaps


@dataclass(frozen=True)
class S4d(LayerKind):
    """x_k = exp(A Δ dt_k) * x_{k-1} + (exp(A Δ dt_k) - 1)/A * u_k        y_k = 2 Re(C x_k) + D u_k

    for each channel, with N complex states. B is 1, since only its product with C matters. A starts at -1/2 + iπn,
    n = 0 ... N-1, and Δ log-uniform between `dt_min` and `dt_max`. The input is held over the gap before its event
    (dt = 1 in regular time), so an event with a gap of zero does not change the state. Only the block's gate mixes
    channels.
    """

    reads_gaps: ClassVar[bool] = True
    dt_min: float = 0.001
    dt_max: float = 0.1

    def __post_init__(self):
        check_steps(self)

    def layer(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> "S4dLayer":
        """Make a layer with `state` complex states in each channel."""
        return S4dLayer.drawn(self, width, state, key=key, dtype=dtype)

    def init(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """Draw the initial parameters: log(-Re A), Im A, log Δ, and C with variance 1 as real and imaginary parts."""
        maps_key, steps_key = split(key, 2)
        maps = {"C": ((2, width, state), math.sqrt(0.5)), "D": ((width,), 1.0)}
        return draw(maps, key=maps_key, dtype=dtype) | {
            "decay": jnp.asarray(np.full((width, state), math.log(0.5)), dtype),
            "omega": jnp.asarray(np.tile(math.pi * np.arange(state), (width, 1)), dtype),
            "log_step": log_uniform(self, width, key=steps_key, dtype=dtype),
        }


class S4dLayer(DrawnLayer):
    """S4D on one sequence; `jax.vmap` batches."""

    groups: ClassVar[dict[str, str]] = {
        "parameters.decay": "ssm",
        "parameters.omega": "ssm",
        "parameters.log_step": "ssm",
    }

    def init_state(self) -> Complex[Array, " S"]:
        zeros = jnp.asarray(np.zeros(self.parameters["omega"].size), self.dtype)
        return lax.complex(zeros, zeros)

    def drive(self, u):
        return u

    def states(self, drive, dt=None, mask=None, reset=None, state=None, *, stride=1, reverse=False):
        if reverse:
            dt, reset = reverse_gaps(dt, mask, reset)
        if dt is None and mask is None:
            mask = jnp.ones(len(drive), bool)  # where chunks are filled up, only the mask says that there is no event
        run = partial(self._scan_chunk, stride=stride, reverse=reverse)
        state = self.init_state() if state is None else state
        final, read = scan_chunks(run, state, (drive, dt, mask, reset), len(drive), stride=stride, reverse=reverse)
        return read, final

    def output(self, x, u):
        return x + self.parameters["D"] * u

    def _scan_chunk(
        self,
        initial: Complex[Array, " S"],
        events: tuple[
            Float[Array, "L H"], Float[Array, " L"] | None, Bool[Array, " L"] | None, Bool[Array, " L"] | None
        ],
        *,
        stride: int,
        reverse: bool,
    ) -> tuple[Complex[Array, " S"], Float[Array, "M H"]]:
        """Compute the state after a chunk, and 2 Re(C x) at the end of each of its windows."""
        u, dt, mask, reset = events
        a, gain = self._discretize(jnp.ones(1, u.dtype) if dt is None else dt)
        v = (gain * u[:, :, None]).reshape(len(u), -1)
        a = jnp.broadcast_to(a.reshape(len(a), -1), v.shape)
        if mask is not None:
            a, v = jnp.where(mask[:, None], a, 1), jnp.where(mask[:, None], v, 0)
        if reset is not None:
            a = jnp.where(reset[:, None], 0, a)
        x = recurrence(a, v, initial, reverse=reverse)
        at_ends = x[(0 if reverse else stride - 1) :: stride]
        C = self.parameters["C"]
        by_channel = at_ends.reshape(-1, *C.shape[1:])
        read = 2 * (C[0] * by_channel.real - C[1] * by_channel.imag).sum(-1)
        return x[0 if reverse else -1], read

    def _discretize(self, dt: Float[Array, " L"]) -> tuple[Complex[Array, "L H N"], Complex[Array, "L H N"]]:
        """Compute exp(A Δ dt), and (exp(A Δ dt) - 1)/A without cancellation."""
        parameters = self.parameters
        # The floor keeps A away from zero, where the gain would be 0/0.
        decay = jnp.maximum(jnp.exp(parameters["decay"]), 1e-4)
        A = lax.complex(-decay, parameters["omega"])
        change = jnp.expm1(A * jnp.exp(parameters["log_step"])[:, None] * dt[:, None, None])
        return change + 1, change / A


class S4dModel(Architecture, name="s4d"):
    """One diagonal state space per channel."""

    source = "Gu et al. 2022"
    family = "state-space"
    settings = layered(S4d, state=16)
