"""Mamba: a selective state space after a short convolution, with a multiplicative gate.

Gu & Dao, Mamba: Linear-time sequence modeling with selective state spaces, 2023 (arXiv 2312.00752), section 3.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.nn import silu, softplus
from jaxtyping import Array, Bool, DTypeLike, Float, PRNGKeyArray

from s7.baselines.architecture import Architecture, layered
from s7.baselines.chunks import scan_chunks
from s7.baselines.convolution import convolve_events
from s7.baselines.drawn_layer import DrawnLayer, backwards, check_sizes, check_steps, log_uniform
from s7.contractions import linear
from s7.initialization import Parameters, constant, draw, split
from s7.recurrence import recurrence
from s7.sequence_layer import LayerKind, reverse_gaps


@dataclass(frozen=True)
class Mamba(LayerKind):
    """The mixer, with E = expand·H channels of N states each:

        x_k = silu(Σ_j K_j * (W u_{k-j}) + c)             depthwise convolution over the last `kernel` events
        (δ_k, B_k, C_k) = W_x x_k                         Δ_k = softplus(W_Δ δ_k + b_Δ)
        h_k = exp(Δ_k A) * h_{k-1} + (Δ_k * x_k) B_kᵀ     A = -exp(A_log)
        out_k = W_out ((h_k C_k + D * x_k) * silu(W_z u_k))

    Mamba ignores time gaps.

    Args:
        expand: Channels per input feature.
        kernel: Length of the convolution, in events.
        rank: Size of δ; by default a sixteenth of the width.
        dt_min: Lower end of the range in which Δ starts, log-uniformly.
        dt_max: Upper end of that range.
    """

    expand: int = 2
    kernel: int = 4
    rank: int | None = None
    dt_min: float = 0.001
    dt_max: float = 0.1

    def __post_init__(self):
        check_sizes(self, "expand", "kernel", "rank")
        check_steps(self)

    def layer(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> "MambaLayer":
        """Make a layer with `state` states in each channel."""
        return MambaLayer.drawn(self, width, state, key=key, dtype=dtype)

    def init(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """Draw the initial parameters: A = -1, -2, ... -N in each channel, normal maps with the published variance."""
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
        steps = jnp.exp(log_uniform(self, channels, key=steps_key, dtype=dtype))
        return draw(maps, key=maps_key, dtype=dtype) | {
            "c": constant(0, channels, dtype),
            "b_delta": jnp.log(jnp.expm1(steps)),
            "A_log": jnp.asarray(np.tile(np.log(np.arange(1, state + 1)), (channels, 1)), dtype),
            "D": constant(1, channels, dtype),
        }


class MambaState(NamedTuple):
    """The states of all channels (N·E) and the last inputs of the convolution."""

    h: Float[Array, " S"]
    inputs: Float[Array, "K E"]


class MambaLayer(DrawnLayer):
    """Mamba's mixer on one sequence; `jax.vmap` batches."""

    groups: ClassVar[dict[str, str]] = {"parameters.A_log": "ssm"}

    def init_state(self) -> MambaState:
        zeros = lambda q: jnp.asarray(np.zeros(q.shape), self.dtype)  # noqa: E731
        return MambaState(zeros(self.parameters["A_log"]).reshape(-1), zeros(self.parameters["K"]))

    def drive(self, u):
        return linear(self.parameters["W"], u)

    def states(self, drive, dt=None, mask=None, reset=None, state=None, *, stride=1, reverse=False):
        if reverse:
            _, reset = reverse_gaps(None, mask, reset)
            drive, mask, reset = backwards(drive, mask, reset)
        state = self.init_state() if state is None else state
        mixed, inputs = convolve_events(self.parameters["K"], drive, mask, reset, state.inputs)
        x = silu(mixed + self.parameters["c"])
        y, h = self._select(x, mask, reset, state.h, stride=stride)
        return y[::-1] if reverse else y, MambaState(h, inputs)

    def output(self, x, u):
        return linear(self.parameters["W_out"], x * silu(linear(self.parameters["W_z"], u)))

    def _select(
        self,
        x: Float[Array, "L E"],
        mask: Bool[Array, " L"] | None,
        reset: Bool[Array, " L"] | None,
        initial: Float[Array, " S"],
        *,
        stride: int,
    ) -> tuple[Float[Array, "M E"], Float[Array, " S"]]:
        """Compute h C + D x at the last event of each window of `stride` events, and the final h."""
        parameters = self.parameters
        state, rank = parameters["A_log"].shape[1], parameters["W_delta"].shape[1]
        delta, B, C = jnp.split(linear(parameters["W_x"], x), [rank, rank + state], axis=1)
        steps = softplus(linear(parameters["W_delta"], delta) + parameters["b_delta"])
        if mask is not None:
            steps = jnp.where(mask[:, None], steps, 0)  # then h does not change
        A, ends = -jnp.exp(parameters["A_log"]).T, slice(stride - 1, None, stride)
        scanned = _Scanned(steps, steps * x, B, C[ends], reset)
        final, read = scan_chunks(partial(_scan_chunk, A, stride), initial, scanned, len(x), stride=stride)
        return read + parameters["D"] * x[ends], final


class _Scanned(NamedTuple):
    """The inputs of the recurrence for each event (L), or for the last event of each window (M)."""

    steps: Float[Array, "L E"]
    driven: Float[Array, "L E"]  # Δ_k * x_k
    B: Float[Array, "L N"]
    C: Float[Array, "M N"]
    reset: Bool[Array, " L"] | None


def _scan_chunk(
    A: Float[Array, "N E"], stride: int, initial: Float[Array, " S"], events: _Scanned
) -> tuple[Float[Array, " S"], Float[Array, "M E"]]:
    """Compute the state after a chunk, and h C at the last event of each of its windows."""
    steps, driven, B, C, reset = events
    a = jnp.exp(steps[:, None, :] * A).reshape(len(steps), -1)
    v = (driven[:, None, :] * B[:, :, None]).reshape(len(steps), -1)
    if reset is not None:
        a = jnp.where(reset[:, None], 0, a)
    h = recurrence(a, v, initial)
    at_ends = h[stride - 1 :: stride].reshape(-1, *A.shape)
    return h[-1], jnp.einsum("kne,kn->ke", at_ends, C)


class MambaModel(Architecture, name="mamba"):
    """S6: selective state space with an input-dependent step size per channel."""

    source = "Gu & Dao 2023"
    family = "state-space"
    settings = layered(Mamba, state=16, gate=False)  # the mixer has its own gate
