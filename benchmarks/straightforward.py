"""The S7 layer as one would first write it: B_k and C_k over the whole sequence, and an associative scan.

The gradient is JAX's own, through all of it. This is what the library's layer is measured against.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from s7 import S7Layer


def call(layer: S7Layer, u: Float[Array, "L H"]) -> Float[Array, "L H"]:
    """The outputs of `layer`, in regular time, from its own parameters."""
    rates, maps = layer.rates, layer.maps
    w = rates["w"] + u @ rates["W_w"].T
    r = 1 / (w * w + 0.5)
    B = maps["B"] + jnp.einsum("pij,lj->lpi", maps["W_B"], u)
    C = maps["C"] + jnp.einsum("hpj,lj->lhp", maps["W_C"], u)
    D = maps["D"] + u @ maps["W_D"].T
    v = r * (jnp.einsum("lpi,li->lp", B, u) + maps["b"])

    def compose(earlier, later):
        return later[0] * earlier[0], later[0] * earlier[1] + later[1]

    _, x = lax.associative_scan(compose, (1 - r, v))
    return jnp.einsum("lhp,lp->lh", C, x) + D * u
