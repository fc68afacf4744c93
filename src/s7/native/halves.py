"""The halves of a block as custom calls, for blocks whose halves run on different events.

`drive` runs on every event or on the rows of a table, `read` on the last event of every window. The order of the arrays
is that of ffi_halves.h. Arrays that a block does not have are left out.
"""

from collections.abc import Mapping, Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from s7.native.blocks import BlockOptions
from s7.native.calls import custom_call, differentiable

# The order of the weights of each layer, then of the block.
DRIVE_WEIGHTS = ("w", "W_w", "B", "b", "W_B", "V1", "V2", "V3")
READ_WEIGHTS = ("C", "D", "W_D", "W_C", "U1", "U2", "U3")
NORM_WEIGHTS = ("scale", "shift", "mean")
GATE_WEIGHTS = ("gate_W", "gate_c")


def _rows(options: BlockOptions) -> int:
    return 2 * options.state if options.oscillate else options.state


def _given(layers: Sequence[Mapping[str, Array]], names, around: Mapping[str, Array], more) -> list[Array]:
    """The weights that exist, in order."""
    return [layer[name] for layer in layers for name in names if name in layer] + [
        around[name] for name in more if name in around
    ]


# The first half ------------------------------------------------------------------------------------------------------


def _drive_shapes(u, *weights, options):
    n, length, _ = u.shape
    return [(n, length, options.state), (n, length, _rows(options))] * options.directions


def _drive_gradient_shapes(u, *arrays, options, groups):
    return [u.shape, *((groups, *weight.shape) for weight in arrays[2 * options.directions :])]


_drive = custom_call("s7_block_drive", slice(1, None), _drive_shapes)
_drive_gradient = custom_call(
    "s7_block_drive_gradient", lambda options: slice(1 + 2 * options.directions, None), _drive_gradient_shapes
)


def _drive_value(options, *arrays):
    return _drive(*arrays, options=options)


def _drive_back(options, saved, gradients):
    u, *weights = saved
    du, *found = _drive_gradient(u, *gradients, *weights, options=options, groups=1)
    return du, *(gradient[0] for gradient in found)


_differentiable_drive = differentiable(
    "s7_drive_half",
    slice(1, None),
    _drive_value,
    lambda options, *arrays: (_drive_value(options, *arrays), arrays),
    _drive_back,
)


def drive(
    u: Float[Array, "L H"],
    layers: Sequence[Mapping[str, Array]],
    around: Mapping[str, Array],
    options: BlockOptions,
) -> list[tuple[Float[Array, "L P"], Float[Array, "L S"]]]:
    """w_k and B_k u_k + b of each layer, where u is normalised first.

    Args:
        u: The inputs, or the rows of a table.
        layers: The weights of one layer or two.
        around: The weights of the block.
        options: The options, which say which arrays exist.
    """
    weights = _given(layers, DRIVE_WEIGHTS, around, NORM_WEIGHTS)
    found = [array[0] for array in _differentiable_drive(u[None], *weights, options=options)]
    return list(zip(found[::2], found[1::2], strict=True))


# The second half -----------------------------------------------------------------------------------------------------


def _read_data(options: BlockOptions) -> int:
    """The number of arrays before the weights: u, the states, the keys and what is added to the output."""
    return 1 + options.directions + (options.threshold > 0) + options.skip


def _read_gradient_shapes(u, *arrays, options, groups):
    states, weights = arrays[: options.directions], arrays[options.directions + (options.threshold > 0) + 1 :]
    return [u.shape, *(x.shape for x in states), *((groups, *weight.shape) for weight in weights)]


_read = custom_call(
    "s7_block_read", lambda options: slice(_read_data(options), None), lambda u, *arrays, options: [u.shape]
)
_read_gradient = custom_call(
    "s7_block_read_gradient",
    lambda options: slice(2 + options.directions + (options.threshold > 0), None),
    _read_gradient_shapes,
)


def _read_saved(options, *arrays):
    # The gradient does not depend on what is added.
    kept = [array for n, array in enumerate(arrays) if not (options.skip and n == _read_data(options) - 1)]
    return _read(*arrays, options=options), tuple(kept)


def _read_back(options, saved, gradients):
    first = _read_data(options) - options.skip
    data, weights = saved[:first], saved[first:]
    found = _read_gradient(*data, *gradients, *weights, options=options, groups=1)
    of_data = [*found[: 1 + options.directions], *([jnp.zeros_like(data[-1])] if options.threshold > 0 else [])]
    of_skip = gradients if options.skip else []
    return *of_data, *of_skip, *(gradient[0] for gradient in found[1 + options.directions :])


_differentiable_read = differentiable(
    "s7_read_half",
    lambda options: slice(_read_data(options), None),
    lambda options, *arrays: _read(*arrays, options=options),
    _read_saved,
    _read_back,
)


def read(
    u: Float[Array, "M H"],
    states: Sequence[Float[Array, "M S"]],
    skip: Float[Array, "M H"] | None,
    layers: Sequence[Mapping[str, Array]],
    around: Mapping[str, Array],
    options: BlockOptions,
    key: Float[Array, "4"] | None = None,
) -> Float[Array, "M H"]:
    """The output of a block from its states.

    Args:
        u: The inputs where the states are read.
        states: The states of each layer, as real numbers.
        skip: What is added to the output.
        layers: The weights of each layer.
        around: The weights of the block.
        options: The options, which say which arrays exist.
        key: The random bits of dropout, from `dropout.Dropout`.
    """
    data = [u, *states, *([] if key is None else [key]), *([] if skip is None else [skip])]
    weights = _given(layers, READ_WEIGHTS, around, (*NORM_WEIGHTS, *GATE_WEIGHTS))
    (out,) = _differentiable_read(*(array[None] for array in data), *weights, options=options)
    return out[0]
