"""What a backend may compute in one call: a layer, a layer with the block around it, the states of windows."""

from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float, Inexact, Int

from s7.backend_selection import Backend, current_backend, find_backend
from s7.dropout import Dropout
from s7.forms import Form
from s7.initialization import Parameters
from s7.transitions import Transition


class Around(NamedTuple):
    """The parts of a block around its layer.

    Attributes:
        norm: "layer", "rms" or "none": the norm of the input.
        scale, shift: The norm's parameters, None where it has none.
        gate: W and c, or None.
        dropout: None outside of training.
        skip: Whether the input is added to the output.
    """

    norm: str
    scale: Float[Array, " H"] | None
    shift: Float[Array, " H"] | None
    gate: Parameters | None
    dropout: Dropout | None
    skip: bool


def backend_for(length: int) -> Backend:
    """The current backend for this many steps."""
    return find_backend(current_backend(length))


def is_fused(transition: Transition, form: Form, length: int) -> bool:
    """Whether the current backend computes `length` steps of a layer with this transition and form in one call."""
    return backend_for(length).fuses(transition, form)


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
    around: Around | None = None,
) -> tuple[Float[Array, "L H"], Inexact[Array, " P"]]:
    """The outputs and the final state of a layer, or with `around` of the block."""
    call: Any = backend_for(u.shape[0]).layer
    more = {} if around is None else {"around": around}
    return call(transition, form, rates, maps, u, dt, mask, reset, state, reverse=reverse, **more)


def window_states(
    transition: Transition,
    rates: Parameters,
    w: Float[Array, "R P"],
    drive: Float[Array, "R S"],
    token: Int[Array, " L"] | None,
    timing: tuple[Float[Array, " L"] | None, Bool[Array, " L"] | None, Bool[Array, " L"] | None],
    state: Inexact[Array, " P"],
    *,
    stride: int,
    reverse: bool,
) -> Inexact[Array, "M P"]:
    """The states at the ends of windows; see `Backend.window_states`."""
    backend = backend_for(w.shape[0] if token is None else token.shape[0])
    return backend.window_states(transition, rates, w, drive, token, *timing, state, stride=stride, reverse=reverse)
