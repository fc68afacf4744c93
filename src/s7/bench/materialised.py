"""The S7 layer written directly: B_k, C_k and D_k materialised over the whole sequence, and an associative scan.

JAX differentiates it automatically. The library's layer is measured against it.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from s7.forms import Full
from s7.layer import S7Layer
from s7.transitions import Stable

# Approximate number of copies of B_k, C_k and D_k in memory during forward and backward.
COPIES = 6


def call(layer: S7Layer, u: Float[Array, "L H"]) -> Float[Array, "L H"]:
    """Return the outputs of `layer` in regular time, computed from its parameters."""
    transition, form, rates, maps = layer.transition, layer.form, layer.rates, layer.maps
    if not (isinstance(transition, Stable) and transition.selective and not transition.oscillate):
        raise ValueError(f"materialised: only a real, selective Stable transition is supported, not {transition}")
    if not (isinstance(form, Full) and form.selective == "BC"):
        raise ValueError(f"materialised: only Full with selective B and C is supported, not {form}")
    a, gain = transition.discretize(rates, transition.raw(rates, u), None)
    B = maps["B"] + jnp.einsum("pij,lj->lpi", maps["W_B"], u)
    C = maps["C"] + jnp.einsum("hpj,lj->lhp", maps["W_C"], u)
    v = gain * (jnp.einsum("lpi,li->lp", B, u) + maps.get("b", 0))

    def compose(earlier, later):
        return later[0] * earlier[0], later[0] * earlier[1] + later[1]

    _, x = lax.associative_scan(compose, (a, v))
    y = jnp.einsum("lhp,lp->lh", C, x)
    if form.D == "full":
        D = maps["D"] + jnp.einsum("hij,lj->lhi", maps["W_D"], u)
        return y + jnp.einsum("lhi,li->lh", D, u)
    D = maps["D"] + u @ maps["W_D"].T if form.D == "diagonal" else maps["D"]
    return y + D * u


def bytes_needed(steps: int, width: int, state: int, *, full_D: bool) -> int:
    """Estimate the memory of forward and backward over `steps` steps, in float32."""
    return steps * (2 * state * width + (width * width if full_D else 0)) * 4 * COPIES
