"""Quadratic and bilinear maps: values, gradients and memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import s7
from s7.contractions import bilinear, linear, quadratic


def numbers(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


@pytest.mark.parametrize("length", [1, 31, 700])
def test_contractions_and_gradients_match_einsum(length):
    W, S = numbers(17, 13, 11), numbers(13, 11, 11, seed=1)
    x, u, V = numbers(length, 13), numbers(length, 11, seed=2), numbers(6, 11, seed=3)
    # Chunks of the bilinear map are of 687 steps: 700 takes two, and a tail.
    pairs = [
        (bilinear, lambda W, x, u: jnp.einsum("hpi,kp,ki->kh", W, x, u), (W, x, u)),
        (quadratic, lambda S, u: jnp.einsum("pij,ki,kj->kp", S, u, u), (S, u)),
        (linear, lambda V, u: jnp.einsum("nh,kh->kn", V, u), (V, u)),
    ]
    for fast, plain, arguments in pairs:
        np.testing.assert_allclose(jax.jit(fast)(*arguments), plain(*arguments), rtol=1e-9, atol=1e-9)
        each = tuple(range(len(arguments)))
        gradients = [
            jax.jit(jax.grad(lambda *q, f=f: jnp.sum(jnp.sin(f(*q))), argnums=each))(*arguments) for f in (fast, plain)
        ]
        for ours, theirs in zip(*gradients, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)


def test_only_the_symmetric_part_contributes():
    S, u = numbers(3, 5, 5), numbers(8, 5)
    np.testing.assert_allclose(quadratic(S, u), quadratic(jnp.swapaxes(S, 1, 2), u), rtol=1e-12)
    gradient = jax.grad(lambda S: jnp.sum(quadratic(S, u)))(S)
    np.testing.assert_allclose(gradient, jnp.swapaxes(gradient, 1, 2), rtol=1e-12)


def all_shapes(jaxpr):
    for equation in jaxpr.eqns:
        for variable in (*equation.invars, *equation.outvars):
            yield getattr(variable.aval, "shape", ())
        for parameter in jax.tree.leaves(equation.params, is_leaf=lambda q: hasattr(q, "eqns") or hasattr(q, "jaxpr")):
            inner = getattr(parameter, "jaxpr", parameter)
            if hasattr(inner, "eqns"):
                yield from all_shapes(inner)


def test_no_array_of_length_times_state_times_width_exists(key):
    length, width, state = 8192, 24, 18
    layer = s7.S7Layer(width, state, key=key, form=s7.Full(D="full"))
    u = jnp.zeros((length, width), jnp.float32)
    gradient = jax.make_jaxpr(jax.grad(lambda u: jnp.sum(layer(u)[0] ** 2)))(u)
    largest = max(int(np.prod(shape)) for shape in all_shapes(gradient.jaxpr))
    # The last chunk is filled up with a few steps.
    assert largest < 1.05 * length * width < length * state * width / 10
