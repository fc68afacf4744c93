"""Mega: a moving average in each channel, followed by gated attention with a single head.

Ma et al., Mega: Moving average equipped gated attention, ICLR 2023 (arXiv 2209.10655), section 3.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import sigmoid, silu
from jaxtyping import Array, Bool, DTypeLike, Float, PRNGKeyArray

from s7.baselines.architecture import Architecture, layered
from s7.baselines.chunks import scan_chunks
from s7.baselines.drawn_layer import DrawnLayer, backwards, check_sizes, event_numbers
from s7.baselines.transformer import rotated
from s7.contractions import linear
from s7.initialization import Normal, Parameters, constant, draw
from s7.recurrence import recurrence
from s7.sequence_layer import LayerKind, reverse_gaps

CANNOT_STREAM = "mega attends to the whole past and cannot stream; set chunk to attend within chunks"


@dataclass(frozen=True)
class Mega(LayerKind):
    """A damped moving average with N states per channel, and attention between its outputs e_k:

        h_k = α β u_k + (1 - α δ) h_{k-1}        e_k = silu(Σ_n η h_k + D u_k)          α, δ in (0, 1)
        z_k = silu(W_z e_k + b_z)        q_k = κ_q z_k + μ_q        k_k = κ_k z_k + μ_k        v_k = silu(W_v u_k + b_v)
        o_k = attention(q, k, v)         γ_k = silu(W_γ e_k + b_γ)        φ_k = σ(W_φ e_k + b_φ)
        out_k = φ_k (silu(W_h e_k + U_h (γ_k o_k) + b_h) - u_k)

    With the block's skip connection the output is φ ĥ + (1 - φ) u. Positions are rotations of q and k by the number of
    the event. Time gaps are ignored.

    Args:
        chunk: Events attend to the events of their own chunk of this many events, in O(L·chunk); 0: to the whole past.
        shared: The size of z; the default is a quarter of the width, at least 4.
        expand: The size of v, per input feature.
    """

    chunk: int = 0
    shared: int | None = None
    expand: int = 2

    def __post_init__(self):
        check_sizes(self, "chunk", least=0)
        check_sizes(self, "shared", "expand")

    def layer(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> "MegaLayer":
        """Make a layer with `state` moving averages in each channel."""
        return MegaLayer.drawn(self, width, state, key=key, dtype=dtype)

    def attention_scores(self, events, outputs):
        """A score of each event for each event, unless attention is within chunks."""
        return 0 if self.chunk else events * events

    def init(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """Draw normal maps with standard deviation 1/sqrt(columns); biases are zero."""
        shared, values = self.shared or max(4, width // 4), self.expand * width
        shapes = {
            "W_z": (shared, width),
            "W_v": (values, width),
            "W_gamma": (values, width),
            "W_phi": (width, width),
            "W_h": (width, width),
            "U_h": (width, values),
        }
        maps: dict[str, Normal] = {name: (shape, 1 / math.sqrt(shape[1])) for name, shape in shapes.items()}
        maps |= {"alpha": ((state, width), 0.2), "delta": ((state, width), 0.2), "eta": ((state, width), 1.0)}
        maps |= {"beta": ((state, width), 0.1), "D": ((width,), 1.0)}
        maps |= {"kappa_q": ((shared,), 0.02), "kappa_k": ((shared,), 0.02)}
        parameters = draw(maps, key=key, dtype=dtype)
        biases = {"b_z": shared, "b_v": values, "b_gamma": values, "b_phi": width, "b_h": width}
        biases |= {"mu_q": shared, "mu_k": shared}
        return parameters | {
            "beta": parameters["beta"] + 1,
            "kappa_q": parameters["kappa_q"] + 1,
            "kappa_k": parameters["kappa_k"] + 1,
            **{name: constant(0, size, dtype) for name, size in biases.items()},
        }


class MegaState(NamedTuple):
    """The moving averages (N·H), and the unfinished chunk in one vector: keys and values, and the number of events."""

    h: Float[Array, " S"]
    chunk: Float[Array, " C"]


class _Read(NamedTuple):
    """What the output needs: e and o."""

    e: Float[Array, "M H"]
    o: Float[Array, "M V"]


class _Events(NamedTuple):
    """The inputs of attention: queries, keys (not rotated yet), values, and which positions are events or starts."""

    queries: Float[Array, "L Z"]
    keys: Float[Array, "L Z"]
    values: Float[Array, "L V"]
    mask: Bool[Array, " L"]
    reset: Bool[Array, " L"] | None


class MegaLayer(DrawnLayer):
    """Mega on one sequence; `jax.vmap` batches."""

    groups: ClassVar[dict[str, str]] = {f"parameters.{name}": "ssm" for name in ("alpha", "delta", "beta", "eta")}

    def init_state(self) -> MegaState:
        if not self.kind.chunk:
            raise ValueError(CANNOT_STREAM)
        p = self.parameters
        per_event = p["b_z"].size + p["b_v"].size
        return MegaState(
            constant(0, p["alpha"].size, self.dtype), constant(0, self.kind.chunk * per_event + 1, self.dtype)
        )

    def drive(self, u):
        return u, silu(linear(self.parameters["W_v"], u) + self.parameters["b_v"])

    def states(self, drive, dt=None, mask=None, reset=None, state=None, *, stride=1, reverse=False):
        if state is not None and not self.kind.chunk:
            raise ValueError(CANNOT_STREAM)
        u, v = drive
        if reverse:
            _, reset = reverse_gaps(None, mask, reset)
            u, v, mask, reset = backwards(u, v, mask, reset)
        mask = jnp.ones(len(u), bool) if mask is None else mask
        h = constant(0, self.parameters["alpha"].size, u.dtype) if state is None else state.h
        h, read = scan_chunks(partial(_average_piece, self._averages()), h, (u, mask, reset), len(u))
        e = silu(read + self.parameters["D"] * u)
        o, chunk = self._attend(e, v, mask, reset, state)
        # A window may end in padding: it reads its last event.
        last = lax.cummax(jnp.where(mask, jnp.arange(len(u)), 0))[stride - 1 :: stride]
        outputs = _Read(e[last], o[last])
        if reverse:
            outputs = jax.tree.map(lambda q: q[::-1], outputs)
        return outputs, None if chunk is None else MegaState(h, chunk)

    def output(self, x, u):
        p = self.parameters
        gamma = silu(linear(p["W_gamma"], x.e) + p["b_gamma"])
        phi = sigmoid(linear(p["W_phi"], x.e) + p["b_phi"])
        candidate = silu(linear(p["W_h"], x.e) + linear(p["U_h"], gamma * x.o) + p["b_h"])
        return phi * (candidate - u)

    def _averages(self) -> tuple[Array, Array, Array]:
        """The factors 1 - αδ and αβ, and η, each (N, H)."""
        p = self.parameters
        alpha = sigmoid(p["alpha"])
        return 1 - alpha * sigmoid(p["delta"]), alpha * p["beta"], p["eta"]

    def _attend(
        self,
        e: Float[Array, "L H"],
        v: Float[Array, "L V"],
        mask: Bool[Array, " L"],
        reset: Bool[Array, " L"] | None,
        state: MegaState | None,
    ) -> tuple[Float[Array, "L V"], Float[Array, " C"] | None]:
        """The result of attention at each event, and the unfinished chunk."""
        p = self.parameters
        z = silu(linear(p["W_z"], e) + p["b_z"])
        events = _Events(p["kappa_q"] * z + p["mu_q"], p["kappa_k"] * z + p["mu_k"], v, mask, reset)
        if not self.kind.chunk:
            return jax.checkpoint(_attend_all)(events), None
        pending = (self.init_state() if state is None else state).chunk
        run = partial(_attend_piece, self.kind.chunk)
        chunk, found = scan_chunks(run, pending, events, len(e), size=self.kind.chunk)
        return found, chunk


def _turned(q: Float[Array, "L Z"], place: Array) -> Float[Array, "L Z"]:
    return rotated(q[:, None], place.astype(q.dtype), 10_000.0)[:, 0]


def _softmax(scores: Array, seen: Bool[Array, "L K"]) -> Array:
    # Not -inf: padding before the first event attends to nothing, which must not give NaN.
    return jax.nn.softmax(jnp.where(seen, scores, jnp.finfo(scores.dtype).min), axis=-1)


def _attend_all(events: _Events) -> Float[Array, "L V"]:
    """Attend to all earlier events of the same sequence."""
    sequence, number = event_numbers(events.mask, events.reset, 0)
    seen = events.mask & (sequence == sequence[:, None]) & (number <= number[:, None])
    queries, keys = _turned(events.queries, number), _turned(events.keys, number)
    return _softmax(queries @ keys.T / math.sqrt(queries.shape[1]), seen) @ events.values


def _attend_piece(
    size: int, pending: Float[Array, " C"], events: _Events
) -> tuple[Float[Array, " C"], Float[Array, "L V"]]:
    """Attend within chunks, in a piece of at most `size` positions, and return the unfinished chunk after it.

    Event n of a sequence is the (n mod size)-th of its chunk. `pending` holds the keys and values of the chunk that was
    unfinished before the piece, by these places, and their number.
    """
    width = events.keys.shape[1]
    held, before = pending[:-1].reshape(size, -1), pending[-1].astype(int)
    sequence, number = event_numbers(events.mask, events.reset, before)
    chunk, place = number // size, number % size
    rows = jnp.concatenate([_turned(events.keys, place), events.values], axis=1)
    queries = _turned(events.queries, place)
    own = events.mask & (sequence == sequence[:, None]) & (chunk == chunk[:, None]) & (number <= number[:, None])
    earlier = (jnp.arange(size) < before) & ((sequence == 0) & (chunk == 0))[:, None]
    visible = jnp.concatenate([held, rows])
    weights = _softmax(queries @ visible[:, :width].T / math.sqrt(width), jnp.concatenate([earlier, own], axis=1))
    newest = events.mask & (sequence == sequence[-1]) & (chunk == chunk[-1])
    held = held.at[jnp.where(newest, place, size)].set(rows, mode="drop")
    after = jnp.concatenate([held.reshape(-1), ((number[-1] + 1) % size).astype(pending.dtype)[None]])
    return after, weights @ visible[:, width:]


def _average_piece(
    averages: tuple[Array, Array, Array],
    initial: Float[Array, " S"],
    events: tuple[Float[Array, "L H"], Bool[Array, " L"], Bool[Array, " L"] | None],
) -> tuple[Float[Array, " S"], Float[Array, "L H"]]:
    """Compute the moving averages after a piece of the sequence, and their weighted sum at each event."""
    factor, gain, eta = averages
    u, mask, reset = events
    a = jnp.broadcast_to(factor.reshape(-1), (len(u), factor.size))
    v = (gain * u[:, None, :]).reshape(len(u), -1)
    a, v = jnp.where(mask[:, None], a, 1), jnp.where(mask[:, None], v, 0)
    if reset is not None:
        a = jnp.where(reset[:, None], 0, a)
    h = recurrence(a, v, initial)
    return h[-1], jnp.einsum("lnh,nh->lh", h.reshape(-1, *eta.shape), eta)


class MegaModel(Architecture, name="mega"):
    """Moving averages and gated attention with a single head, over the whole past or within chunks."""

    source = "Ma et al. 2023"
    family = "transformer"
    settings = layered(Mega, state=16, gate=False)
