"""The backend "native": C++ kernels for the CPU, which also compute whole layers in one call."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from s7 import native
from s7.backend_selection import Backend
from s7.forms import Factored, Full
from s7.native import kernels
from s7.transitions import Stable

_GAINS = {None: 0, "rate": 1, "variance": 2}
_DIRECT = {"static": 0, "diagonal": 1, "full": 2}


class Native(Backend, name="native"):
    """C++ kernels: the fastest on a CPU."""

    has_gradient = True

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

    def layer(self, transition, form, rates, maps, u, dt, mask, reset, state, *, reverse):
        """In one call."""
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
