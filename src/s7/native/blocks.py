"""The block as one custom call: norm, one layer or two in opposite directions, gate, dropout, skip, norm, projection.

The order of the arrays is that of ffi_block.h. Arrays that a block does not have are left out.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from s7.native.calls import custom_call, differentiable
from s7.native.parts import Divided, Link, divided

# The order of the weights: those of each layer, then those of the block.
LAYER_WEIGHTS = (
    *("w", "W_w", "omega", "decay"),
    *("B", "b", "C", "D", "W_D"),
    *("W_B", "W_C", "V1", "V2", "V3", "U1", "U2", "U3"),
)
BLOCK_WEIGHTS = (
    *("scale", "shift", "mean", "gate_W", "gate_c"),
    *("after_scale", "after_shift", "project_W", "project_c"),
)


class BlockOptions(NamedTuple):
    """Options of the block. The numbers are those of the enumerations in kernels.h."""

    state: int
    oscillate: bool
    counting: bool  # whether every second state counts events
    reverse: bool  # of the first layer; the second runs the other way
    transition: int  # 0 Stable, 1 Plain, 2 Ring, 3 Step, 4 held Step
    gain: int  # 0 none, 1 rate, 2 variance
    a: float
    b: float
    direct: int  # D: 0 static, 1 diagonal, 2 full
    rank: int  # of the factored form; 0 is the full one
    selective: bool  # whether there is W_w
    selective_input: bool  # whether there is W_B
    selective_output: bool  # whether there is W_C
    bias: bool
    directions: int
    timed: bool
    marked: bool
    norm: int = 0  # 0 none, 1 layer, 2 RMS, 3 affine
    gated: bool = False
    skip: bool = False
    threshold: int = 0  # of dropout, in units of 1/65536
    after: int = 0  # the norm after the skip: 0 none, 1 layer, 2 RMS
    out: int = 0  # the width of the projection; 0: there is none

    @property
    def data(self) -> list[str]:
        """The arrays before the weights, in order."""
        of_layer = ["dt"] * self.timed + ["marks"] * self.marked + ["initial"]
        return ["u", *of_layer * self.directions, *["keys"] * (self.threshold > 0)]

    @property
    def rows(self) -> int:
        """The size of a state in real numbers."""
        return 2 * self.state if self.oscillate else self.state

    @property
    def saved(self) -> int:
        """The number of arrays that a layer saves for its gradient: x, input and w_k."""
        return 3 if self.selective else 2

    @property
    def keeps_z(self) -> bool:
        """Whether z is saved too: with a full output map it is expensive to compute again for what follows it."""
        followed = self.gated or self.threshold > 0 or self.after > 0 or self.out > 0
        return followed and self.selective_output and self.rank == 0


class Direction(NamedTuple):
    """The data of a layer besides u.

    Attributes:
        dt: The gaps, or None in regular time.
        marks: 1 where there is no event, plus 2 where a new sequence starts; None without either.
        initial: The state before the first event, as real numbers.
        weights: Those of `LAYER_WEIGHTS` that exist.
    """

    dt: Float[Array, " L"] | None
    marks: Float[Array, " L"] | None
    initial: Float[Array, " S"]
    weights: Mapping[str, Array]


def _shapes(u, *arrays, options, save):
    n, length, width = u.shape
    kept = [options.rows, options.rows, options.state][: options.saved] if save else [options.rows]
    of_layers = [(n, length, size) for size in kept * options.directions]
    return [(n, length, options.out or width), *of_layers, *[u.shape] * (save and options.keeps_z)]


def _weights(options) -> slice:
    return slice(len(options.data), None)


def _weights_of_gradient(options) -> slice:
    # The saved arrays and the gradients of y and the final states come between the data and the weights.
    return slice(len(options.data) + options.directions * (options.saved + 1) + options.keeps_z + 1, None)


def _gradient_shapes(*arrays, options, groups):
    of_data = [array.shape for name, array in zip(options.data, arrays, strict=False) if name not in ("marks", "keys")]
    return [*of_data, *((groups, *weight.shape) for weight in arrays[_weights_of_gradient(options)])]


_call = custom_call("s7_block", _weights, _shapes)
_gradient_call = custom_call("s7_block_gradient", _weights_of_gradient, _gradient_shapes)


def final_state(options: BlockOptions, d: int, x: Float[Array, "N L S"]) -> Float[Array, "N S"]:
    """The state of layer d after its last event."""
    return x[:, 0 if options.reverse != (d == 1) else -1]


def _value(options, *arrays):
    y, *states = _call(*arrays, options=options, save=False)
    return [y, *(final_state(options, d, x) for d, x in enumerate(states))]


def _value_and_saved(options, *arrays):
    y, *saved = _call(*arrays, options=options, save=True)
    states = saved[: options.directions * options.saved : options.saved]
    return [y, *(final_state(options, d, x) for d, x in enumerate(states))], (arrays, saved)


def _gradient(options, residuals, gradients):
    arrays, saved = residuals
    data, weights = arrays[: len(options.data)], arrays[_weights(options)]
    found = iter(_gradient_call(*data, *saved, *gradients, *weights, options=options, groups=1))
    of_data = [
        jnp.zeros_like(array) if name in ("marks", "keys") else next(found)
        for name, array in zip(options.data, data, strict=True)
    ]
    return *of_data, *(gradient[0] for gradient in found)


def links(options: BlockOptions) -> list[Link]:
    """The layers of the block, for a part of a divided sequence."""
    places = [place for place, name in enumerate(options.data) if name == "initial"]
    return [Link(place, options.reverse != (d == 1)) for d, place in enumerate(places)]


def add_finals(options, gradients, finals):
    """Add the gradients of the last states to those of the results."""
    y, *of_finals = gradients
    return [y, *(known + more for known, more in zip(of_finals, finals, strict=True))]


_block = differentiable("s7_fused_block", _weights, _value, _value_and_saved, _gradient)
_block_part = divided(
    "s7_fused_block_part", _weights, _value, _value_and_saved, _gradient, links=links, add_finals=add_finals
)


def data_of(layers: Sequence[Direction], key: Float[Array, "4"] | None) -> list[Array]:
    """The arrays between u and the weights."""
    of_layers = [array for layer in layers for array in (layer.dt, layer.marks, layer.initial) if array is not None]
    return of_layers if key is None else [*of_layers, key]


def weights_of(layers: Sequence[Direction], weights: Mapping[str, Array]) -> list[Array]:
    """The weights that exist, in order."""
    of_layers = [layer.weights[name] for layer in layers for name in LAYER_WEIGHTS if name in layer.weights]
    return of_layers + [weights[name] for name in BLOCK_WEIGHTS if name in weights]


def block(
    u: Float[Array, "L H"],
    layers: Sequence[Direction],
    weights: Mapping[str, Array],
    options: BlockOptions,
    key: Float[Array, "4"] | None = None,
    *,
    axis: str | None = None,
    products: Sequence[Float[Array, " S"]] = (),
) -> tuple[Float[Array, "L N"], list[Float[Array, " S"]]]:
    """Run the block.

    Args:
        u: The inputs.
        layers: One layer, or two that read the events in opposite orders.
        weights: Those of `BLOCK_WEIGHTS` that exist.
        options: The options, which say which arrays exist.
        key: The random bits of dropout, from `dropout.Dropout`.
        axis: The mesh axis over which the sequence is divided; None if it is not.
        products: With an axis, the products of the factors of each layer.

    Returns:
        The outputs, and the final state of each layer as real numbers.
    """
    data = [array[None] for array in (*products, u, *data_of(layers, key))]
    given = weights_of(layers, weights)
    if axis is None:
        y, *finals = _block(*data, *given, options=options)
    else:
        y, *finals = _block_part(*data, *given, options=Divided(options, axis))
    return y[0], [final[0] for final in finals]
