"""The layer equals the reference equations, forward and backward, for every transition and every form.

Gradients of the reference are central differences in float64 along random directions of parameters, inputs and gaps.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import s7
from s7.transitions import Gain
from tests.oracle import reference_call

LENGTH, WIDTH, STATE = 7, 3, 4
STEP = 1e-5
GAINS: tuple[Gain, ...] = ("rate", "variance", None)
TRANSITIONS = [
    *(s7.Stable(gain=gain, oscillate=oscillate) for gain in GAINS for oscillate in (False, True)),
    s7.Stable(a=0.5, b=1.0, selective=False),
    *(s7.Plain(gain=gain, tau=(2.0, 5.0)) for gain in GAINS),  # far from w = 1, where the variance has a kink
    *(s7.Step(held=held, selective=selective) for held in (False, True) for selective in (False, True)),
    s7.Ring(),
    s7.Ring(selective=True),
]
FORMS = [
    s7.Full(selective="BC", D="full"),
    s7.Full(selective="B", D="diagonal"),
    s7.Full(selective="C", D="static"),
    s7.Factored(2, selective="BC", D="static"),
    s7.Factored(2, selective="B", D="full"),
    s7.Factored(2, selective="C", D="diagonal"),
    s7.Static(bias=False),
    s7.Static(D="full"),
]


@eqx.filter_jit
def value_and_gradient(variables, seen):
    """The outputs, the final state, and the gradient of their product with `seen`."""

    def loss(variables):
        layer, u, dt = variables
        y, x = layer(u, dt)
        return product((y, x), seen), (y, x)

    (_, outputs), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(variables)
    return outputs, gradient


def product(outputs, seen):
    """A real number in which every output counts, the imaginary parts of the state too."""
    (y, x), (for_y, for_x) = outputs, seen
    return (y * for_y).sum() + (x.real * for_x.real).sum() + (x.imag * for_x.imag).sum()


def compare(transition, form, seed, *, timed):
    rng = np.random.default_rng(seed)
    layer = s7.S7Layer(
        WIDTH, STATE, transition=transition, form=form, dtype="float64", key=jax.random.key(seed), blocks=2
    )
    u = jnp.asarray(0.3 * rng.normal(size=(LENGTH, WIDTH)))
    dt = jnp.asarray(rng.exponential(1.0, LENGTH) + 0.1) if timed else None
    arrays, rest = eqx.partition((layer, u, dt), eqx.is_array)
    seen = rng.normal(size=u.shape), rng.normal(size=STATE) + 1j * rng.normal(size=STATE)

    outputs, gradient = value_and_gradient((layer, u, dt), seen)
    for ours, exact in zip(outputs, reference_call(layer, u, dt), strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-10, atol=1e-12)

    direction = jax.tree.map(lambda q: jnp.asarray(rng.normal(size=q.shape)), arrays)

    def exact(by):
        at, inputs, gaps = eqx.combine(jax.tree.map(lambda q, d: q + by * d, arrays, direction), rest)
        return product(reference_call(at, inputs, gaps), seen)

    along = sum(jax.tree.leaves(jax.tree.map(lambda g, d: (g * d).sum(), gradient, direction)))
    np.testing.assert_allclose(along, (exact(STEP) - exact(-STEP)) / (2 * STEP), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("timed", [True, False], ids=["timed", "regular"])
@pytest.mark.parametrize("transition", TRANSITIONS, ids=str)
@settings(max_examples=3)
@given(seed=st.integers(0, 2**16))
def test_every_transition_equals_the_reference(transition, timed, seed):
    compare(transition, s7.Full(selective="B"), seed, timed=timed)


@pytest.mark.parametrize("oscillate", [True, False], ids=["complex", "real"])
@pytest.mark.parametrize("form", FORMS, ids=str)
@settings(max_examples=3)
@given(seed=st.integers(0, 2**16))
def test_every_form_equals_the_reference(form, oscillate, seed):
    compare(s7.Stable(oscillate=oscillate), form, seed, timed=oscillate)
