"""Mamba: a selective state space behind a short convolution, with a gate of its own.

Gu & Dao, Mamba: Linear-time sequence modeling with selective state spaces, 2023 (arXiv 2312.00752), section 3.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.nn import silu, softplus
from jaxtyping import Array, Bool, DTypeLike, Float, PRNGKeyArray

from s7.contractions import linear
from s7.initialization import Parameters, constant, draw, split
from s7.recurrence import over_windows, recurrence
from s7.sequence_layer import LayerKind, SequenceLayer, reverse_gaps


@dataclass(frozen=True)
class Mamba(LayerKind):
    """The mixer, in E = expand·H channels of N states each:

        x_k = silu(Σ_j K_j * (W u_{k-j}) + c)             over the last `kernel` events, each channel alone
        (δ_k, B_k, C_k) = W_x x_k                         Δ_k = softplus(W_Δ δ_k + b_Δ)
        h_k = exp(Δ_k A) * h_{k-1} + (Δ_k * x_k) B_kᵀ     A = -exp(A_log)
        out_k = W_out ((h_k C_k + D * x_k) * silu(W_z u_k))

    δ has `rank` numbers (None: a sixteenth of the width), and Δ starts log-uniform in `steps`. As published it knows
    of no time but the order of events. What it computes has L·E·N numbers: made again for the gradient, not kept.
    """

    expand: int = 2
    kernel: int = 4
    rank: int | None = None
    steps: tuple[float, float] = (0.001, 0.1)

    def __post_init__(self):
        for name, size in (("expand", self.expand), ("kernel", self.kernel), ("rank", self.rank)):
            if size is not None and size < 1:
                raise ValueError(f"Mamba: {name}={size} must be at least 1")
        if not 0 < self.steps[0] <= self.steps[1]:
            raise ValueError(f"Mamba: steps={self.steps} must be two positive numbers in order")

    def layer(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> "MambaLayer":
        """A layer with `state` states in each channel."""
        return MambaLayer(self, width, state, key=key, dtype=dtype)

    def init(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """A = -1, -2, ... -N in each channel; maps normal, of the deviation of the uniform ones that are published."""
        maps_key, steps_key = split(key, 2)
        channels, rank = self.expand * width, self.rank or -(-width // 16)
        shapes = {
            "W": (channels, width),
            "W_z": (channels, width),
            "W_x": (rank + 2 * state, channels),
            "W_delta": (channels, rank),
            "W_out": (width, channels),
        }
        maps = {name: (shape, 1 / math.sqrt(3 * shape[1])) for name, shape in shapes.items()}
        maps["K"] = (self.kernel, channels), 1 / math.sqrt(3 * self.kernel)
        steps = jnp.exp(jax.random.uniform(steps_key, (channels,), dtype, *map(math.log, self.steps)))
        return draw(maps, key=maps_key, dtype=dtype) | {
            "c": constant(0, channels, dtype),
            "b_delta": jnp.log(jnp.expm1(steps)),
            "A_log": jnp.asarray(np.tile(np.log(np.arange(1, state + 1)), (channels, 1)), dtype),
            "D": constant(1, channels, dtype),
        }


class MambaState(NamedTuple):
    """The states of all channels, and the last inputs of the convolution.

    These are as many as it reads, one more than a next event asks for: where there is no event, what is read is that
    of the last one, which may be of the past.
    """

    h: Float[Array, " S"]
    inputs: Float[Array, "K E"]


class MambaLayer(SequenceLayer):
    """Mamba's mixer on one sequence; `jax.vmap` batches."""

    groups: ClassVar[dict[str, str]] = {"parameters.A_log": "ssm"}
    parameters: Parameters
    width: int = eqx.field(static=True)
    dt: float | None = eqx.field(static=True)

    def __init__(self, kind: Mamba, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike = jnp.float32):
        for name, size in (("width", width), ("state", state)):
            if size < 1:
                raise ValueError(f"Mamba: {name}={size} must be at least 1")
        self.parameters = kind.init(width, state, key=key, dtype=dtype)
        self.width, self.dt = width, None

    @property
    def dtype(self) -> jnp.dtype:
        return self.parameters["W"].dtype

    def init_state(self) -> MambaState:
        zeros = lambda q: jnp.asarray(np.zeros(q.shape), self.dtype)  # noqa: E731
        return MambaState(zeros(self.parameters["A_log"]).reshape(-1), zeros(self.parameters["K"]))

    def drive(self, u):
        return linear(self.parameters["W"], u)

    def states(self, drive, dt=None, mask=None, reset=None, state=None, *, stride=1, reverse=False):
        if reverse:
            _, reset = reverse_gaps(None, mask, reset)
            drive, mask, reset = (None if q is None else q[::-1] for q in (drive, mask, reset))
        state = self.init_state() if state is None else state
        x, inputs = self._convolve(drive, mask, reset, state.inputs)
        y, h = jax.checkpoint(partial(self._select, stride=stride))(x, mask, reset, state.h)
        return y[::-1] if reverse else y, MambaState(h, inputs)

    def output(self, x, u):
        return linear(self.parameters["W_out"], x * silu(linear(self.parameters["W_z"], u)))

    def _convolve(
        self,
        inputs: Float[Array, "L E"],
        mask: Bool[Array, " L"] | None,
        reset: Bool[Array, " L"] | None,
        before: Float[Array, "K E"],
    ) -> tuple[Float[Array, "L E"], Float[Array, "K E"]]:
        """x at every place, that of the last event where there is none; and the last inputs.

        A convolution is over events, whatever padding lies between them: so they are moved together first.
        """
        K, length = self.parameters["K"], inputs.shape[0]
        sequence = jnp.zeros(length, int) if reset is None else jnp.cumsum(reset)
        newest = sequence[-1:]
        events = jnp.arange(1, length + 1) if mask is None else jnp.cumsum(mask)
        if mask is not None:
            (places,) = jnp.nonzero(mask, size=length)
            inputs, sequence = inputs[places], sequence[places]
        inputs = jnp.concatenate([before, inputs])
        sequence = jnp.concatenate([jnp.zeros(len(K), int), sequence])
        own = sequence[len(K) - 1 :]
        x = self.parameters["c"]
        for ago, weight in enumerate(K):
            reached = slice(len(K) - 1 - ago, len(K) + length - ago)
            x = x + weight * jnp.where((sequence[reached] == own)[:, None], inputs[reached], 0)
        # Row n is of the n-th event, and row 0 of the last one before.
        x = silu(x[1:] if mask is None else x[events])
        last, of = (lax.dynamic_slice_in_dim(q, events[-1], len(K)) for q in (inputs, sequence))
        return x, jnp.where((of == newest)[:, None], last, 0)

    def _select(
        self,
        x: Float[Array, "L E"],
        mask: Bool[Array, " L"] | None,
        reset: Bool[Array, " L"] | None,
        initial: Float[Array, " S"],
        *,
        stride: int,
    ) -> tuple[Float[Array, "M E"], Float[Array, " S"]]:
        """h C + D x at the end of each window, and the last h."""
        parameters = self.parameters
        (channels, state), rank = parameters["A_log"].shape, parameters["W_delta"].shape[1]
        delta, B, C = jnp.split(linear(parameters["W_x"], x), [rank, rank + state], axis=1)
        steps = softplus(linear(parameters["W_delta"], delta) + parameters["b_delta"])
        if mask is not None:
            steps = jnp.where(mask[:, None], steps, 0)  # then a = 1 and v = 0
        a = jnp.exp(steps[:, :, None] * -jnp.exp(parameters["A_log"])).reshape(len(x), -1)
        v = ((steps * x)[:, :, None] * B[:, None, :]).reshape(len(x), -1)
        if reset is not None:
            a = jnp.where(reset[:, None], 0, a)
        if stride > 1:
            a, v = over_windows(a, v, stride)
        h = recurrence(a, v, initial)
        ends = slice(stride - 1, None, stride)
        read = jnp.einsum("ken,kn->ke", h.reshape(-1, channels, state), C[ends])
        return read + parameters["D"] * x[ends], h[-1]
