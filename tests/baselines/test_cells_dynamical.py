"""Continuous-time, oscillatory and constrained cells against the equations of their papers in NumPy."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from s7.baselines.cfc import Cfc
from s7.baselines.cornn import CoRnn
from s7.baselines.exprnn import ExpRnn
from s7.baselines.fastgrnn import FastGrnn
from s7.baselines.gru_ode import GruOde
from s7.baselines.indrnn import IndRnn
from s7.baselines.lem import Lem
from s7.baselines.lipschitz_rnn import LipschitzRnn
from s7.baselines.ode_rnn import OdeRnn
from s7.baselines.unicornn import UniCornn
from tests.baselines.checks import against, sigmoid

CELLS = (OdeRnn(), GruOde(), Cfc(), CoRnn(), UniCornn(), Lem(), IndRnn(), FastGrnn(), LipschitzRnn(), ExpRnn())
OF_GAPS = {OdeRnn, GruOde, Cfc}


def gru(W, U, b, u, h):
    """Cho et al. 2014, with the reset gate before the product."""
    (Wz, Wr, Wg), (Uz, Ur, Ug), (bz, br, bg) = (np.split(q, 3) for q in (W, U, b))
    z, r = sigmoid(Wz @ u + Uz @ h + bz), sigmoid(Wr @ u + Ur @ h + br)
    return z, np.tanh(Wg @ u + Ug @ (r * h) + bg)


def flow_and_update(parameters, u, dt, speed, steps):
    """Euler's method over each gap, a GRU at each event."""
    W, U, b = (parameters[name] for name in "WUb")
    h = np.zeros(U.shape[1])
    outputs = []
    for x, gap in zip(u, dt, strict=True):
        for _ in range(steps):
            h = h + gap / steps * speed(parameters, h)
        z, g = gru(W, U, b, x, h)
        h = z * h + (1 - z) * g
        outputs.append(h)
    return np.array(outputs)


def speed_of_ode_rnn(parameters, h):
    """Rubanova et al. 2019: a network of one hidden layer."""
    F, f, G, g = (parameters[name] for name in "FfGg")
    return G @ np.tanh(F @ h + f) + g


def speed_of_gru_ode(parameters, h):
    """De Brouwer et al. 2019: a GRU's difference from where it is, without input."""
    z, g = gru(np.zeros_like(parameters["V"]), parameters["V"], parameters["c"], np.zeros_like(h), h)
    return (1 - z) * (g - h)


def gru_ode(parameters, u, dt, unfolds):
    """Gates are constant over a part of the gap; the remaining equation is linear and decays from h to g."""
    W, U, b, V, c = (parameters[name] for name in "WUbVc")
    h = np.zeros(U.shape[1])
    outputs = []
    for x, gap in zip(u, dt, strict=True):
        for _ in range(unfolds):
            z, g = gru(W, V, c, np.zeros_like(x), h)
            h = g + np.exp(-(1 - z) * gap / unfolds) * (h - g)
        z, g = gru(W, U, b, x, h)
        h = z * h + (1 - z) * g
        outputs.append(h)
    return np.array(outputs)


def cfc(parameters, u, dt):
    """Hasani et al. 2022: two states and a gate of time between them."""
    W, U, b, V, c = (parameters[name] for name in "WUbVc")
    h = np.zeros(U.shape[1])
    outputs = []
    for x, gap in zip(u, dt, strict=True):
        backbone = 1.7159 * np.tanh((W @ x + U @ h + b) * 2 / 3)
        f, s, g, other = np.split(V @ backbone + c, 4)
        gate = sigmoid(-f * gap + s)
        h = gate * np.tanh(g) + (1 - gate) * np.tanh(other)
        outputs.append(h)
    return np.array(outputs)


def cornn(parameters, u, dt, step, gamma, epsilon):
    """Rusch & Mishra 2021, the scheme that treats the damping explicitly."""
    W, U, Z, b = (parameters[name] for name in "WUZb")
    y = z = np.zeros(len(b))
    outputs = []
    for x in u:
        z = z + step * np.tanh(U @ y + Z @ z + W @ x + b) - step * gamma * y - step * epsilon * z
        y = y + step * z
        outputs.append(y)
    return np.array(outputs)


def unicornn(parameters, u, dt, step, alpha):
    """Rusch & Mishra 2021 (ICML): the symplectic Euler scheme."""
    W, w, b, c = (parameters[name] for name in "Wwbc")
    pace = step * (0.5 + 0.5 * np.tanh(c / 2))
    y = z = np.zeros(len(b))
    outputs = []
    for x in u:
        z = z - pace * (np.tanh(w * y + W @ x + b) + alpha * y)
        y = y + pace * z
        outputs.append(y)
    return np.array(outputs)


def lem(parameters, u, dt, step):
    """Rusch et al. 2022: two states, the first seen by the second."""
    W1, Wz, W2, Wy = np.split(parameters["W"], 4)
    b1, bz, b2, by = np.split(parameters["b"], 4)
    U1, Uz, U2 = np.split(parameters["U"], 3)
    y = z = np.zeros(len(b1))
    outputs = []
    for x in u:
        first = step * sigmoid(U1 @ y + W1 @ x + b1)
        second = step * sigmoid(U2 @ y + W2 @ x + b2)
        z = (1 - first) * z + first * np.tanh(Uz @ y + Wz @ x + bz)
        y = (1 - second) * y + second * np.tanh(parameters["Z"] @ z + Wy @ x + by)
        outputs.append(y)
    return np.array(outputs)


def indrnn(parameters, u, dt):
    """Li et al. 2018, with the bound on its recurrent weights."""
    W, w, b = (parameters[name] for name in "Wwb")
    h = np.zeros(len(b))
    outputs = []
    for x in u:
        h = np.maximum(W @ x + np.clip(w, -1, 1) * h + b, 0)
        outputs.append(h)
    return np.array(outputs)


def fastgrnn(parameters, u, dt):
    """Kusupati et al. 2018, of full rank."""
    W, U, zeta, nu = (parameters[name] for name in ("W", "U", "zeta", "nu"))
    bz, bh = np.split(parameters["b"], 2)
    h = np.zeros(len(bz))
    outputs = []
    for x in u:
        z = sigmoid(W @ x + U @ h + bz)
        candidate = np.tanh(W @ x + U @ h + bh)
        h = (sigmoid(zeta) * (1 - z) + sigmoid(nu)) * candidate + z * h
        outputs.append(h)
    return np.array(outputs)


def lipschitz_rnn(parameters, u, dt, step, beta, gamma):
    """Erichson et al. 2021, by Euler's method."""
    W, M, N, b = (parameters[name] for name in "WMNb")
    A, U = ((1 - beta) * (Q + Q.T) + beta * (Q - Q.T) - gamma * np.identity(len(Q)) for Q in (M, N))
    h = np.zeros(len(b))
    outputs = []
    for x in u:
        h = h + step * A @ h + step * np.tanh(U @ h + W @ x + b)
        outputs.append(h)
    return np.array(outputs)


def skew(above):
    """The skew matrix with these numbers above its diagonal, row by row."""
    units = round((1 + np.sqrt(1 + 8 * len(above))) / 2)
    numbers = iter(above)
    A = np.zeros((units, units))
    for row in range(units):
        for column in range(row + 1, units):
            A[row, column] = next(numbers)
            A[column, row] = -A[row, column]
    return A


def exponential(A):
    """Taylor's series of A/1024, squared ten times."""
    term = total = np.identity(len(A))
    for n in range(1, 12):
        term = term @ A / 1024 / n
        total = total + term
    for _ in range(10):
        total = total @ total
    return total


def exprnn(parameters, u, dt):
    """Lezcano-Casado & Martínez-Rubio 2019, with the modrelu of Arjovsky et al. 2016."""
    W, b = parameters["W"], parameters["b"]
    B = exponential(skew(parameters["A"]))
    h = np.zeros(len(b))
    outputs = []
    for x in u:
        h = W @ x + B @ h
        h = np.where(np.abs(h) + b > 0, h + np.sign(h) * b, 0)
        outputs.append(h)
    return np.array(outputs)


WRITTEN = {
    OdeRnn(unfolds=3): partial(flow_and_update, speed=speed_of_ode_rnn, steps=3),
    GruOde(unfolds=3): partial(gru_ode, unfolds=3),
    Cfc(backbone=5): cfc,
    # Larger than the published steps, with which one of seven events would have little effect.
    CoRnn(step=0.3, gamma=1.5, epsilon=0.7): partial(cornn, step=0.3, gamma=1.5, epsilon=0.7),
    UniCornn(step=0.4, alpha=2.0): partial(unicornn, step=0.4, alpha=2.0),
    Lem(step=0.8): partial(lem, step=0.8),
    IndRnn(): indrnn,
    FastGrnn(): fastgrnn,
    LipschitzRnn(step=0.4, beta=0.7, gamma=0.2): partial(lipschitz_rnn, step=0.4, beta=0.7, gamma=0.2),
    ExpRnn(): exprnn,
}

each = partial(pytest.mark.parametrize, ids=lambda kind: type(kind).__name__)


@each("kind", list(WRITTEN))
def test_equations(kind):
    against(WRITTEN[kind], kind)


def layer_of(kind, width=4, dtype=jnp.float32):
    return kind.layer(width, 1, key=jax.random.key(0), dtype=dtype)


@eqx.filter_jit
def outputs_of(layer, u, dt=None):
    return layer(u, dt)[0]


@eqx.filter_jit
def outputs_and_slopes(layer, u, dt):
    def size(inputs):
        layer, u, dt = inputs
        outputs, _ = layer(u, dt)
        return jnp.sum(outputs**2), outputs

    return eqx.filter_grad(size, has_aux=True)((layer, u, dt))[::-1]


@each("kind", CELLS)
def test_no_gap_and_endless_gaps_have_values_and_gradients(kind):
    layer, u = layer_of(kind), jax.random.normal(jax.random.key(1), (6, 4), jnp.float32)
    found = {}
    for gap in (0.0, 1e4):
        found[gap], slopes = outputs_and_slopes(layer, u, jnp.full(6, gap, jnp.float32))
        assert np.isfinite(found[gap]).all()
        assert all(np.isfinite(q).all() for q in jax.tree.leaves(slopes))
        assert all(np.any(q != 0) for q in jax.tree.leaves(slopes[1]))
    assert type(kind).reads_gaps == (type(kind) in OF_GAPS)
    assert (type(kind) in OF_GAPS) == np.any(found[0.0] != found[1e4])


@pytest.mark.parametrize(
    ("kind", "speed"), [(OdeRnn(), speed_of_ode_rnn), (GruOde(), speed_of_gru_ode)], ids=["OdeRnn", "GruOde"]
)
def test_the_state_moves_over_gaps_and_only_then(kind, speed):
    """No gap, no flow; and both methods are of first order: half the step and half the way, a quarter of the error."""
    layer, u = layer_of(kind, dtype=jnp.float64), np.random.default_rng(0).standard_normal((5, 4))
    parameters = {name: np.asarray(q) for name, q in layer.parameters.items()}
    still = flow_and_update(parameters, u, np.zeros(5), lambda parameters, h: np.nan, 0)
    np.testing.assert_allclose(outputs_of(layer, u, np.zeros(5)), still, rtol=1e-12)
    errors = []
    for gap in (0.4, 0.2):
        found, exact = outputs_of(layer, u, np.full(5, gap)), flow_and_update(parameters, u, [gap] * 5, speed, 300)
        errors.append(np.abs(found - exact).max())
        assert errors[-1] < 0.1 * np.abs(exact - still).max()
    assert 0 < 3 * errors[1] < errors[0]


def test_gru_ode_stays_within_one_over_any_gap():
    u = 10 * jax.random.normal(jax.random.key(2), (50, 4))
    outputs = outputs_of(layer_of(GruOde(unfolds=1)), u, 10.0 ** jnp.linspace(-3, 4, 50))
    assert np.abs(outputs).max() <= 1


def test_cornn_keeps_below_the_force_over_the_stiffness():
    """Oscillators damped beyond oscillation never pass the rest position under the greatest force, 1/γ."""
    kind = CoRnn()
    layer = layer_of(kind)
    signs = jnp.repeat(jax.random.rademacher(jax.random.key(3), (10, 4), jnp.float32), 100, axis=0)
    outputs, _ = layer(30 * signs)
    assert 0.9 / kind.gamma < np.abs(outputs).max() <= (1 + 1e-5) / kind.gamma


def test_unicornn_neither_grows_nor_fades():
    """Under a constant force each unit swings as far at the end as at the start, where Euler's step would not."""
    layer = layer_of(UniCornn(), dtype=jnp.float64)
    outputs, _ = layer(np.ones((1000, 4)) * np.random.default_rng(1).standard_normal(4))
    early, late = np.abs(outputs[:200]).max(axis=0), np.abs(outputs[-200:]).max(axis=0)
    assert early.min() > 1e-3
    np.testing.assert_allclose(late, early, rtol=0.02)


def test_lem_states_are_bounded():
    u = 10 * jax.random.normal(jax.random.key(4), (200, 4))
    outputs, (y, z) = layer_of(Lem())(u)
    assert 0.5 < np.abs(outputs).max() <= 1
    assert np.abs(z).max() <= 1
    np.testing.assert_array_equal(outputs[-1], y)


def test_indrnn_clips_recurrent_weights_at_their_bound():
    layer = layer_of(IndRnn())
    stray = eqx.tree_at(lambda layer: layer.parameters["w"], layer, jnp.full(4, 1.5, jnp.float32))
    bound = eqx.tree_at(lambda layer: layer.parameters["w"], layer, jnp.ones(4, jnp.float32))
    u, dt = jax.random.normal(jax.random.key(1), (6, 4), jnp.float32), jnp.zeros(6, jnp.float32)
    (outputs, slopes), (wanted, _) = (outputs_and_slopes(q, u, dt) for q in (stray, bound))
    np.testing.assert_allclose(outputs, wanted, rtol=1e-6)
    assert np.abs(slopes[0].parameters["w"]).max() > 0


@pytest.mark.parametrize("beta", [0.5, 0.75, 1.0])
def test_lipschitz_parts(beta):
    """The symmetric part is (1 - β)(M + Mᵀ) - γ and the skew part is β (M - Mᵀ)."""
    kind = LipschitzRnn(beta=beta, gamma=0.3)
    M = np.random.default_rng(0).standard_normal((5, 5))
    A = np.asarray(kind.combined(jnp.asarray(M)))
    np.testing.assert_allclose((A + A.T) / 2, (1 - beta) * (M + M.T) - 0.3 * np.identity(5), atol=1e-12)
    np.testing.assert_allclose((A - A.T) / 2, beta * (M - M.T), atol=1e-12)


def test_lipschitz_is_stable_for_a_large_gamma():
    kind = LipschitzRnn(gamma=1.0)
    outputs, _ = layer_of(kind)(jax.random.normal(jax.random.key(5), (1000, 4)))
    # |A h| ≥ |h| (γ less the symmetric part's largest eigenvalue) holds back a force of length √4 at most.
    assert np.abs(outputs).max() < 4


prepared = jax.jit(ExpRnn().prepare)


@pytest.mark.parametrize("units", [1, 5])
def test_exprnn_is_orthogonal_and_keeps_norms(units):
    kind = ExpRnn()
    parameters = kind.init(units, key=jax.random.key(0), dtype=jnp.float64)
    rng = np.random.default_rng(0)
    parameters["A"] = parameters["A"] + 3 * rng.standard_normal(parameters["A"].shape)
    turned = prepared(parameters)
    np.testing.assert_allclose(turned["U"] @ turned["U"].T, np.identity(units), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(turned["U"]), 1)
    # modrelu starts linear, so that a state without input only turns.
    h = jnp.asarray(rng.standard_normal(units))
    (after,) = kind.advance(turned, jnp.zeros(units), (h,), jnp.ones(()))
    np.testing.assert_allclose(np.linalg.norm(after), np.linalg.norm(h))
    assert units == 1 or not np.allclose(after, h)


def test_exprnn_starts_with_rotations_of_pairs():
    U = np.asarray(prepared(ExpRnn().init(5, key=jax.random.key(0), dtype=jnp.float64))["U"])
    np.testing.assert_allclose(np.trace(U[:2, :2]), 2 * np.cos(np.pi / 4))
    np.testing.assert_allclose(np.trace(U[2:4, 2:4]), 2 * np.cos(3 * np.pi / 4))
    np.testing.assert_allclose(U[4], [0, 0, 0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(U[:2, 2:], 0, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "wrong", "named"),
    [
        (OdeRnn, {"unfolds": 0}, "unfolds=0"),
        (GruOde, {"unfolds": 0}, "unfolds=0"),
        (Cfc, {"backbone": 0}, "backbone=0"),
        (CoRnn, {"step": 1.0}, "step=1.0"),
        (CoRnn, {"gamma": -1.0}, "gamma=-1.0"),
        (UniCornn, {"step": 0.5}, "step=0.5"),
        (UniCornn, {"alpha": -1.0}, "alpha=-1.0"),
        (Lem, {"step": 1.5}, "step=1.5"),
        (LipschitzRnn, {"beta": 1.5}, "beta=1.5"),
        (LipschitzRnn, {"step": 0.0}, "step=0.0"),
    ],
)
def test_invalid_settings_are_rejected(kind, wrong, named):
    with pytest.raises(ValueError, match=f"{kind.__name__}: .*{named}"):
        kind(**wrong)
