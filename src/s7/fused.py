"""What a backend may compute in one call: a layer, a block of one layer or two, over events, windows or tokens."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Inexact, Int

from s7.backend_selection import Backend, current_backend, find_backend
from s7.dropout import Dropout
from s7.forms import Form
from s7.initialization import Parameters
from s7.norm import Normalizer
from s7.pooling import Ends
from s7.sequence_parts import sequence_axis, state_before
from s7.signal import Rows
from s7.transitions import Transition


class Direction(NamedTuple):
    """A layer of a block: its parameters and what it reads besides the input.

    Attributes:
        rates, maps: The parameters of the transition and of the form.
        dt, mask, reset: As in `Timing`, in the order in which the layer reads the events.
        state: The state before the first event.
        product: Where a sequence is divided over devices, the product of the factors of the events here.
    """

    rates: Parameters
    maps: Parameters
    dt: Float[Array, " L"] | None
    mask: Bool[Array, " L"] | None
    reset: Bool[Array, " L"] | None
    state: Inexact[Array, " P"]
    product: Inexact[Array, " P"] | None = None


class Around(NamedTuple):
    """The parts of a block around its layers.

    Attributes:
        norm: The norm of the input.
        gate: W and c, or None.
        dropout: None outside of training.
        skip: Whether the input is added to the output.
        after: The norm after the skip. It is not an affine one.
        project: W and c of a linear map that follows, or None.
    """

    norm: Normalizer = Normalizer()
    gate: Parameters | None = None
    dropout: Dropout | None = None
    skip: bool = False
    after: Normalizer = Normalizer()
    project: Parameters | None = None


ALONE = Around()


def backend_for(length: int) -> Backend:
    """The current backend for this many steps."""
    return find_backend(current_backend(length))


def is_fused(transition: Transition, form: Form, length: int) -> bool:
    """Whether the current backend computes `length` steps of a layer with this transition and form in one call."""
    backend = backend_for(length)
    # The state before this device's events follows from the states of windows.
    is_known = sequence_axis() is None or backend.fuses_windows(transition)
    return is_known and backend.fuses(transition, form)


def run(
    transition: Transition,
    form: Form,
    u: Float[Array, "L H"],
    directions: Sequence[Direction],
    *,
    reverse: bool = False,
    around: Around = ALONE,
) -> tuple[Float[Array, "L N"], list[Inexact[Array, " P"]]]:
    """The outputs of a block and the final state of each of its layers; see `Backend.block`."""
    backend = backend_for(u.shape[0])
    if sequence_axis() is not None:
        directions = _after_other_parts(transition, form, around.norm(u), None, directions, reverse=reverse)
    return backend.block(transition, form, u, directions, reverse=reverse, around=around)


def run_windows(
    transition: Transition,
    form: Form,
    events: Float[Array, "L H"] | Rows,
    ends: Ends,
    directions: Sequence[Direction],
    *,
    around: Around,
) -> tuple[Float[Array, "M N"], list[Inexact[Array, " P"]]]:
    """As `run`, with one output per window of events or of rows of a table; see `Backend.window_block`."""
    table, token = events if isinstance(events, Rows) else (events, None)
    backend = backend_for(table.shape[0] if token is None else token.shape[0])
    if sequence_axis() is not None:
        directions = _after_other_parts(transition, form, around.norm(table), token, directions, reverse=False)
    return backend.window_block(transition, form, table, token, ends, directions, around=around)


def _after_other_parts(
    transition: Transition,
    form: Form,
    u: Float[Array, "R H"],
    token: Int[Array, " L"] | None,
    directions: Sequence[Direction],
    *,
    reverse: bool,
) -> list[Direction]:
    """The directions with the states before this part of the sequence."""
    u, found = lax.stop_gradient(u), []
    for n, one in enumerate(directions):
        drive = transition.raw(one.rates, u), form.drive(one.maps, u)
        events = (transition, one.rates, *drive, token, (one.dt, one.mask, one.reset))
        state, product = _state_before(*events, one.state, reverse=reverse != (n == 1))
        found.append(one._replace(state=state, product=product))
    return found


def _state_before(
    transition, rates, w, drive, token, timing, initial, *, reverse: bool
) -> tuple[Inexact[Array, " P"], Inexact[Array, " P"]]:
    """The state before this part of the sequence, and the product of the factors of its events."""
    length = (w if token is None else token).shape[0]

    def last(inputs: Array, start: Array) -> Array:
        # One window, so that no other state is stored.
        events = lax.stop_gradient((rates, w, inputs, token, *timing, start))
        return backend_for(length).window_states(transition, *events, stride=length, reverse=reverse)[0]

    zero = jnp.zeros_like(initial)
    product = last(jnp.zeros_like(drive), zero + 1)
    return state_before(last(drive, zero), product, initial, reverse=reverse), product


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
    product = None
    if sequence_axis() is not None:
        state, product = _state_before(transition, rates, w, drive, token, timing, state, reverse=reverse)
    events = (transition, rates, w, drive, token, *timing, state)
    return backend.window_states(*events, stride=stride, reverse=reverse, product=product)
