"""The S7 layer: a transition, a form and the recurrence between them.

x_k = a_k * x_{k-1} + g_k * (B_k u_k + b)            y_k = Re(C_k x_k) + D_k u_k        (equations 3 and 5)
"""

from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, ArrayLike, Bool, DTypeLike, Float, Inexact, PRNGKeyArray

from s7 import fused
from s7.forms import Form, Full
from s7.initialization import Parameters, constant, split
from s7.recurrence import over_windows, recurrence
from s7.sequence_layer import SequenceLayer, reverse_gaps
from s7.signal import REGULAR, Rows, Timing
from s7.transitions import Stable, Transition

_UNCHANGED: Any = object()


class Drive(NamedTuple):
    """What depends on single events: w_k, and the rows of B_k u_k + b as real numbers."""

    w: Float[Array, "L P"]
    input: Float[Array, "L S"]


class Matrices(NamedTuple):
    """The layer written out: x_k = transition_k * x_{k-1} + B_k u_k + b_k and y_k = Re(C_k x_k) + D_k u_k."""

    transition: Inexact[Array, "L P"]
    B: Inexact[Array, "L P H"]
    b: Inexact[Array, "L P"]
    C: Inexact[Array, "L H P"]
    D: Float[Array, "L H H"]


class S7Layer(SequenceLayer):
    """The S7 layer, on one sequence. Use `jax.vmap` for batches.

    The defaults differ from the printed equations in two places: D_k is diagonal, and the input has a gain. For the
    equations as printed, use `form=s7.Full(D="full")` and `gain=None`.

    Args:
        width: The number of features H of inputs and outputs.
        state: The number of states P.
        key: A JAX random key for the initial parameters.
        transition: How the state decays; by default `Stable()`.
        form: How inputs enter the state and outputs are read from it; by default `Full()`.
        blocks: The number J of blocks of states with the same initial spectrum. It divides `state`.
        dt: The gap to use in calls without gaps; None for regular time.
        gain: Replaces the gain of the transition, if given: "rate", "variance" or None.
        dtype: The type of parameters and states.

    Examples:
        >>> import jax, numpy as np, s7
        >>> layer = s7.S7Layer(width=4, state=8, key=jax.random.key(0))
        >>> outputs, state = layer(np.zeros((10, 4)), np.ones(10))
        >>> outputs.shape, state.shape
        ((10, 4), (8,))
    """

    rates: Parameters
    maps: Parameters
    width: int = eqx.field(static=True)
    state: int = eqx.field(static=True)
    transition: Transition = eqx.field(static=True)
    form: Form = eqx.field(static=True)
    dt: float | None = eqx.field(static=True)

    def __init__(
        self,
        width: int,
        state: int,
        *,
        key: PRNGKeyArray,
        transition: Transition | None = None,
        form: Form | None = None,
        blocks: int = 1,
        dt: float | None = None,
        gain: Any = _UNCHANGED,
        dtype: DTypeLike = jnp.float32,
    ):
        for name, size in (("width", width), ("state", state), ("blocks", blocks)):
            if size < 1:
                raise ValueError(f"S7Layer: {name}={size} must be at least 1")
        transition = Stable() if transition is None else transition
        if gain is not _UNCHANGED:
            if not hasattr(transition, "gain"):
                name = type(transition).__name__
                raise ValueError(f"S7Layer: {name} has an input gain of its own; gain= is for Stable and Plain")
            transition = replace(transition, gain=gain)  # type: ignore[call-arg]
        rates_key, maps_key = split(key, 2)
        self.width, self.state, self.dt = width, state, dt
        self.transition = transition
        self.form = Full() if form is None else form
        rows = 2 * state if transition.complex_state else state
        self.rates = transition.init(width, state, blocks, key=rates_key, dtype=dtype)
        self.maps = self.form.init(width, rows, key=maps_key, dtype=dtype)

    @property
    def dtype(self) -> jnp.dtype:
        """The type of parameters, states and outputs."""
        return self.maps["B"].dtype

    @property
    def groups(self) -> dict[str, str]:
        """The optimizer groups that the transition and the form declare for their parameters."""
        rates = {f"rates.{name}": group for name, group in self.transition.groups.items()}
        return rates | {f"maps.{name}": group for name, group in self.form.groups.items()}

    def init_state(self) -> Inexact[Array, " P"]:
        """The state before the first event."""
        zeros = constant(0, self.state, self.dtype)
        return lax.complex(zeros, zeros) if self.transition.complex_state else zeros

    def matrices(self, u: Float[ArrayLike, "L H"], dt: Float[ArrayLike, " L"] | None = None) -> Matrices:
        """The matrices at every event, with the gain included in B and b: L·H·P numbers, for inspection."""
        events, gaps, _, _ = self.validate(u, dt, None, None)
        a, gain = self.transition.factors(self.rates, self.transition.raw(self.rates, events), gaps)
        a, gain = (jnp.broadcast_to(q, (events.shape[0], self.state)) for q in (a, gain))
        B, b, C, D = self.form.matrices(self.maps, events)
        if self.transition.complex_state:
            P = self.state
            B, b = lax.complex(B[:, :P], B[:, P:]), lax.complex(b[:P], b[P:])
            # Re((c - id)(x + iy)) = cx + dy: the rows of C read the real and the imaginary parts.
            C = lax.complex(C[:, :, :P], -C[:, :, P:])
        return Matrices(a, gain[:, :, None] * B, gain * b, C, D)

    # The parts of a call.

    def apply(self, events, timing=REGULAR, state=None, *, ends=None, stride=1, reverse=False):
        """In one call of the backend where it has one, else from the parts."""
        length = events.token.shape[0] if isinstance(events, Rows) else events.shape[0]
        if stride == 1 and not isinstance(events, Rows) and fused.is_fused(self.transition, self.form, length):
            return self.run(events, timing, state, reverse=reverse)
        return super().apply(events, timing, state, ends=ends, stride=stride, reverse=reverse)

    def run(
        self, u: Float[Array, "L H"], timing: Timing, state: Inexact[Array, " P"] | None, *, reverse: bool = False
    ) -> tuple[Float[Array, "L H"], Inexact[Array, " P"]]:
        """The layer in one call of the backend."""
        direction = self.direction(timing, state, reverse=reverse)
        y, (final,) = fused.run(self.transition, self.form, u, [direction], reverse=reverse)
        return y, final

    def direction(self, timing: Timing, state: Inexact[Array, " P"] | None, *, reverse: bool) -> fused.Direction:
        """The layer as a part of a block that a backend computes in one call."""
        dt, mask, reset = timing
        if reverse:
            dt, reset = reverse_gaps(dt, mask, reset)
        initial = self.init_state() if state is None else state
        return fused.Direction(self.rates, self.maps, dt, mask, reset, initial)

    def token_states(self, rows: Rows, timing: Timing, state, *, stride: int, reverse: bool):
        """As `states`, from events that are rows of a table, which a backend may gather as it runs."""
        if fused.backend_for(rows.token.shape[0]).fuses_windows(self.transition):
            return self._window_states(self.drive(rows.table), rows.token, timing, state, stride, reverse)
        return super().token_states(rows, timing, state, stride=stride, reverse=reverse)

    def _window_states(self, drive: Drive, token, timing, state, stride: int, reverse: bool):
        dt, mask, reset = timing
        if reverse:
            dt, reset = reverse_gaps(dt, mask, reset)
        initial = self.init_state() if state is None else state

        events = (self.transition, self.rates, *drive, token, (dt, mask, reset))
        x = fused.window_states(*events, initial, stride=stride, reverse=reverse)
        return x, x[0 if reverse else -1]

    def drive(self, u: Float[Array, "L H"]) -> Drive:
        """Compute what depends on single events."""
        return Drive(self.transition.raw(self.rates, u), self.form.drive(self.maps, u))

    def states(
        self,
        drive: Drive,
        dt: Float[Array, " L"] | None = None,
        mask: Bool[Array, " L"] | None = None,
        reset: Bool[Array, " L"] | None = None,
        state: Inexact[Array, " P"] | None = None,
        *,
        stride: int = 1,
        reverse: bool = False,
    ) -> tuple[Inexact[Array, "M P"], Inexact[Array, " P"]]:
        """Compute the state at the end of each window of `stride` events, and the final state."""
        if stride > 1 and fused.backend_for(drive.w.shape[0]).fuses_windows(self.transition):
            return self._window_states(drive, None, Timing(dt, mask, reset), state, stride, reverse)
        if reverse:
            dt, reset = reverse_gaps(dt, mask, reset)
        a, gain = self.transition.factors(self.rates, drive.w, dt)
        v = self._to_state(drive.input) * gain
        if mask is not None:
            a = jnp.where(mask[:, None], a, 1)
            v = jnp.where(mask[:, None], v, 0)
        if reset is not None:
            a = jnp.where(reset[:, None], 0, a)
        if stride > 1:
            a, v = over_windows(a, v, stride, reverse=reverse)
        x = recurrence(a, v, self.init_state() if state is None else state, reverse=reverse)
        return x, x[0 if reverse else -1]

    def output(self, x: Inexact[Array, "L P"], u: Float[Array, "L H"]) -> Float[Array, "L H"]:
        """y_k = Re(C_k x_k) + D_k u_k."""
        rows = jnp.concatenate([x.real, x.imag], 1) if self.transition.complex_state else x
        return self.form.output(self.maps, rows, u)

    def _to_state(self, rows: Float[Array, "L S"]) -> Inexact[Array, "L P"]:
        if not self.transition.complex_state:
            return rows
        return lax.complex(rows[:, : self.state], rows[:, self.state :])
