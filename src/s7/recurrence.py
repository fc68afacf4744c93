"""The linear recurrence of all state-space layers.

    x_k = a_k * x_{k-1} + v_k          elementwise, x in R^P or C^P          (equations 3 and 5)

Backends evaluate it in different ways with the same result. The gradient is written by hand. With λ_k the gradient with
respect to x_k, including the effect of x_k on all later states,

    λ_k = ∂/∂x_k + a_{k+1} * λ_{k+1}       ∂/∂v_k = λ_k       ∂/∂a_k = λ_k * x_{k-1}

The backward pass is therefore the same recurrence in reverse, and x is all that it needs to store besides a.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Inexact

from s7.arrays import as_jax
from s7.backend_selection import current_backend, find_backend
from s7.sequence_parts import adjoint_after, sequence_axis, state_before


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _solve(a: Array, v: Array, initial: Array, reverse: bool, backend: str) -> Array:
    return find_backend(backend).recurrence(a, v, initial, reverse)


def _solve_forward(a, v, initial, reverse, backend):
    x = _solve(a, v, initial, reverse, backend)
    return x, (a, x, initial)


def _solve_backward(reverse, backend, saved, gradient):
    a, x, initial = saved
    none = jnp.zeros_like(initial)
    if reverse:
        a_next, x_previous, first = _shift(a, none, 1), _shift(x, initial, -1), -1
    else:
        a_next, x_previous, first = _shift(a, none, -1), _shift(x, initial, 1), 0
    adjoint = _solve(a_next, gradient, none, not reverse, backend)
    return adjoint * x_previous, adjoint, a[first] * adjoint[first]


_solve.defvjp(_solve_forward, _solve_backward)


@partial(jax.custom_vjp, nondiff_argnums=(4, 5, 6))
def _solve_part(a: Array, v: Array, initial: Array, product: Array, reverse: bool, backend: str, axis: str) -> Array:
    """The states of one part of a sequence from the state before it; `product` is that of a."""
    return find_backend(backend).recurrence(a, v, initial, reverse)


def _part_forward(a, v, initial, product, reverse, backend, axis):
    x, saved = _solve_forward(a, v, initial, reverse, backend)
    return x, (saved, product)


def _part_backward(reverse, backend, axis, residuals, gradient):
    saved, product = residuals
    *_, adjoint = _solve_backward(reverse, backend, saved, gradient)
    after = adjoint_after(adjoint, product, axis, reverse=reverse)
    gradient = gradient.at[0 if reverse else -1].add(after)
    return *_solve_backward(reverse, backend, saved, gradient), jnp.zeros_like(product)


_solve_part.defvjp(_part_forward, _part_backward)


def _shift(sequence: Array, edge: Array, by: int) -> Array:
    """Shift a sequence by one step, later (+1) or earlier (-1), and fill the empty position with `edge`."""
    if by > 0:
        return jnp.concatenate([edge[None], sequence[:-1]])
    return jnp.concatenate([sequence[1:], edge[None]])


def recurrence(
    a: Inexact[Array, "L P"],
    v: Inexact[Array, "L P"],
    initial: Inexact[Array, " P"] | None = None,
    *,
    reverse: bool = False,
) -> Inexact[Array, "L P"]:
    """Compute x_k = a_k * x_{k-1} + v_k for all k.

    A step with a_k = 0 starts a new sequence. A step with a_k = 1 and v_k = 0 is padding.

    Args:
        a: The factors.
        v: The inputs.
        initial: The state before the first step; None for zeros.
        reverse: Compute x_k = a_k * x_{k+1} + v_k instead.

    Returns:
        The states. The final state is the last row, or the first row with `reverse`.
    """
    a, v, initial = as_jax(a, v, jnp.zeros_like(v, shape=v.shape[1:]) if initial is None else initial)
    if a.shape[0] == 1 and sequence_axis() is None:  # one event: no loop to compile
        return a * initial + v
    dtype = jnp.result_type(a, v, initial)
    a, v, initial = a.astype(dtype), v.astype(dtype), initial.astype(dtype)
    backend = current_backend(a.shape[0])
    axis = sequence_axis()
    if axis is not None:
        from_zero = find_backend(backend).recurrence(*lax.stop_gradient((a, v)), jnp.zeros_like(initial), reverse)
        product = lax.stop_gradient(a).prod(0)
        before = state_before(from_zero[0 if reverse else -1], product, initial, reverse=reverse)
        return _solve_part(a, v, before, product, reverse, backend, axis)
    if find_backend(backend).has_gradient:
        return find_backend(backend).recurrence(a, v, initial, reverse)
    return _solve(a, v, initial, reverse, backend)


def over_windows(
    a: Inexact[Array, "L P"], v: Inexact[Array, "L P"], stride: int, *, reverse: bool = False
) -> tuple[Inexact[Array, "M P"], Inexact[Array, "M P"]]:
    """Combine the steps of each window of `stride` events into one (equation 11, with a_k that vary).

        A_j = Π a_k       V_j = Σ_k (Π_{l>k} a_l) v_k       over the events k of window j

    recurrence(A, V) is exactly x at the last event of each window, or at the first event with `reverse`. All windows
    are computed in parallel, and the sequential part is `stride` times shorter. The gradient is JAX's own, since the
    loop has only `stride` steps.
    """
    windows = a.shape[0] // stride
    by_place = [q.reshape(windows, stride, -1).swapaxes(0, 1) for q in (a, v)]

    def step(carry, av):
        A, V = carry
        return (av[0] * A, av[0] * V + av[1]), None

    identity = (jnp.ones_like(by_place[0][0]), jnp.zeros_like(by_place[1][0]))
    return lax.scan(step, identity, tuple(by_place), reverse=reverse)[0]
