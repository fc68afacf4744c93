"""The layer in one native call, for what has one: `Stable` with `Full` or `Factored`."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Inexact

from s7.backend_selection import current_backend
from s7.forms import Factored, Form, Full
from s7.initialization import Parameters
from s7.native import kernels
from s7.transitions import Stable, Transition

_GAINS = {None: 0, "rate": 1, "variance": 2}
_DIRECT = {"static": 0, "diagonal": 1, "full": 2}


def is_fused(transition: Transition, form: Form, length: int) -> bool:
    """Whether `length` steps of a layer with this transition and form are one native call."""
    has_form = isinstance(form, Full | Factored) and form.selective == "BC"
    # Not one made from it, whose rate the kernel would not know.
    return type(transition) is Stable and has_form and current_backend(length) == "native"


def run(
    transition: Stable,
    form: Full | Factored,
    rates: Parameters,
    maps: Parameters,
    u: Float[Array, "L H"],
    dt: Float[Array, " L"] | None,
    mask: Bool[Array, " L"] | None,
    reset: Bool[Array, " L"] | None,
    state: Inexact[Array, " P"],
    *,
    reverse: bool,
) -> tuple[Float[Array, "L H"], Inexact[Array, " P"]]:
    """The outputs and the final state."""
    dtype, (rows, width) = maps["B"].dtype, maps["B"].shape
    states = rates["w"].shape[0]
    none = jnp.zeros(0, dtype)
    absent = {
        "W_w": jnp.zeros((states, width), dtype),
        "omega": none,
        "b": jnp.zeros(rows, dtype),
        "W_D": none,
    }
    given = absent | rates | maps
    rank = form.rank if isinstance(form, Factored) else 0
    weights = [given[name] for name in kernels.LAYER_WEIGHTS + (kernels.FACTORED if rank else kernels.FULL)]
    options = kernels.LayerOptions(
        oscillate=transition.oscillate,
        reverse=reverse,
        gain=_GAINS[transition.gain],
        direct=_DIRECT[form.D],
        rank=rank,
        a=transition.a,
        b=transition.b,
    )
    initial = jnp.concatenate([state.real, state.imag]) if transition.oscillate else state
    y, final = kernels.layer(u, dt, _marks(mask, reset, dtype), initial, weights, options)
    return y, lax.complex(final[:states], final[states:]) if transition.oscillate else final


def _marks(mask: Array | None, reset: Array | None, dtype) -> Array | None:
    marks = [1 - mask.astype(dtype)] if mask is not None else []
    marks += [2 * reset.astype(dtype)] if reset is not None else []
    return sum(marks[1:], marks[0]) if marks else None
