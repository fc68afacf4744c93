"""The end of a block: gate, dropout and skip, and the norm and projection that can follow.

y = u + dropout(z * sigmoid(W gelu(z) + c))        out = P norm(y) + d
"""

import jax
from jaxtyping import Array, Float

from s7.backend_selection import current_backend, find_backend
from s7.contractions import linear
from s7.dropout import Dropout
from s7.initialization import Parameters
from s7.norm import Normalizer


def end_block(
    z: Float[Array, "L H"], gate: Parameters | None, dropout: Dropout | None, skip: Float[Array, "L H"] | None
) -> Float[Array, "L H"]:
    """Apply gate, dropout and skip to the output of a layer.

    Args:
        z: The output of the layer.
        gate: W (H, H) and c (H,); None for a block without a gate.
        dropout: None outside of training.
        skip: What is added; None for a block without a skip.
    """
    backend = find_backend(current_backend(z.shape[0]))
    if gate is not None and backend.has_gate:
        return backend.gate(z, gate, dropout, skip)
    if gate is not None:
        z = _gated(gate, z)
    if dropout is not None:
        z = z * dropout.keep(*z.shape)
    return z if skip is None else skip + z


def tail(
    y: Float[Array, "L H"], norm: Normalizer, project: Parameters | None
) -> Float[Array, "L H"] | Float[Array, "L N"]:
    """Apply the norm after the skip, and the projection (W and c) if there is one."""
    y = norm(y)
    return y if project is None else linear(project["W"], y) + project["c"]


@jax.checkpoint  # recomputed in the gradient: the intermediate values take more memory than the rest of a block
def _gated(gate: Parameters, z: Array) -> Array:
    return z * jax.nn.sigmoid(linear(gate["W"], jax.nn.gelu(z)) + gate["c"])
