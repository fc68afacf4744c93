"""A transformer on binary frames of events.

Liu, Qi, Lam & Wong, Fast classification and action recognition with event-based imaging, IEEE Access 10, 2022, is the
paper's reference for BET. Its equations and code are not public, and the paper gives no number of parameters. This is
the nearest version that the description of the method as a dense one allows: binary frames of a fixed number of
events, attention between the patches of a frame, and attention between frames.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from s7.baselines.architecture import Architecture, layered
from s7.baselines.drawn_layer import check_sizes
from s7.baselines.frames import FrameKind
from s7.baselines.transformer import Transformer, feed_forward, normalized
from s7.contractions import linear
from s7.initialization import draw, split
from s7.settings import Table


@dataclass(frozen=True)
class BinaryPatches(FrameKind):
    """The mean over the patches of a binary frame, after attention between them:

        b = 1 in cells with an event, else 0        p_i = W_p (cells of patch i) + place_i        u = norm(p)
        x_i = Σ_j softmax_j(q_i·k_j / √d) v_j, (q, k, v) = W_qkv u, in each head        z = W_o x
        out = mean_i (p_i + z_i + W_2 gelu(W_1 norm(u_i + z_i) + b_1) + b_2)

    The transformer blocks that follow read one vector per frame; their positions are the times of the frames.

    Args:
        patch: The side of a patch, in cells.
        heads: The number of heads.
    """

    patch: int = 8
    heads: int = 4

    def __post_init__(self):
        super().__post_init__()
        check_sizes(self, "patch", "heads")

    @property
    def patches(self) -> tuple[int, int, int, int]:
        """Columns and rows of patches, and columns and rows of cells in a patch."""
        columns, rows, _ = self.grid
        wide, high = min(self.patch, columns), min(self.patch, rows)
        return -(-columns // wide), -(-rows // high), wide, high

    def init(self, width, state, *, key, dtype):
        """Draw all maps; biases are zero."""
        patch_key, attention_key = split(key, 2)
        columns, rows, wide, high = self.patches
        size = wide * high * self.grid[2]
        maps = {"W_p": ((width, size), 1 / math.sqrt(size)), "place": ((columns * rows, width), 0.02)}
        attention = Transformer(heads=self.heads).init(width, state, key=attention_key, dtype=dtype)
        return draw(maps, key=patch_key, dtype=dtype) | attention

    def cut(self, frames: Float[Array, "M X Y C"]) -> Float[Array, "M N S"]:
        """The cells of each patch. Frames are filled up to whole patches with empty cells."""
        columns, rows, wide, high = self.patches
        x, y, channels = self.grid
        frames = jnp.pad(frames, ((0, 0), (0, columns * wide - x), (0, rows * high - y), (0, 0)))
        cells = frames.reshape(-1, columns, wide, rows, high, channels)
        return jnp.swapaxes(cells, 2, 3).reshape(len(frames), columns * rows, -1)

    def features(self, parameters, frames):
        """The features of each frame."""
        patches = self.cut(jnp.minimum(frames, 1))
        p = linear(parameters["W_p"], patches.reshape(-1, patches.shape[2])).reshape(*patches.shape[:2], -1)
        p = p + parameters["place"]
        u = normalized(p.reshape(-1, p.shape[2]))
        qkv = linear(parameters["W_qkv"], u).reshape(*p.shape[:2], 3, self.heads, -1)
        q, k, v = jnp.moveaxis(qkv, 2, 0)
        weights = jax.nn.softmax(jnp.einsum("mihd,mjhd->mhij", q, k) / math.sqrt(q.shape[3]), axis=-1)
        x = jnp.einsum("mhij,mjhd->mihd", weights, v).reshape(u.shape)
        return (p + feed_forward(parameters, x, u).reshape(p.shape)).mean(1)


class Bet(Architecture, name="bet"):
    """Transformer on binary frames of events; the nearest version of a model without public equations."""

    source = "Liu et al. 2022"
    family = "transformer"
    settings: ClassVar[Table] = layered(
        Transformer,
        gate=False,
        encoder={"kind": "FrameEncoder", "layer": {"kind": "BinaryPatches"}},
        stages=[{"depth": 1, "stride": 128, "pool": "last"}, {"depth": 2}],
    )
