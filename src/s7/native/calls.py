"""Custom calls as JAX functions that work under jit, grad, vmap, scan and checkpoint. Their gradients are custom calls.

A call works on a batch: its data arguments share a leading batch axis, its weights have none. `jax.vmap` over the data
extends that axis, so a batch is always one call. grad and vmap can be combined in either order: the gradient of a
batched call sums the gradients of the weights inside the kernel, and a batched gradient keeps one sum per example, in
`groups`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

from s7.arrays import as_jax

# Which arguments of a call are weights; it may depend on the options.
Weights = slice | Callable[[Any], slice]


def custom_call(
    target: str, weights: Weights, shapes: Callable[..., list[tuple[int, ...]]]
) -> Callable[..., list[Array]]:
    """Make a function call(*arrays, options, **sizes) that calls `target` of the library.

    Args:
        target: The name of the call.
        weights: Which arguments are weights.
        shapes: A function shapes(*arrays, options, **sizes) that returns the shapes of the results. Their type is that
            of the first argument.

    The function passes the fields of `options`, a NamedTuple, to the kernel. Fields of a field that is a NamedTuple are
    passed like its own.
    """

    def run(*arrays, options, **sizes):
        results = [jax.ShapeDtypeStruct(shape, arrays[0].dtype) for shape in shapes(*arrays, options=options, **sizes)]
        return jax.ffi.ffi_call(target, results)(*arrays, **_attributes(options))

    def second_derivative(primals, tangents, **parameters):
        raise NotImplementedError(
            f"{target}: the native kernels have no second derivatives; take them under s7.backend('xla')"
        )

    return _primitive(target, weights, run, second_derivative).bind


def differentiable(
    name: str,
    weights: Weights,
    value: Callable[..., Sequence[Array]],
    value_and_saved: Callable[..., tuple[Sequence[Array], Any]],
    gradient: Callable[..., tuple[Array, ...]],
    *,
    selective: bool = False,
) -> Callable[..., list[Array]]:
    """Make a differentiable function f(*arrays, options) from the forward and backward custom calls.

    Args:
        name: The name of the primitive.
        weights: Which arguments are weights.
        value: value(options, *arrays) returns the results.
        value_and_saved: Returns the results and the residuals that `gradient` needs.
        gradient: gradient(options, saved, gradients of the results) returns the gradients of the arrays.
        selective: Whether `gradient` takes a fourth argument: a tuple that says for each array whether its gradient
            is needed. The others may be zero.
    """
    # The first argument is a pair: the options, and for which arrays a gradient is needed.
    function = jax.custom_vjp(lambda how, *arrays: value(how[0], *arrays), nondiff_argnums=(0,))
    function.defvjp(
        lambda how, *arrays: value_and_saved(how[0], *arrays),
        lambda how, saved, gradients: gradient(*how[:1], saved, gradients, *how[1:]),
    )

    def run(*arrays, options):
        return value(options, *arrays)

    def jvp(primals, tangents, *, options):
        # A separate primitive, so that vmap sees the whole call before grad expands it.
        needed = tuple(not isinstance(tangent, ad.Zero) for tangent in tangents)
        how = (options, needed) if selective else (options,)
        return jax.jvp(partial(function, how), tuple(primals), tuple(map(ad.instantiate_zeros, tangents)))

    bind = _primitive(name, weights, run, jvp).bind
    return lambda *arrays, options: bind(*as_jax(*arrays), options=options)


def _primitive(name: str, weights: Weights, run: Callable, jvp: Callable) -> Primitive:
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(run)

    def abstract(*arrays, **parameters):
        results = jax.eval_shape(partial(run, **parameters), *arrays)
        return [jax.core.ShapedArray(result.shape, result.dtype) for result in results]

    primitive.def_abstract_eval(abstract)
    mlir.register_lowering(primitive, mlir.lower_fun(run, multiple_results=True))
    batching.primitive_batchers[primitive] = partial(_batch, primitive, weights)
    ad.primitive_jvps[primitive] = jvp
    return primitive


def _batch(primitive: Primitive, weights: Weights, arrays: Sequence[Array], axes: Sequence[int | None], **parameters):
    size = next(array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None)
    in_front = [
        array if axis is None else jnp.moveaxis(array, axis, 0) for array, axis in zip(arrays, axes, strict=True)
    ]
    if callable(weights):
        weights = weights(parameters["options"])
    if any(axis is not None for axis in axes[weights]):
        # Each example has its own weights: one call after another, each with all threads.
        batched = [array for array, axis in zip(in_front, axes, strict=True) if axis is not None]

        def one(batched):
            rest = iter(batched)
            mixed = [array if axis is None else next(rest) for array, axis in zip(arrays, axes, strict=True)]
            return primitive.bind(*mixed, **parameters)

        results = lax.map(one, batched)
        return results, [0] * len(results)

    def joined(array, axis):
        array = jnp.broadcast_to(array, (size, *array.shape)) if axis is None else array
        return array.reshape(size * array.shape[1], *array.shape[2:])

    is_weight = [False] * len(arrays)
    is_weight[weights] = [True] * len(is_weight[weights])
    merged = [
        array if weight else joined(array, axis) for array, axis, weight in zip(in_front, axes, is_weight, strict=True)
    ]
    if "groups" in parameters:
        parameters["groups"] *= size
    results = primitive.bind(*merged, **parameters)
    return [result.reshape(size, result.shape[0] // size, *result.shape[1:]) for result in results], [0] * len(results)


def _attributes(options: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in options._asdict().items():
        found |= _attributes(value) if isinstance(value, tuple) else {name: _attribute(value)}
    return found


def _attribute(value):
    # XLA distinguishes widths; the kernels read 64-bit attributes.
    if isinstance(value, bool):
        return value
    return np.int64(value) if isinstance(value, int) else np.float64(value)
