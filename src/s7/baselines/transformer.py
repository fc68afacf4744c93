"""A small transformer: causal self-attention with rotary positions, and a perceptron.

Vaswani et al., Attention is all you need, 2017 (arXiv 1706.03762); norms before each part as in Xiong et al. 2020
(arXiv 2002.04745); Su et al., RoFormer: Enhanced transformer with rotary position embedding, 2021 (arXiv 2104.09864).
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, DTypeLike, Float, PRNGKeyArray

from s7.baselines.architecture import Architecture, layered
from s7.baselines.drawn_layer import DrawnLayer, check_sizes
from s7.contractions import linear
from s7.initialization import Parameters, constant, draw
from s7.norm import LayerNorm
from s7.sequence_layer import LayerKind

CANNOT_STREAM = "a transformer cannot stream: it attends to the whole past"


@dataclass(frozen=True)
class Transformer(LayerKind):
    """z = W_o attention(W_qkv u)        out = z + W_2 gelu(W_1 norm(u + z) + b_1) + b_2

    The block's skip connection completes the residuals of both parts: without a gate (`gate=False`) it is a pre-norm
    transformer, x + z + perceptron(norm(u + z)) with u = norm(x). The perceptron reads the normalized u instead of x,
    which the layer does not see. It has `expand`·H units. Its norm has no scale and shift, which W_1 and b_1 subsume.

    Positions are times (event indices in regular time): the i-th of a head's p pairs is rotated by `base`^(-i/p) per
    unit of time, and the last number of a head of odd width is not rotated. Memory is quadratic in the length:
    heads·L²/stride numbers, recomputed in the backward pass.
    """

    reads_gaps: ClassVar[bool] = True
    heads: int = 4
    expand: int = 4
    base: float = 10_000.0

    def __post_init__(self):
        check_sizes(self, "heads", "expand", "base")

    def layer(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> "TransformerLayer":
        """Make a layer. `state` is ignored: attention has no state of fixed size."""
        return TransformerLayer.drawn(self, width, state, key=key, dtype=dtype)

    def attention_scores(self, events, outputs):
        """A score of each event for each output, in each head."""
        return self.heads * events * outputs

    def init(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """Draw maps with standard deviation 1/sqrt(columns); biases are zero."""
        if width % self.heads:
            raise ValueError(f"Transformer: heads={self.heads} does not divide width={width}")
        units = self.expand * width
        shapes = {"W_qkv": (3 * width, width), "W_o": (width, width), "W_1": (units, width), "W_2": (width, units)}
        maps = {name: (shape, 1 / math.sqrt(shape[1])) for name, shape in shapes.items()}
        biases = {"b_1": constant(0, units, dtype), "b_2": constant(0, width, dtype)}
        return draw(maps, key=key, dtype=dtype) | biases


class TransformerLayer(DrawnLayer):
    """Attention and perceptron on one sequence; `jax.vmap` batches."""

    def init_state(self):
        raise ValueError(CANNOT_STREAM)

    def drive(self, u):
        return linear(self.parameters["W_qkv"], u)

    def states(self, drive, dt=None, mask=None, reset=None, state=None, *, stride=1, reverse=False):
        if state is not None:
            raise ValueError(CANNOT_STREAM)
        attend = jax.checkpoint(partial(self._attend, stride=stride, reverse=reverse))
        return attend(drive, dt, mask, reset), None

    def output(self, x, u):
        return feed_forward(self.parameters, x, u)

    def _attend(
        self,
        drive: Float[Array, "L G"],
        dt: Float[Array, " L"] | None,
        mask: Bool[Array, " L"] | None,
        reset: Bool[Array, " L"] | None,
        *,
        stride: int,
        reverse: bool,
    ) -> Float[Array, "M H"]:
        """Attend from the last event of each window to the events of its sequence up to it."""
        places = jnp.arange(len(drive))
        events = jnp.ones(len(drive), bool) if mask is None else mask
        sequence = jnp.zeros(len(drive), int) if reset is None else jnp.cumsum(reset)
        time = jnp.cumsum(jnp.where(events, 1 if dt is None else dt, 0).astype(drive.dtype))
        if reverse:
            time = -time
            asking = places[::stride]
            seen = places >= asking[:, None]
        else:
            # A window may end in padding: the query is its last event.
            asking = lax.cummax(jnp.where(events, places, 0))[stride - 1 :: stride]
            seen = places <= asking[:, None]
        seen = seen & events & (sequence == sequence[asking, None])

        q, k, v = jnp.moveaxis(drive.reshape(len(drive), 3, self.kind.heads, -1), 1, 0)
        q, k = rotated(q[asking], time[asking], self.kind.base), rotated(k, time, self.kind.base)
        scores = jnp.einsum("mhd,lhd->hml", q, k) / math.sqrt(q.shape[2])
        # Not -inf: padding before the first event attends to nothing, which must not give NaN.
        weights = jax.nn.softmax(jnp.where(seen, scores, jnp.finfo(scores.dtype).min), axis=-1)
        return jnp.einsum("hml,lhd->mhd", weights, v).reshape(len(asking), -1)


def normalized(u: Float[Array, "L H"]) -> Float[Array, "L H"]:
    """Layer norm without scale and shift."""
    normalise, _ = LayerNorm(u.shape[1], u.dtype).prepare(u, None, None)
    return normalise(u)


def feed_forward(parameters: Parameters, x: Float[Array, "L H"], u: Float[Array, "L H"]) -> Float[Array, "L H"]:
    """What a transformer adds to its input, from the result x of attention and the normalized input u."""
    z = linear(parameters["W_o"], x)
    units = jax.nn.gelu(linear(parameters["W_1"], normalized(u + z)) + parameters["b_1"])
    return z + linear(parameters["W_2"], units) + parameters["b_2"]


def rotated(q: Float[Array, "L N d"], time: Float[Array, " L"], base: float) -> Float[Array, "L N d"]:
    """Rotate the pairs (q_i, q_{i+p}) by the angles time·base^(-i/p), for i below p = d/2."""
    half = q.shape[2] // 2
    angle = time[:, None, None] * jnp.asarray(base ** (-np.arange(half) / max(half, 1)), q.dtype)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    x, y, rest = q[..., :half], q[..., half : 2 * half], q[..., 2 * half :]
    return jnp.concatenate([x * cos - y * sin, x * sin + y * cos, rest], -1)


class TransformerModel(Architecture, name="transformer"):
    """Causal self-attention, for reference."""

    source = "Vaswani et al. 2017"
    family = "transformer"
    settings = layered(Transformer, gate=False)
