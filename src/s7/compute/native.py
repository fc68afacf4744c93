"""The backend "native": C++ kernels for the CPU, which also compute whole layers in one call."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from s7 import native
from s7.backend_selection import Backend
from s7.forms import Factored, Full
from s7.fused import Around
from s7.native import kernels
from s7.transitions import Stable

_GAINS = {None: 0, "rate": 1, "variance": 2}
_DIRECT = {"static": 0, "diagonal": 1, "full": 2}
_NORMS = {"none": 0, "layer": 1, "rms": 2}


class Native(Backend, name="native"):
    """C++ kernels: the fastest on a CPU."""

    has_gradient = True
    has_gate = True
    has_blocks = True

    def unavailable_reason(self):
        """Why the kernels cannot be used here."""
        return "" if native.available() else native.unavailable_reason()

    def summary(self):
        """With the instructions that the kernels use."""
        return f"C++ kernels, {native.instruction_set()} instructions: the fastest on a CPU"

    def recurrence(self, a, v, initial, reverse):
        """In C++, with its own gradient."""
        return kernels.scan(a, v, initial, reverse)

    def fuses(self, transition, form):
        """`Stable` with a `Full` or a `Factored` form in which both B and C are selective."""
        has_form = type(form) in (Full, Factored) and form.selective == "BC"
        # Subclasses may compute something that the kernel does not.
        return type(transition) is Stable and has_form

    def layer(self, transition, form, rates, maps, u, dt, mask, reset, state, *, reverse, around=None):
        """In one call, with the block around it if asked for."""
        dtype, (rows, width) = maps["B"].dtype, maps["B"].shape
        states = rates["w"].shape[0]
        none = jnp.zeros(0, dtype)
        absent = {
            "W_w": jnp.zeros((states, width), dtype),
            "omega": none,
            "b": jnp.zeros(rows, dtype),
            "W_D": none,
            **dict.fromkeys(kernels.BLOCK_WEIGHTS, none),
        }
        around = around or Around("none", None, None, None, None, False)
        given = absent | rates | maps | _weights(around)
        rank = form.rank if isinstance(form, Factored) else 0
        names = kernels.LAYER_WEIGHTS + (kernels.FACTORED if rank else kernels.FULL) + kernels.BLOCK_WEIGHTS
        options = kernels.LayerOptions(
            oscillate=transition.oscillate,
            reverse=reverse,
            gain=_GAINS[transition.gain],
            direct=_DIRECT[form.D],
            rank=rank,
            a=transition.a,
            b=transition.b,
            norm=_NORMS[around.norm],
            gated=around.gate is not None,
            skip=around.skip,
            threshold=0 if around.dropout is None else around.dropout.threshold,
        )
        key = None if around.dropout is None else around.dropout.key
        weights = [given[name] for name in names]
        y, final = kernels.layer(u, dt, _marks(mask, reset, dtype), _as_rows(transition, state), weights, options, key)
        return y, _as_state(transition, final)

    def fuses_windows(self, transition):
        """`Stable`."""
        return type(transition) is Stable

    def window_states(self, transition, rates, w, drive, token, dt, mask, reset, state, *, stride, reverse):
        """In one call, which gathers the rows of tokens as it runs."""
        options = kernels.WindowOptions(
            oscillate=transition.oscillate,
            reverse=reverse,
            gain=_GAINS[transition.gain],
            stride=stride,
            a=transition.a,
            b=transition.b,
        )
        omega = rates["omega"] if transition.oscillate else jnp.zeros(0, w.dtype)
        index = None if token is None else token.astype(w.dtype)
        marks, initial = _marks(mask, reset, w.dtype), _as_rows(transition, state)
        return _as_state(transition, kernels.window_scan(w, drive, omega, index, dt, marks, initial, options))

    def gate(self, z, gate, dropout, skip):
        """In one call."""
        key, threshold = (None, 0) if dropout is None else dropout
        return kernels.gate(z, skip, gate["W"], gate["c"], key, threshold)


def _weights(around: Around) -> dict[str, Array]:
    gate = around.gate or {}
    found = {"scale": around.scale, "shift": around.shift, "gate_W": gate.get("W"), "gate_c": gate.get("c")}
    return {name: weight for name, weight in found.items() if weight is not None}


def _as_rows(transition: Stable, state: Array) -> Array:
    """A complex state as real rows: its real parts, then its imaginary parts."""
    return jnp.concatenate([state.real, state.imag], -1) if transition.oscillate else state


def _as_state(transition: Stable, rows: Array) -> Array:
    states = rows.shape[-1] // 2
    return lax.complex(rows[..., :states], rows[..., states:]) if transition.oscillate else rows


def _marks(mask: Array | None, reset: Array | None, dtype) -> Array | None:
    marks = [1 - mask.astype(dtype)] if mask is not None else []
    marks += [2 * reset.astype(dtype)] if reset is not None else []
    return sum(marks[1:], marks[0]) if marks else None
