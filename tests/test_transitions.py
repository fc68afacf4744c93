"""Transitions: bounds, initial spectra and edge cases."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import s7
from s7.transitions import hippo_frequencies, time_ladder

HARD = [0.0, -0.0, 1e-45, 1e-38, 1e-6, 0.5, 1.0, 7.0, 1e6, 1e19, 3e38]
GAPS = [0.0, 1e-45, 1e-3, 1.0, 1e3, 1e9]
settings_of = st.builds(
    s7.Stable,
    a=st.sampled_from([0.5, 1.0]),
    b=st.sampled_from([0.5, 1.0]),
    oscillate=st.booleans(),
    gain=st.sampled_from(["rate", "variance", None]),
)


def discretize(transition, w, dt):
    w = jnp.asarray(w, jnp.float32)[:, None]
    return transition.discretize({"omega": jnp.full(1, 0.3, jnp.float32)}, w, dt)


@given(
    transition=settings_of,
    w=st.lists(st.floats(-1e6, 1e6, width=32) | st.sampled_from(HARD), min_size=8, max_size=8),
    dt=st.none() | st.lists(st.floats(0, 1e9, width=32) | st.sampled_from(GAPS), min_size=8, max_size=8),
)
def test_stable_never_leaves_the_unit_disc(transition, w, dt):
    a, gain = discretize(transition, w, None if dt is None else jnp.asarray(dt, jnp.float32))
    modulus = np.abs(np.asarray(a))
    # Real factors are exact; the modulus of a complex one is known to rounding.
    assert (modulus <= (1 + 2e-7 if transition.oscillate else 1)).all()
    assert np.isfinite(np.asarray(gain)).all()


@pytest.mark.parametrize("oscillate", [False, True])
@pytest.mark.parametrize("gain", ["rate", "variance", None])
@pytest.mark.parametrize("timed", [False, True])
def test_no_nan_and_no_infinite_gradient_at_the_edges(oscillate, gain, timed):
    transition = s7.Stable(oscillate=oscillate, gain=gain)
    w = np.repeat(HARD, len(GAPS)).astype(np.float32)
    dt = np.tile(GAPS, len(HARD)).astype(np.float32) if timed else None

    def total(w, dt):
        a, g = discretize(transition, w, dt)
        return jnp.sum(a.real) + jnp.sum(a.imag) + jnp.sum(g)

    gradients = jax.grad(total, argnums=(0, 1) if timed else 0)(w, dt)
    for gradient in jax.tree.leaves(gradients):
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("transition", [s7.Step(), s7.Ring(selective=True)])
@pytest.mark.parametrize("dt", [0.0, 1e9])
def test_step_and_ring_stay_finite_too(transition, dt, key):
    layer = s7.S7Layer(3, 4, key=key, transition=transition)

    def loss(layer):
        y, x = layer(jnp.ones((5, 3)), jnp.full(5, dt))
        return jnp.sum(y) + jnp.sum(x.real)

    value, gradient = eqx.filter_jit(eqx.filter_value_and_grad(loss))(layer)
    assert np.isfinite(value)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_initial_time_constants_cover_the_requested_range(blocks, key):
    layer = s7.S7Layer(3, 8, key=key, transition=s7.Stable(tau=(2, 200)), blocks=blocks, dtype=jnp.float64)
    ladder = np.tile(np.geomspace(2, 200, 8 // blocks), blocks)
    silence = np.zeros((1, 3))
    regular = np.asarray(layer.matrices(silence).transition[0])
    np.testing.assert_allclose(1 / (1 - regular), ladder, rtol=1e-12)
    asynchronous = np.asarray(layer.matrices(silence, np.ones(1)).transition[0])
    np.testing.assert_allclose(-1 / np.log(asynchronous), ladder, rtol=1e-12)


@pytest.mark.parametrize("transition", [s7.Stable(), s7.Stable(oscillate=True), s7.Plain(), s7.Step(), s7.Ring()])
def test_every_initial_state_remembers(transition, key):
    layer = s7.S7Layer(3, 8, key=key, transition=transition, blocks=2)
    modulus = np.abs(np.asarray(layer.matrices(np.zeros((1, 3))).transition[0]))
    assert modulus.min() > 0.3
    assert modulus.max() < 1
    assert len(np.unique(modulus.round(6))) == 4 or isinstance(transition, s7.Step)


def test_without_reparameterization_the_initial_spectrum_is_stable(key):
    """With inputs of unit variance, in regular and in asynchronous time; a million steps of them do not overflow."""
    layer = s7.S7Layer(64, 32, key=key, transition=s7.Plain(tau=(1, 50)))
    u = np.random.default_rng(0).standard_normal((2000, 64)).astype(np.float32)
    w = np.asarray(layer.transition.raw(layer.rates, jnp.asarray(u)))
    assert np.mean(np.abs(w) < 1) > 0.998
    assert np.log(np.abs(w) + 1e-9).mean(0).max() < 0  # products of factors go to zero


def test_each_harmonic_of_a_period_has_all_time_constants(key):
    transition = s7.Stable(oscillate=True, period=8, tau=(2, 200))
    layer = s7.S7Layer(3, 15, key=key, transition=transition, dtype=jnp.float64)
    factors = np.log(np.asarray(layer.matrices(np.zeros((1, 3))).transition[0])).reshape(3, 5)
    np.testing.assert_allclose(-1 / factors.real, np.repeat([[2], [20], [200]], 5, 1), rtol=1e-12)
    np.testing.assert_allclose(np.abs(factors.imag), np.pi / 4 * np.tile(np.arange(5), (3, 1)), rtol=1e-12)


def test_a_single_time_constant_is_the_geometric_mean():
    np.testing.assert_allclose(time_ladder(1, 2, 50), [10.0])


def test_hippo_frequencies_are_the_spectrum_of_its_normal_part():
    n = np.arange(6)
    root = np.sqrt(2 * n + 1)
    legs = -(np.tril(np.outer(root, root), -1) + np.diag(n + 1))
    normal = legs + np.outer(root, root) / 2
    spectrum = np.linalg.eigvals(normal)
    np.testing.assert_allclose(spectrum.real, -0.5, atol=1e-9)
    np.testing.assert_allclose(np.sort(spectrum.imag)[3:][::-1], hippo_frequencies(3), rtol=1e-9)


def test_a_constant_input_leaves_the_state_bounded_over_a_million_steps(key):
    layer = s7.S7Layer(2, 4, key=key, transition=s7.Stable(tau=(2, 1e5)))
    rows = layer.drive(jnp.ones((1, 2)))
    drive = jax.tree.map(lambda q: jnp.broadcast_to(q, (1_000_000, q.shape[1])), rows)
    x, final = eqx.filter_jit(s7.S7Layer.states)(layer, drive)
    # With the gain 1 - a the state is an average of its drive, so it never exceeds it.
    assert np.abs(x).max() <= np.abs(rows.input).max() * (1 + 1e-3)
    assert np.isfinite(final).all()


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: s7.Stable(a=0), "a=0 must be positive"),
        (lambda: s7.Stable(b=0.4), "b=0.4 must be at least 0.5"),
        (lambda: s7.Stable(gain="loud"), "gain='loud' is not one of"),  # type: ignore[arg-type]
        (lambda: s7.Stable(tau=(5, 2)), r"tau=\(5, 2\) must be two numbers in order"),
        (lambda: s7.Stable(period=1), "period=1 must be at least 2"),
        (lambda: s7.Stable(period=8), "period=8 needs oscillate=True"),
        (lambda: s7.Step(dt_min=0, dt_max=1), "dt_min=0 and dt_max=1 must be positive and in this order"),
        (lambda: s7.Ring(radius=(0.5, 1)), r"radius=\(0.5, 1\) must be two numbers between 0 and 1"),
        (lambda: s7.S7Layer(3, 8, key=jax.random.key(0), blocks=3), "blocks=3 does not divide state=8"),
    ],
)
def test_settings_out_of_range_are_rejected(build, message):
    with pytest.raises(ValueError, match=message):
        build()
