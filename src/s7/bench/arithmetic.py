"""The arithmetic of any JAX function: floating-point operations, counted in the operations that it is traced to.

A multiply-add of a product of matrices or of a convolution is two operations, everything else one per number that it
returns, sums one per number that they read. Complex numbers count as the real numbers that they are made of. The body
of a scan counts as often as it runs. What a loop with an unknown number of rounds computes counts once, and of several
branches the longest counts. Moving, comparing and converting numbers is free.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# What costs nothing, apart from everything that returns whole numbers or truth values.
_FREE = frozenset(
    (
        *("reshape", "broadcast_in_dim", "transpose", "squeeze", "concatenate", "slice", "dynamic_slice", "pad", "rev"),
        *("dynamic_update_slice", "gather", "split", "expand_dims", "copy", "copy_p", "select_n", "device_put", "sort"),
        *("convert_element_type", "bitcast_convert_type", "reduce_precision", "stop_gradient", "optimization_barrier"),
        *("real", "imag", "complex", "conj", "sign", "round", "floor", "ceil", "clamp", "iota"),
    )
)
_SUMS = frozenset(
    ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "cumsum", "cumprod", "cummax", "cummin", "scatter-add")
)


def operations(function: Callable, *arguments: Any) -> int:
    """The floating-point operations of one call with arguments of these shapes."""
    return round(_count(jax.make_jaxpr(function)(*arguments).jaxpr))


def _count(jaxpr: Any) -> float:
    return sum(_cost(equation) for equation in jaxpr.eqns)


def _cost(equation: Any) -> float:
    name, params = equation.primitive.name, equation.params
    if name == "scan":
        return params["length"] * _count(params["jaxpr"].jaxpr)
    if name == "cond":
        return max(_count(branch.jaxpr) for branch in params["branches"])
    if name == "while":
        return _count(params["body_jaxpr"].jaxpr)
    inner = list(_inside(params))
    if inner:
        return sum(map(_count, inner))
    out = equation.outvars[0].aval
    if name in _FREE or not jnp.issubdtype(getattr(out, "dtype", np.dtype(int)), jnp.inexact):
        return 0
    parts = 2 if jnp.issubdtype(out.dtype, jnp.complexfloating) else 1
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        return 2 * parts**2 * out.size * math.prod(equation.invars[0].aval.shape[n] for n in contracted)
    if name == "conv_general_dilated":
        kernel = equation.invars[1].aval
        features = kernel.shape[params["dimension_numbers"].rhs_spec[0]]
        return 2 * out.size * kernel.size / features
    if name == "fft":
        length = math.prod(params["fft_lengths"])
        return 2.5 * out.size * parts * math.log2(max(length, 2))
    if name == "lu":
        return 2 / 3 * parts**2 * out.size * out.shape[-1]
    if name == "triangular_solve":
        return parts**2 * out.size * equation.invars[0].aval.shape[-1]
    if name in _SUMS:
        return parts * max(getattr(variable.aval, "size", 0) for variable in equation.invars)
    if name == "mul":
        return out.size * (6 if parts == 2 else 1)
    return parts * out.size


def _inside(params: dict[str, Any]) -> Iterator[Any]:
    """The functions that an operation calls. Of a function with its own derivative, only what it computes counts."""
    for name, value in params.items():
        for one in value if isinstance(value, tuple | list) else (value,):
            if name in ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd", "jvp_jaxpr_thunk"):
                continue
            jaxpr = getattr(one, "jaxpr", one)
            if hasattr(jaxpr, "eqns"):
                yield jaxpr
