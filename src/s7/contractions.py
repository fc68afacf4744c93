"""Quadratic and bilinear maps along a sequence that do not materialize the matrices of each step.

A selective matrix B_k = W[., ., u_k] applied to u_k is a quadratic form of u_k, and C_k = W[., ., u_k] applied to x_k
is a bilinear form. The matrices themselves would have L·P·H entries. Instead, a few hundred steps at a time are
computed as plain matrix products, and the backward pass recomputes its intermediates instead of storing them.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from s7.arrays import as_jax
from s7.backend_selection import current_backend
from s7.native import kernels

# The size of the intermediate of one chunk: large enough for an efficient matrix product, small enough for the cache.
# The length of a chunk is limited to this range of steps.
_CHUNK_NUMBERS = 65_536
_SHORTEST, _LONGEST = 32, 1024


def linear(W: Float[Array, "N H"], u: Float[Array, "L H"]) -> Float[Array, "L N"]:
    """y_kn = Σ_h W[n, h] u_kh."""
    return _linear(*as_jax(W, u))


@jax.custom_vjp
def _linear(W: Array, u: Array) -> Array:
    return u @ W.T


def _linear_forward(W, u):
    return u @ W.T, (W, u)


def _linear_backward(saved, g):
    W, u = saved
    narrow = g.shape[1] <= u.shape[1]

    def chunk(dW, rows):
        u, g = rows
        # A product over the sequence transposes a copy of its left operand, so the narrower one is on the left.
        return dW + (g.T @ u if narrow else (u.T @ g).T), ()

    dW, _ = _over_chunks(chunk, jnp.zeros_like(W), sum(W.shape), u, g)
    return dW, g @ W


_linear.defvjp(_linear_forward, _linear_backward)


def quadratic(W: Float[Array, "P H H"], u: Float[Array, "L H"]) -> Float[Array, "L P"]:
    """y_kp = Σ_ij W[p, i, j] u_ki u_kj.

    Only the symmetric part of W contributes. Symmetrizing W first saves one of three products in the backward pass,
    because ∂y/∂u is then 2 W u.
    """
    W, u = as_jax(W, u)
    if current_backend(u.shape[0]) == "native":
        return kernels.quadratic(W, u)
    return _quadratic((W + W.swapaxes(1, 2)) / 2, u)


@jax.custom_vjp
def _quadratic(S: Array, u: Array) -> Array:
    P, H, _ = S.shape
    spread = S.reshape(P * H, H).T

    def chunk(_, rows):
        (u,) = rows
        return None, jnp.einsum("kpi,ki->kp", (u @ spread).reshape(-1, P, H), u)

    return _over_chunks(chunk, None, P * H, u)[1]


def _quadratic_forward(S, u):
    return _quadratic(S, u), (S, u)


def _quadratic_backward(saved, g):
    S, u = saved
    P, H, _ = S.shape
    gather = S.reshape(P * H, H)

    def chunk(dS, rows):
        u, g = rows
        products = (g[:, :, None] * u[:, None, :]).reshape(-1, P * H)
        return dS + u.T @ products, 2 * (products @ gather)

    dS, du = _over_chunks(chunk, jnp.zeros_like(gather, shape=(H, P * H)), P * H, u, g)
    return jnp.moveaxis(dS.reshape(H, P, H), 0, 2), du


_quadratic.defvjp(_quadratic_forward, _quadratic_backward)


def bilinear(W: Float[Array, "H P I"], x: Float[Array, "L P"], u: Float[Array, "L I"]) -> Float[Array, "L H"]:
    """y_kh = Σ_pi W[h, p, i] x_kp u_ki."""
    W, x, u = as_jax(W, x, u)
    if current_backend(u.shape[0]) == "native":
        return kernels.bilinear(W, x, u)
    return _bilinear(W, x, u)


@jax.custom_vjp
def _bilinear(W: Array, x: Array, u: Array) -> Array:
    H, P, I = W.shape
    gather = W.reshape(H, P * I).T

    def chunk(_, rows):
        x, u = rows
        return None, (x[:, :, None] * u[:, None, :]).reshape(-1, P * I) @ gather

    return _over_chunks(chunk, None, P * I, x, u)[1]


def _bilinear_forward(W, x, u):
    return _bilinear(W, x, u), (W, x, u)


def _bilinear_backward(saved, g):
    W, x, u = saved
    H, P, I = W.shape
    flat = W.reshape(H, P * I)

    def chunk(dW, rows):
        x, u, g = rows
        # One contraction over the outputs serves both ∂/∂x and ∂/∂u.
        back = (g @ flat).reshape(-1, P, I)
        dx = jnp.einsum("kpi,ki->kp", back, u)
        du = jnp.einsum("kpi,kp->ki", back, x)
        products = (x[:, :, None] * u[:, None, :]).reshape(-1, P * I)
        return dW + g.T @ products, (dx, du)

    dW, (dx, du) = _over_chunks(chunk, jnp.zeros_like(flat), P * I, x, u, g)
    return dW.reshape(W.shape), dx, du


_bilinear.defvjp(_bilinear_forward, _bilinear_backward)


def _over_chunks(chunk: Callable, carry, numbers_per_step: int, *sequences: Array):
    """Run `chunk(carry, rows) -> (carry, rows)` along the sequences; the last chunk is padded with zeros."""
    length = sequences[0].shape[0]
    most = min(max(_CHUNK_NUMBERS // numbers_per_step, _SHORTEST), _LONGEST)
    if length <= most:
        return chunk(carry, sequences)
    # Prefer a length that divides the sequence, because padding copies every array.
    divisors = [steps for steps in range(most // 2 + 1, most + 1) if length % steps == 0]
    steps = divisors[-1] if divisors else -(-length // -(-length // most))
    chunks = -(-length // steps)
    if steps * chunks != length:
        sequences = tuple(jnp.pad(q, ((0, steps * chunks - length), (0, 0))) for q in sequences)

    # Not lax.scan: under vmap it copies every array to move the chunks in front of the batch.
    def body(n, carried):
        carry, results = carried
        rows = tuple(lax.dynamic_slice_in_dim(q, n * steps, steps) for q in sequences)
        carry, outputs = chunk(carry, rows)
        place = lambda q, rows: lax.dynamic_update_slice_in_dim(q, rows, n * steps, 0)  # noqa: E731
        return carry, jax.tree.map(place, results, outputs)

    first = tuple(q[:steps] for q in sequences)
    shapes = jax.eval_shape(chunk, carry, first)[1]
    results = jax.tree.map(lambda q: jnp.zeros((steps * chunks, *q.shape[1:]), q.dtype), shapes)
    carry, results = lax.fori_loop(0, chunks, body, (carry, results))
    return carry, jax.tree.map(lambda q: q[:length], results)
