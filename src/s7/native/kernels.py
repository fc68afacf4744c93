"""The kernels as functions of one sequence. Use `jax.vmap` for batches."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Inexact

from s7.native.calls import custom_call, differentiable
from s7.native.parts import Divided, Link, divided


class NoOptions(NamedTuple):
    """The options of calls without options."""


class ScanOptions(NamedTuple):
    """Options of the recurrence: whether it runs from the last event to the first."""

    reverse: bool


# The recurrence ------------------------------------------------------------------------------------------------------

_NO_WEIGHTS = slice(0, 0)
_scan = custom_call("s7_scan", _NO_WEIGHTS, lambda a, v, initial, options: [a.shape])
_scan_gradient = custom_call(
    "s7_scan_gradient", _NO_WEIGHTS, lambda a, x, initial, g, options: [a.shape, a.shape, initial.shape]
)


def _scan_saved(options, a, v, initial):
    (x,) = _scan(a, v, initial, options=options)
    return [x], (a, x, initial)


def _scan_back(options, saved, gradients):
    return tuple(_scan_gradient(*saved, *gradients, options=options))


_differentiable_scan = differentiable(
    "s7_recurrence", _NO_WEIGHTS, lambda *arguments: _scan_saved(*arguments)[0], _scan_saved, _scan_back
)


def scan(
    a: Inexact[Array, "L P"], v: Inexact[Array, "L P"], initial: Inexact[Array, " P"], reverse: bool
) -> Inexact[Array, "L P"]:
    """x_k = a_k * x_{k-1} + v_k, or x_k = a_k * x_{k+1} + v_k with `reverse`."""
    (x,) = _differentiable_scan(a[None], v[None], initial[None], options=ScanOptions(reverse))
    return x[0]


# The forms -----------------------------------------------------------------------------------------------------------


def _make_form(name: str, data: int):
    """Make the custom call of a form with `data` data arrays and one weight array, and the differentiable form."""
    weights = slice(data, data + 1)

    def gradient_shapes(*arrays, options, groups):
        return [*(array.shape for array in arrays[:data]), (groups, *arrays[data].shape)]

    call = custom_call(f"s7_{name}", weights, lambda *arrays, options: [(arrays[0].shape[0], arrays[data].shape[0])])
    gradient_call = custom_call(f"s7_{name}_gradient", weights, gradient_shapes)

    def value(options, *arrays):
        return call(*arrays, options=options)

    def gradient(options, saved, gradients):
        *of_data, of_weights = gradient_call(*saved, *gradients, options=options, groups=1)
        return *of_data, of_weights[0]

    form = differentiable(
        f"s7_{name}_form", weights, value, lambda options, *arrays: (value(options, *arrays), arrays), gradient
    )
    return call, form


_quadratic, _quadratic_form = _make_form("quadratic", 1)
_bilinear, _bilinear_form = _make_form("bilinear", 2)


def quadratic(W: Float[Array, "N H H"], u: Float[Array, "L H"]) -> Float[Array, "L N"]:
    """y_kn = Σ_ij W[n, i, j] u_ki u_kj."""
    return _quadratic_form(u, W, options=NoOptions())[0]


def bilinear(W: Float[Array, "N P H"], x: Float[Array, "L P"], u: Float[Array, "L H"]) -> Float[Array, "L N"]:
    """y_kn = Σ_pi W[n, p, i] x_kp u_ki."""
    return _bilinear_form(x, u, W, options=NoOptions())[0]


# Windows of events ---------------------------------------------------------------------------------------------------


STEP = 3  # the first transition with a step size


class WindowOptions(NamedTuple):
    """As `blocks.BlockOptions`, with the number of events in a window."""

    oscillate: bool
    counting: bool
    reverse: bool
    transition: int
    gain: int
    stride: int
    a: float
    b: float


def _make_window_scan(name: str, first: int):
    """The scan of events that share rows of a table (these are then weights), or have a row each (data).

    The weights start with argument `first` and end with omega or, for transitions with a step size, decay.
    """

    def weights(options):
        return slice(first, 8 if options.transition >= STEP else 7)

    def shapes(token, dt, marks, initial, raw, drive, omega, *decay, options, windows):
        return [(initial.shape[0], windows, initial.shape[1])]

    def gradient_shapes(token, dt, marks, initial, raw, drive, omega, *rest, options, groups, timed):
        shared = raw.ndim == 2
        of_rows = [(groups, *q.shape) if shared else q.shape for q in (raw, drive)]
        of_gaps = dt.shape if timed else (dt.shape[0], 0)
        of_decay = [(groups, *decay.shape) for decay in rest[:-2]]  # the states and their gradient follow
        return [of_gaps, initial.shape, *of_rows, (groups, *omega.shape), *of_decay]

    call = custom_call("s7_window_scan", weights, shapes)
    gradient_call = custom_call("s7_window_scan_gradient", weights, gradient_shapes)

    def value_and_saved(options, *arrays):
        token, raw = arrays[0], arrays[4]
        length = token.shape[1] if raw.ndim == 2 else raw.shape[1]
        (x,) = call(*arrays, options=options, windows=length // options.stride)
        return [x], (*arrays, x)

    def gradient(options, saved, gradients, needed):
        ddt, *found = gradient_call(*saved, *gradients, options=options, groups=1, timed=needed[1])
        dinitial, draw, ddrive, *of_weights = found
        shared = saved[4].ndim == 2
        of_rows = (draw[0], ddrive[0]) if shared else (draw, ddrive)
        ddt = ddt if needed[1] else jnp.zeros_like(saved[1])
        return (
            jnp.zeros_like(saved[0]),
            ddt,
            jnp.zeros_like(saved[2]),
            dinitial,
            *of_rows,
            *(weight[0] for weight in of_weights),
        )

    def value(*arguments):
        return value_and_saved(*arguments)[0]

    def links(options):
        return [Link(3, options.reverse)]

    def add_finals(options, gradients, finals):
        (of_x,), (of_final,) = gradients, finals
        return [of_x.at[:, 0 if options.reverse else -1].add(of_final)]

    call_parts = (weights, value, value_and_saved, gradient)
    whole = differentiable(name, *call_parts, selective=True)
    part = divided(f"{name}_part", *call_parts, links=links, add_finals=add_finals, selective=True)
    return whole, part


_token_scan, _token_scan_part = _make_window_scan("s7_token_windows", 4)
_event_scan, _event_scan_part = _make_window_scan("s7_event_windows", 6)


def window_scan(
    raw: Float[Array, "R P"],
    drive: Float[Array, "R S"],
    omega: Float[Array, " W"],
    decay: Float[Array, " P"] | None,
    token: Float[Array, " L"] | None,
    dt: Float[Array, " L"] | None,
    marks: Float[Array, " L"] | None,
    initial: Float[Array, " S"],
    options: WindowOptions,
    *,
    axis: str | None = None,
    product: Float[Array, " S"] | None = None,
) -> Float[Array, "M S"]:
    """The states at the ends of windows, from w_k and B_k u_k + b of each event or, with tokens, of each table row.

    `omega` is empty for real states, and `decay` is None for transitions without a step size. If the sequence is
    divided over a mesh axis, `product` is that of the factors of all events here.
    """
    weights = (omega,) if decay is None else (omega, decay)
    absent = jnp.zeros((1, 0), raw.dtype)
    dt, marks = (absent if q is None else q[None] for q in (dt, marks))
    data = (absent if token is None else token[None], dt, marks, initial[None])
    rows = (raw[None], drive[None]) if token is None else (raw, drive)
    if axis is None:
        scan = _event_scan if token is None else _token_scan
        (x,) = scan(*data, *rows, *weights, options=options)
    else:
        assert product is not None
        scan = _event_scan_part if token is None else _token_scan_part
        (x,) = scan(product[None], *data, *rows, *weights, options=Divided(options, axis))
    return x[0]


class PoolOptions(NamedTuple):
    """The number of events in a window."""

    stride: int


def _make_pool(name: str, weights: slice):
    """The pooling of events that share rows of a table (it is then a weight), or have a row each (data)."""

    def shapes(values, token, share, last, options, windows):
        batch, width = (token if values.ndim == 2 else values).shape[0], values.shape[-1]
        return [(batch, windows if share.shape[1] else 0, width), (batch, windows, width)]

    def gradient_shapes(values, token, share, last, mean_gradient, ends_gradient, options, groups, timed):
        shared = values.ndim == 2
        of_share = share.shape if timed else (share.shape[0], 0)
        return [(groups, *values.shape) if shared else values.shape, of_share]

    call = custom_call("s7_pool_rows", weights, shapes)
    gradient_call = custom_call("s7_pool_rows_gradient", weights, gradient_shapes)

    def value(options, values, token, share, last):
        length = (token if values.ndim == 2 else values).shape[1]
        return call(values, token, share, last, options=options, windows=length // options.stride)

    def value_and_saved(options, *arrays):
        return value(options, *arrays), arrays

    def gradient(options, saved, gradients, needed):
        values, token, share, last = saved
        dvalues, dshare = gradient_call(*saved, *gradients, options=options, groups=1, timed=needed[2])
        dvalues = dvalues[0] if values.ndim == 2 else dvalues
        dshare = dshare if needed[2] else jnp.zeros_like(share)
        return dvalues, jnp.zeros_like(token), dshare, jnp.zeros_like(last)

    return differentiable(name, weights, value, value_and_saved, gradient, selective=True)


_token_pool = _make_pool("s7_token_pool", slice(0, 1))
_event_pool = _make_pool("s7_event_pool", slice(0, 0))


def pool_rows(
    values: Float[Array, "R H"],
    token: Float[Array, " L"] | None,
    share: Float[Array, " L"] | None,
    last: Float[Array, " M"] | None,
    stride: int,
) -> tuple[Float[Array, "M H"] | None, Float[Array, "M H"]]:
    """The sum over each window of share_k u_k, and u_k at its last event.

    Args:
        values: u_k of each event or, with tokens, of each row of a table.
        token: The row of each event.
        share: The weight of each event in the mean; None: no mean is computed.
        last: The position of the last event in its window; None if all windows are full.
        stride: The number of events in a window. It divides L.
    """
    absent = jnp.zeros((1, 0), values.dtype)
    share, last = (absent if q is None else q[None] for q in (share, last))
    if token is None:
        mean, ends = _event_pool(values[None], absent, share, last, options=PoolOptions(stride))
    else:
        mean, ends = _token_pool(values, token[None], share, last, options=PoolOptions(stride))
    return mean[0] if share.shape[1] else None, ends[0]


# The end of a block ---------------------------------------------------------------------------------------------------


class GateOptions(NamedTuple):
    """The dropout probability in units of 1/65536."""

    threshold: int


_GATE_WEIGHTS = slice(3, 5)
_gate = custom_call("s7_gate", _GATE_WEIGHTS, lambda z, u, keys, W, c, options: [z.shape])
_gate_gradient = custom_call(
    "s7_gate_gradient",
    _GATE_WEIGHTS,
    lambda z, u, keys, W, c, g, options, groups: [z.shape, (groups, *W.shape), (groups, *c.shape)],
)


def _gate_back(options, saved, gradients):
    z, skip, keys, W, c = saved  # of u only whether it is there
    (g,) = gradients
    absent = jnp.zeros((z.shape[0], 0, z.shape[2]), z.dtype)
    dz, dW, dc = _gate_gradient(z, absent, keys, W, c, g, options=options, groups=1)
    return dz, g if skip.shape[1] else absent, jnp.zeros_like(keys), dW[0], dc[0]


def _gate_saved(options, z, u, keys, W, c):
    return _gate(z, u, keys, W, c, options=options), (z, u[:, :1, :0], keys, W, c)


_differentiable_gate = differentiable(
    "s7_gate_skip", _GATE_WEIGHTS, lambda *arguments: _gate_saved(*arguments)[0], _gate_saved, _gate_back
)


def gate(
    z: Float[Array, "L H"],
    u: Float[Array, "L H"] | None,
    W: Float[Array, "H H"],
    c: Float[Array, " H"],
    key: Float[Array, "4"] | None,
    threshold: int,
) -> Float[Array, "L H"]:
    """u + dropout(z * sigmoid(W gelu(z) + c)), without u where there is no skip."""
    absent = jnp.zeros((1, 0, z.shape[1]), z.dtype)
    u = absent if u is None else u[None]
    keys = jnp.zeros((1, 4), z.dtype) if key is None else key[None]
    (out,) = _differentiable_gate(z[None], u, keys, W, c, options=GateOptions(threshold if key is not None else 0))
    return out[0]


# The statistics of a sequence -----------------------------------------------------------------------------------------

_moments = custom_call(
    "s7_moments", _NO_WEIGHTS, lambda u, weights, options: [u.shape[:1], *[(u.shape[0], u.shape[2])] * 2]
)


def _moments_saved(options, u, weights):
    count, mean, square = _moments(u, weights, options=options)
    return [count, mean, square], (u, weights, count, mean)


def _moments_back(options, saved, gradients):
    u, weights, count, mean = saved
    _, of_mean, of_square = gradients
    # The sum of squares does not change with the mean, where it is smallest.
    du = (of_mean / jnp.maximum(count, 1)[:, None])[:, None] + 2 * of_square[:, None] * (u - mean[:, None])
    return du if weights.shape[1] == 0 else du * weights[:, :, None], jnp.zeros_like(weights)


_differentiable_moments = differentiable(
    "s7_sequence_moments", _NO_WEIGHTS, lambda *arguments: _moments_saved(*arguments)[0], _moments_saved, _moments_back
)


def moments(
    u: Float[Array, "L H"], weights: Float[Array, " L"] | None
) -> tuple[Float[Array, ""], Float[Array, " H"], Float[Array, " H"]]:
    """The sum of the weights (1 each if None), and per channel the mean and the sum of squared deviations from it."""
    given = jnp.zeros((1, 0), u.dtype) if weights is None else weights[None]
    count, mean, square = _differentiable_moments(u[None], given, options=NoOptions())
    return count[0], mean[0], square[0]


# A vector as several arrays -------------------------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def split(vector: Float[Array, " N"], shapes: tuple[tuple[int, ...], ...]) -> list[Array]:
    """Consecutive parts of a vector, in these shapes."""
    parts = [jax.ShapeDtypeStruct(shape, vector.dtype) for shape in shapes]
    return list(jax.ffi.ffi_call("s7_split", parts, vmap_method="sequential")(vector))


def _split_back(shapes, _, gradients):
    return (jnp.concatenate([gradient.ravel() for gradient in gradients]),)


split.defvjp(lambda vector, shapes: (split(vector, shapes), None), _split_back)
