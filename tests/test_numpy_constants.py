"""Custom gradient rules accept NumPy arrays that a compiled function closes over."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import s7
from s7.contractions import bilinear, linear, quadratic
from s7.encoders import ImageEncoder
from s7.recurrence import recurrence

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 40, 3))
Z = RNG.normal(size=(4, 40, 2))


def each(function):
    """A function of one batch element, over the closed-over batches."""
    return lambda w: jax.vmap(lambda x, z: function(w, x, z))(X, Z)


FUNCTIONS = {
    "linear": (each(lambda w, x, z: linear(w, x)), (2, 3)),
    "quadratic": (each(lambda w, x, z: quadratic(w, x)), (2, 3, 3)),
    "bilinear": (each(lambda w, x, z: bilinear(w, x, z)), (5, 3, 2)),
    "recurrence, a": (each(lambda w, x, z: recurrence(x, x * w)), (3,)),
    "recurrence, v": (each(lambda w, x, z: recurrence(jnp.broadcast_to(w, x.shape), x)), (3,)),
    "recurrence, both": (each(lambda w, x, z: recurrence(x, x, w)), (3,)),
}


@pytest.mark.parametrize("backend", ["xla", "parallel", "native"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_under_jit_and_vmap(name, backend):
    function, shape = FUNCTIONS[name]
    w = jnp.asarray(RNG.normal(size=shape))
    run = jax.jit(jax.value_and_grad(lambda w: jnp.sum(function(w) ** 2)))
    with s7.backend(backend):
        value, gradient = run(w)
        step = 1e-6 * jnp.asarray(RNG.normal(size=shape))
        slope = (run(w + step)[0] - run(w - step)[0]) / 2
    np.testing.assert_allclose(jnp.vdot(gradient, step), slope, rtol=1e-5)
    assert np.isfinite(value)


@pytest.mark.parametrize("backend", ["xla", "parallel", "native"])
@pytest.mark.parametrize("form", [s7.Full(), s7.Factored(rank=2)])
def test_a_layer_in_a_users_model(form, backend):
    layer = s7.S7Layer(3, 4, form=form, key=jax.random.key(0))
    inputs, dt, targets = X.astype(np.float32), np.ones((4, 40), np.float32), np.zeros(4, np.float32)

    @eqx.filter_jit
    def step(m):
        def loss(m):
            return jnp.mean((jax.vmap(lambda q, gaps: m(q, gaps)[0].mean())(inputs, dt) - targets) ** 2)

        return eqx.filter_value_and_grad(loss)(m)

    with s7.backend(backend):
        value, gradient = step(layer)
    assert value > 0
    assert jnp.abs(gradient.maps["B"]).max() > 0


@pytest.mark.parametrize("encoder", [s7.LinearEncoder(64), s7.DenseEncoder((8, 8, 1)), ImageEncoder((8, 8, 1))])
def test_a_model(encoder):
    inputs = RNG.normal(size=(2, 5, *encoder.event_shape)).astype(np.float32)
    model = s7.S7Model(encoder=encoder, head=s7.Mean(2), width=4, state=3, depth=1, key=jax.random.key(0))
    gradient = eqx.filter_jit(eqx.filter_grad(lambda m: jnp.sum(jax.vmap(m)(inputs) ** 2)))(model)
    assert np.isfinite(gradient.head["W"]).all()
