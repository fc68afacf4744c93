"""The S7 layer as one would first write it: B_k, C_k and D_k over the whole sequence, and an associative scan.

The gradient is JAX's own, through all of it. This is what the library's layer is measured against.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from s7.forms import Full
from s7.layer import S7Layer
from s7.transitions import Stable

# Copies of B_k, C_k and D_k that forward and backward hold at once, roughly.
COPIES = 6


def call(layer: S7Layer, u: Float[Array, "L H"]) -> Float[Array, "L H"]:
    """The outputs of `layer`, in regular time, from its own parameters."""
    transition, form, rates, maps = layer.transition, layer.form, layer.rates, layer.maps
    if not (isinstance(transition, Stable) and transition.selective and not transition.oscillate):
        raise ValueError(f"materialised: a real, selective Stable is written out here, not {transition}")
    if not (isinstance(form, Full) and form.selective == "BC"):
        raise ValueError(f"materialised: Full with B and C selective is written out here, not {form}")
    w = rates["w"] + u @ rates["W_w"].T
    r = 1 / (transition.a * w * w + transition.b)
    gain = {None: jnp.ones_like(r), "rate": r, "variance": jnp.sqrt(r * (2 - r))}[transition.gain]
    B = maps["B"] + jnp.einsum("pij,lj->lpi", maps["W_B"], u)
    C = maps["C"] + jnp.einsum("hpj,lj->lhp", maps["W_C"], u)
    v = gain * (jnp.einsum("lpi,li->lp", B, u) + maps.get("b", 0))

    def compose(earlier, later):
        return later[0] * earlier[0], later[0] * earlier[1] + later[1]

    _, x = lax.associative_scan(compose, (1 - r, v))
    y = jnp.einsum("lhp,lp->lh", C, x)
    if form.D == "full":
        D = maps["D"] + jnp.einsum("hij,lj->lhi", maps["W_D"], u)
        return y + jnp.einsum("lhi,li->lh", D, u)
    D = maps["D"] + u @ maps["W_D"].T if form.D == "diagonal" else maps["D"]
    return y + D * u


def bytes_needed(steps: int, width: int, state: int, *, full_D: bool) -> int:
    """An estimate of the memory that forward and backward take over so many steps, in float32."""
    return steps * (2 * state * width + (width * width if full_D else 0)) * 4 * COPIES
