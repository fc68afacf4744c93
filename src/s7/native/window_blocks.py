"""The block over windows of events or tokens as one custom call.

What depends on single events is computed once per event or once per row of a table, and everything after the states
once per window. The order of the arrays is that of ffi_window_block.h. Arrays that a block does not have are left out.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from s7.native.blocks import BlockOptions, Direction, add_finals, data_of, final_state, links, weights_of
from s7.native.calls import custom_call, differentiable
from s7.native.parts import Divided, divided


class WindowBlockOptions(NamedTuple):
    """The options of a block, and which arrays of `Windows` exist."""

    block: BlockOptions
    stride: int
    tokens: bool
    ends: bool
    added: bool  # whether there is `skip`
    last: bool
    share: bool

    @property
    def oscillate(self) -> bool:
        """Whether the states are complex."""
        return self.block.oscillate

    @property
    def reverse(self) -> bool:
        """Whether the first layer reads the events from the last to the first."""
        return self.block.reverse

    @property
    def data(self) -> list[str]:
        """The arrays before the weights, in order."""
        given = {"ends": self.ends, "skip": self.added, "last": self.last, "share": self.share}
        events = "token" if self.tokens else "values"
        return [events, *(name for name, present in given.items() if present), *self.block.data[1:]]


class Windows(NamedTuple):
    """Events and what is read at the ends of their windows.

    Attributes:
        values: The value of each event or, with tokens, the table.
        token: The row of each event.
        stride: The number of events in a window. It divides L.
        share: The weight of each event in the mean of its window, which the skip adds. Without it, the skip adds the
            last value.
        last: The position of the last event in its window; None if all windows are full.
        ends, skip: The last values and what the skip adds, if they are not those of the events.
    """

    values: Float[Array, "R H"]
    token: Float[Array, " L"] | None
    stride: int
    share: Float[Array, " L"] | None = None
    last: Float[Array, " M"] | None = None
    ends: Float[Array, "M H"] | None = None
    skip: Float[Array, "M H"] | None = None


# The gradients of these are zero.
_CONSTANT = ("token", "last", "marks", "keys")


def _weights(options) -> slice:
    return slice(len(options.data), None)


def _weights_of_gradient(options) -> slice:
    # The saved arrays and the gradients of y and the final states come between the data and the weights.
    return slice(len(options.data) + 4 * options.block.directions + 1, None)


def _shapes(events, *arrays, options, groups, save):
    n, length = events.shape[:2]
    first_weight = arrays[len(options.data) - 1]
    width = first_weight.shape[1] if options.tokens else events.shape[2]
    windows, rows, state = length // options.stride, options.block.rows, options.block.state
    driven = (groups, first_weight.shape[0]) if options.tokens else (n, length)
    of_layer = [(n, windows, rows), *([(*driven, state), (*driven, rows)] if save else [])]
    return [(n, windows, options.block.out or width), *of_layer * options.block.directions]


def _gradient_shapes(*arrays, options, groups, needed):
    # Gradients of gaps and shares that are not needed are empty.
    of_data = [
        (array.shape[0], 0) if name in ("dt", "share") and name not in needed else array.shape
        for name, array in zip(options.data, arrays, strict=False)
        if name not in _CONSTANT
    ]
    return [*of_data, *((groups, *weight.shape) for weight in arrays[_weights_of_gradient(options)])]


_call = custom_call("s7_window_block", _weights, _shapes)
_gradient_call = custom_call("s7_window_block_gradient", _weights_of_gradient, _gradient_shapes)


def _value(options, *arrays):
    y, *states = _call(*arrays, options=options, groups=1, save=False)
    return [y, *(final_state(options.block, d, x) for d, x in enumerate(states))]


def _value_and_saved(options, *arrays):
    y, *saved = _call(*arrays, options=options, groups=1, save=True)
    return [y, *(final_state(options.block, d, x) for d, x in enumerate(saved[::3]))], (arrays, saved)


def _gradient(options, residuals, gradients, needed):
    arrays, saved = residuals
    data, weights = arrays[: len(options.data)], arrays[_weights(options)]
    names = frozenset(name for name, asked in zip(options.data, needed, strict=False) if asked)
    found = iter(
        _gradient_call(*data, *saved, *gradients, *weights, options=options, groups=1, needed=tuple(sorted(names)))
    )
    of_data = []
    for name, array in zip(options.data, data, strict=True):
        gradient = None if name in _CONSTANT else next(found)
        of_data.append(jnp.zeros_like(array) if gradient is None or gradient.shape != array.shape else gradient)
    return *of_data, *(gradient[0] for gradient in found)


_parts = (_weights, _value, _value_and_saved, _gradient)
_block = differentiable("s7_fused_window_block", *_parts, selective=True)
_block_part = divided("s7_fused_window_block_part", *_parts, links=links, add_finals=add_finals, selective=True)


def window_block(
    windows: Windows,
    layers: Sequence[Direction],
    weights: Mapping[str, Array],
    options: BlockOptions,
    key: Float[Array, "4"] | None = None,
    *,
    axis: str | None = None,
    products: Sequence[Float[Array, " S"]] = (),
) -> tuple[Float[Array, "M N"], list[Float[Array, " S"]]]:
    """Run the block; as `blocks.block`, with one output per window."""
    values, token, stride, share, last, ends, skip = windows
    present = {"ends": ends, "added": skip, "last": last, "share": share}
    chosen = WindowBlockOptions(options, stride, token is not None, **{n: q is not None for n, q in present.items()})
    events = values if token is None else token
    data = [*products, events, *(q for q in (ends, skip, last, share) if q is not None), *data_of(layers, key)]
    given = [*([] if token is None else [values]), *weights_of(layers, weights)]
    data = [array[None] for array in data]
    if axis is None:
        y, *finals = _block(*data, *given, options=chosen)
    else:
        y, *finals = _block_part(*data, *given, options=Divided(chosen, axis))
    return y[0], [final[0] for final in finals]
