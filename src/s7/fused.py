"""A whole layer in one call, where the backend has one for its transition and form."""

from jaxtyping import Array, Bool, Float, Inexact

from s7.backend_selection import current_backend, find_backend
from s7.forms import Form
from s7.initialization import Parameters
from s7.transitions import Transition


def is_fused(transition: Transition, form: Form, length: int) -> bool:
    """Whether the current backend computes `length` steps of a layer with this transition and form in one call."""
    return find_backend(current_backend(length)).fuses(transition, form)


def run(
    transition: Transition,
    form: Form,
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
    backend = find_backend(current_backend(u.shape[0]))
    return backend.layer(transition, form, rates, maps, u, dt, mask, reset, state, reverse=reverse)
