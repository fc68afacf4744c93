"""The backend "native": C++ kernels for the CPU, which also compute whole blocks in one call."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from s7 import native
from s7.backend_selection import Backend
from s7.forms import Factored, Full, Static
from s7.fused import Around, Direction
from s7.native import blocks, kernels, window_blocks
from s7.sequence_parts import sequence_axis
from s7.transitions import Plain, Ring, Stable, Step, Transition

# The numbers of the enumerations in kernels.h.
_TRANSITIONS: dict[type, int] = {Stable: 0, Plain: 1, Ring: 2, Step: 3}  # 4 is Step with held inputs
_GAINS: dict[str | None, int] = {None: 0, "rate": 1, "variance": 2}
_DIRECT = {"static": 0, "diagonal": 1, "full": 2}
_NORMS = {"none": 0, "layer": 1, "rms": 2, "affine": 3}


class Native(Backend, name="native"):
    """C++ kernels: the fastest on a CPU."""

    has_gradient = True
    has_gate = True
    has_pooling = True

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
        """All transitions and forms of this package."""
        # Subclasses may compute something that the kernel does not.
        return type(transition) in _TRANSITIONS and type(form) in (Full, Factored, Static)

    def block(self, transition, form, u, directions, *, reverse, around):
        """In one call."""
        layers = [_layer(transition, direction) for direction in directions]
        options = _options(transition, form, layers, around)._replace(reverse=reverse)
        given = (u, layers, _block_weights(around), options, _key(around))
        y, finals = blocks.block(*given, axis=sequence_axis(), products=_products(transition, directions))
        return y, [_as_state(transition, final) for final in finals]

    def window_block(self, transition, form, values, token, ends, directions, *, around):
        """In one call."""
        layers = [_layer(transition, direction) for direction in directions]
        options = _options(transition, form, layers, around)
        as_numbers = [None if q is None else q.astype(values.dtype) for q in (token, ends.last)]
        read = window_blocks.Windows(values, as_numbers[0], ends.stride)
        if ends.pooled is not None:
            last, skip = ends.pooled
            read = read._replace(ends=last, skip=skip if around.skip else None)
        else:
            read = read._replace(share=ends.share if around.skip else None, last=as_numbers[1])
        given = (read, layers, _block_weights(around), options, _key(around))
        y, finals = window_blocks.window_block(*given, axis=sequence_axis(), products=_products(transition, directions))
        return y, [_as_state(transition, final) for final in finals]

    def fuses_windows(self, transition):
        """All transitions of this package."""
        return type(transition) in _TRANSITIONS

    def window_states(
        self, transition, rates, w, drive, token, dt, mask, reset, state, *, stride, reverse, product=None
    ):
        """In one call, which gathers the rows of tokens as it runs."""
        kind = _transition_options(transition)
        del kind["selective"]
        options = kernels.WindowOptions(**kind, reverse=reverse, stride=stride)
        omega, decay = rates.get("omega", jnp.zeros(0, w.dtype)), rates.get("decay")
        index = None if token is None else token.astype(w.dtype)
        marks, initial = _marks(mask, reset, w.dtype), _as_rows(transition, state)
        axis = None if product is None else sequence_axis()
        product = None if product is None else _as_rows(transition, product)
        given = (w, drive, omega, decay, index, dt, marks, initial, options)
        return _as_state(transition, kernels.window_scan(*given, axis=axis, product=product))

    def pool(self, values, token, share, last, stride):
        """In one call, which gathers the rows of tokens as it runs."""
        token, last = (None if q is None else q.astype(values.dtype) for q in (token, last))
        return kernels.pool_rows(values, token, share, last, stride)

    def gate(self, z, gate, dropout, skip):
        """In one call."""
        key, threshold = (None, 0) if dropout is None else dropout
        return kernels.gate(z, skip, gate["W"], gate["c"], key, threshold)


def _options(
    transition: Transition, form: Any, layers: Sequence[blocks.Direction], around: Around
) -> blocks.BlockOptions:
    weights = layers[0].weights
    return blocks.BlockOptions(
        **_transition_options(transition),
        state=weights["w"].shape[0],
        reverse=False,
        direct=_DIRECT[form.D],
        rank=form.rank if isinstance(form, Factored) else 0,
        selective_input="V1" in weights or "W_B" in weights,
        selective_output="U1" in weights or "W_C" in weights,
        bias=form.bias,
        directions=len(layers),
        timed=layers[0].dt is not None,
        marked=layers[0].marks is not None,
        norm=_NORMS[around.norm.kind],
        gated=around.gate is not None,
        skip=around.skip,
        threshold=0 if around.dropout is None else around.dropout.threshold,
        after=_NORMS[around.after.kind],
        out=0 if around.project is None else around.project["c"].shape[0],
    )


def _key(around: Around) -> Array | None:
    return None if around.dropout is None else around.dropout.key


def _transition_options(transition: Transition) -> dict[str, Any]:
    kind = _TRANSITIONS[type(transition)] + (isinstance(transition, Step) and transition.held)
    gain = "variance" if isinstance(transition, Ring) else getattr(transition, "gain", None)
    a, b = (transition.a, transition.b) if isinstance(transition, Stable) else (0.0, 0.0)
    common = {"oscillate": transition.complex_state, "selective": transition.selective, "counting": transition.counting}
    return common | {"transition": kind, "gain": _GAINS[gain], "a": a, "b": b}


def _layer(transition: Transition, direction: Direction) -> blocks.Direction:
    rates, maps, dt, mask, reset, state, _ = direction
    marks = _marks(mask, reset, maps["B"].dtype)
    return blocks.Direction(dt, marks, _as_rows(transition, state), rates | maps)


def _products(transition: Transition, directions: Sequence[Direction]) -> list[Array]:
    """The products of the factors of each layer, where the sequence is divided over devices."""
    return [_as_rows(transition, one.product) for one in directions if one.product is not None]


def _block_weights(around: Around) -> dict[str, Array]:
    parts = {"gate": around.gate, "after": around.after.weights, "project": around.project}
    return dict(around.norm.weights) | {
        f"{part}_{name}": weight for part, weights in parts.items() for name, weight in (weights or {}).items()
    }


def _as_rows(transition: Transition, state: Array) -> Array:
    """A complex state as real rows: its real parts, then its imaginary parts."""
    return jnp.concatenate([state.real, state.imag], -1) if transition.complex_state else state


def _as_state(transition: Transition, rows: Array) -> Array:
    states = rows.shape[-1] // 2
    return lax.complex(rows[..., :states], rows[..., states:]) if transition.complex_state else rows


def _marks(mask: Array | None, reset: Array | None, dtype) -> Array | None:
    marks = [1 - mask.astype(dtype)] if mask is not None else []
    marks += [2 * reset.astype(dtype)] if reset is not None else []
    return sum(marks[1:], marks[0]) if marks else None
