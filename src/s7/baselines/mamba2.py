"""Mamba-2: state-space duality. Each head has one decay for all of its states, so chunks are products of matrices.

Dao & Gu, Transformers are SSMs: Generalized models and efficient algorithms through structured state space duality,
ICML 2024 (arXiv 2405.21060), sections 6 and 7.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import jax
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
from s7.sequence_layer import LayerKind, reverse_gaps

_EPSILON = 1e-5


@dataclass(frozen=True)
class Mamba2(LayerKind):
    """The mixer, with E = expand·H channels in heads of `head` channels, and N states in each channel:

        (x_k, B_k, C_k) = silu(Σ_j K_j * (W u_{k-j}) + c)         Δ_k = softplus(W_Δ u_k + b_Δ), one for each head
        h_k = exp(-Δ_k exp(A_log)) h_{k-1} + Δ_k x_k B_kᵀ         y_k = h_k C_k + D x_k
        out_k = W_out (scale * rms(y_k * silu(W_z u_k)))

    The sequence is cut into chunks. Within a chunk the outputs are (C Bᵀ * decay) x, a masked product of matrices;
    between chunks only states are passed on. Time gaps are ignored.

    Args:
        expand: Channels per input feature.
        head: Channels per head; the number of channels is rounded up to whole heads.
        kernel: Length of the convolution, in events.
        chunk: Events per chunk.
        dt_min, dt_max: The range in which Δ starts, log-uniformly.
    """

    expand: int = 2
    head: int = 16
    kernel: int = 4
    chunk: int = 64
    dt_min: float = 0.001
    dt_max: float = 0.1

    def __post_init__(self):
        check_sizes(self, "expand", "head", "kernel", "chunk")
        check_steps(self)

    def layer(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> "Mamba2Layer":
        """Make a layer with `state` states in each channel."""
        return Mamba2Layer.drawn(self, width, state, key=key, dtype=dtype)

    def init(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """Draw the initial parameters: exp(A_log) uniform between 1 and 16, normal maps."""
        maps_key, steps_key, rates_key = split(key, 3)
        heads = -(-self.expand * width // self.head)
        channels = heads * self.head
        shapes = {
            "W": (channels + 2 * state, width),
            "W_z": (channels, width),
            "W_delta": (heads, width),
            "W_out": (width, channels),
        }
        maps = {name: (shape, 1 / math.sqrt(3 * shape[1])) for name, shape in shapes.items()}
        maps["K"] = (self.kernel, channels + 2 * state), 1 / math.sqrt(3 * self.kernel)
        steps = jnp.exp(log_uniform(self, heads, key=steps_key, dtype=dtype))
        return draw(maps, key=maps_key, dtype=dtype) | {
            "c": constant(0, channels + 2 * state, dtype),
            "b_delta": jnp.log(jnp.expm1(steps)),
            "A_log": jnp.log(jax.random.uniform(rates_key, (heads,), dtype, 1.0, 16.0)),
            "D": constant(1, heads, dtype),
            "scale": constant(1, channels, dtype),
        }


class Mamba2State(NamedTuple):
    """The states of all channels (heads·head·N) and the last inputs of the convolution."""

    h: Float[Array, " S"]
    inputs: Float[Array, "K E"]


class _Events(NamedTuple):
    """The inputs of the recurrence for each event."""

    log_decay: Float[Array, "L G"]
    driven: Float[Array, "L G E"]  # Δ_k x_k
    B: Float[Array, "L N"]
    C: Float[Array, "L N"]
    reset: Bool[Array, " L"] | None


class Mamba2Layer(DrawnLayer):
    """Mamba-2's mixer on one sequence; `jax.vmap` batches."""

    groups: ClassVar[dict[str, str]] = {"parameters.A_log": "ssm"}

    def init_state(self) -> Mamba2State:
        channels = self.parameters["scale"].size
        zeros = lambda *shape: jnp.asarray(np.zeros(shape), self.dtype)  # noqa: E731
        return Mamba2State(zeros(channels * self.state), zeros(*self.parameters["K"].shape))

    def drive(self, u):
        return linear(self.parameters["W"], u), linear(self.parameters["W_delta"], u)

    def states(self, drive, dt=None, mask=None, reset=None, state=None, *, stride=1, reverse=False):
        mixed, steps = drive
        if reverse:
            _, reset = reverse_gaps(None, mask, reset)
            mixed, steps, mask, reset = backwards(mixed, steps, mask, reset)
        state = self.init_state() if state is None else state
        parameters = self.parameters
        mixed, inputs = convolve_events(parameters["K"], mixed, mask, reset, state.inputs)
        mixed = silu(mixed + parameters["c"])
        channels = parameters["scale"].size
        x, B, C = jnp.split(mixed, [channels, channels + self.state], axis=1)
        x = x.reshape(len(x), -1, self.kind.head)
        steps = softplus(steps + parameters["b_delta"])
        if mask is not None:
            steps = jnp.where(mask[:, None], steps, 0)  # then h does not change
        events = _Events(-steps * jnp.exp(parameters["A_log"]), steps[:, :, None] * x, B, C, reset)
        run = partial(_run_chunk, stride)
        h, y = scan_chunks(run, state.h, events, len(x), stride=stride, size=self.kind.chunk)
        y = y + (parameters["D"][:, None] * x[stride - 1 :: stride]).reshape(y.shape)
        return y[::-1] if reverse else y, Mamba2State(h, inputs)

    def output(self, x, u):
        gated = x * silu(linear(self.parameters["W_z"], u))
        norm = jnp.sqrt(jnp.mean(gated**2, axis=-1, keepdims=True) + _EPSILON)
        return linear(self.parameters["W_out"], self.parameters["scale"] * gated / norm)


def _run_chunk(
    stride: int, initial: Float[Array, " S"], events: _Events
) -> tuple[Float[Array, " S"], Float[Array, "M E"]]:
    """Compute the state after a chunk, and h C at the end of each of its windows (section 6 of the paper)."""
    log_decay, driven, B, C, reset = events
    length, heads, size = driven.shape
    h = initial.reshape(heads, size, -1)
    total = jnp.cumsum(log_decay, axis=0)  # (L, G)
    k = jnp.arange(length)
    reaches = k[:, None] >= k[None, :]
    sequence = jnp.zeros(length, int) if reset is None else jnp.cumsum(reset)
    reaches &= sequence[:, None] == sequence[None, :]
    since_start = jnp.where((sequence == 0)[:, None], jnp.exp(total), 0)  # of the state before the chunk
    # Rows at the ends of windows, columns at all events.
    ends = slice(stride - 1, None, stride)
    between = jnp.where(reaches[ends, :, None], total[ends, None] - total[None], -jnp.inf)  # (M, L, G)
    weights = jnp.exp(between) * (C[ends] @ B.T)[:, :, None]
    y = jnp.einsum("mlg,lge->mge", weights, driven)
    y += jnp.einsum("gen,mn,mg->mge", h, C[ends], since_start[ends])
    to_end = jnp.exp(jnp.where(reaches[-1, :, None], total[-1] - total, -jnp.inf))  # (L, G)
    h = since_start[-1][:, None, None] * h + jnp.einsum("lg,lge,ln->gen", to_end, driven, B)
    return h.reshape(-1), y.reshape(len(y), -1)


class Mamba2Model(Architecture, name="mamba2"):
    """State-space duality: selective state space with one decay per head, computed in chunks."""

    source = "Dao & Gu 2024"
    family = "state-space"
    settings = layered(Mamba2, state=16, gate=False)  # the mixer has its own gate
