"""S4, Mamba-2, LinOSS and Mega against the equations of their papers in NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s7.baselines.linoss import LinOss
from s7.baselines.mamba2 import Mamba2
from s7.baselines.mega import Mega
from s7.baselines.s4 import S4, hippo_legs
from tests.baselines.checks import against, sigmoid, softplus


def linoss(scheme):
    """Rusch & Rus 2025: the block matrices of section 2.2 in real numbers."""

    def written(p, u, dt):
        step = sigmoid(p["step"])
        A = np.clip(p["A"] * step**2, 1e-5, 3.99) / step**2
        z, y, outputs = np.zeros_like(A), np.zeros_like(A), []
        for event in u:
            force = p["B"] @ event
            if scheme == "IM":
                for p_ in range(len(A)):
                    matrix = np.array([[1, step[p_] * A[p_]], [-step[p_], 1]])
                    z[p_], y[p_] = np.linalg.solve(matrix, [z[p_] + step[p_] * force[p_], y[p_]])
            else:
                z = z + step * (-A * y + force)
                y = y + step * z
            outputs.append(p["C"] @ y + p["D"] * event)
        return np.array(outputs)

    return written


@pytest.mark.parametrize("scheme", ["IM", "IMEX"])
def test_linoss(scheme):
    against(linoss(scheme), LinOss(scheme), tolerance=1e-10)


def test_the_symplectic_scheme_conserves_energy_and_the_implicit_one_does_not():
    A, step = jnp.array([0.3, 2.0]), jnp.array([0.2, 0.9])
    assert np.allclose(np.abs(LinOss("IMEX").discretize(A, step)[0]), 1, atol=1e-6)
    assert (np.abs(LinOss("IM").discretize(A, step)[0]) < 1).all()


def test_hippo_legs_is_diagonal_plus_rank_one():
    n = np.arange(8)
    A = -np.sqrt(np.outer(2 * n + 1, 2 * n + 1)) * (n[:, None] > n) - np.diag(n + 1)
    spectrum, P, B = hippo_legs(4)
    both = np.concatenate([spectrum, spectrum.conj()]), np.concatenate([P, P.conj()])
    dense = np.diag(both[0]) - np.outer(both[1], both[1].conj())
    # The same matrix in another basis: equal characteristic polynomials, and equal responses of the system.
    np.testing.assert_allclose(np.poly(dense), np.poly(A), rtol=1e-8)
    legs = np.sqrt(2 * n + 1.0)
    wanted = [legs @ np.linalg.matrix_power(A, k) @ legs for k in range(3)]
    input_ = np.concatenate([B, B.conj()])
    found = [(input_.conj() @ np.linalg.matrix_power(dense, k) @ input_).real for k in range(3)]
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


def s4(p, u, dt):
    """Gu et al. 2022: the bilinear step with dense matrices, for both of each conjugate pair."""

    def paired(q):
        return np.concatenate([q, q.conj()])

    outputs = np.zeros_like(u)
    for h in range(u.shape[1]):
        spectrum = paired(-np.exp(p["decay"][h]) + 1j * p["omega"][h])
        P, B, C = (paired(p[name][0, h] + 1j * p[name][1, h]) for name in "PBC")
        A, half = np.diag(spectrum) - np.outer(P, P.conj()), np.exp(p["log_step"][h]) / 2
        x, identity = np.zeros(len(B), complex), np.eye(len(B))
        for k, value in enumerate(u[:, h]):
            x = np.linalg.solve(identity - half * A, (identity + half * A) @ x + 2 * half * B * value)
            outputs[k, h] = (C @ x).real + p["D"][h] * value
    return outputs


def test_s4():
    against(s4, S4(dt_min=0.1, dt_max=0.5), tolerance=1e-9)


@given(length=st.sampled_from([2, 7, 30]), seed=st.integers(0, 99))
@settings(max_examples=5, deadline=None)
def test_the_convolution_of_s4_equals_its_recurrence(length, seed):
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        layer = S4(dt_min=0.1, dt_max=0.5).layer(2, 3, key=jax.random.key(seed), dtype=jnp.float64)
        u, mask = jnp.asarray(rng.standard_normal((length, 2))), jnp.asarray(rng.random(length) < 0.7)
        run = eqx.filter_jit(lambda layer, u, mask, state: layer(u, mask=mask, state=state))
        convolved, final = run(layer, u, mask, None)
        recurred, same = run(layer, u, mask, layer.init_state())
        np.testing.assert_allclose(convolved, recurred, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(final, same, rtol=1e-12)


def mamba2(p, u, dt, head=2, N=4):
    """Dao & Gu 2024, figure 6 (sequential block excluded): one decay per head, gated RMS norm before the output."""
    inputs, outputs = [np.zeros(len(p["c"]))] * len(p["K"]), []
    heads = len(p["A_log"])
    h = np.zeros((heads, head, N))
    for event in u:
        inputs.append(p["W"] @ event)
        mixed = p["c"] + sum(tap * inputs[-1 - j] for j, tap in enumerate(p["K"]))
        mixed = mixed * sigmoid(mixed)
        x, B, C = mixed[: heads * head].reshape(heads, head), mixed[-2 * N : -N], mixed[-N:]
        step = softplus(p["W_delta"] @ event + p["b_delta"])
        decay = np.exp(-step * np.exp(p["A_log"]))
        h = decay[:, None, None] * h + (step[:, None] * x)[:, :, None] * B
        y = (h @ C + p["D"][:, None] * x).reshape(-1)
        z = p["W_z"] @ event
        y = y * z * sigmoid(z)
        outputs.append(p["W_out"] @ (p["scale"] * y / np.sqrt(np.mean(y**2) + 1e-5)))
    return np.array(outputs)


@pytest.mark.parametrize("chunk", [64, 3])
def test_mamba2(chunk):
    against(mamba2, Mamba2(head=2, kernel=3, chunk=chunk), tolerance=1e-11)


def mega(chunk):
    """Ma et al. 2023, equations 6 to 14 with softmax attention and rotary positions; minus u, which the block adds."""

    def turned(q, place):
        half = len(q) // 2
        pairs = (q[:half] + 1j * q[half : 2 * half]) * np.exp(1j * place * 10_000.0 ** (-np.arange(half) / half))
        return np.concatenate([pairs.real, pairs.imag, q[2 * half :]])

    def silu(x):
        return x * sigmoid(x)

    def written(p, u, dt):
        alpha, delta = sigmoid(p["alpha"]), sigmoid(p["delta"])
        h, keys, values, outputs = np.zeros_like(alpha), [], [], []
        for n, event in enumerate(u):
            place = n % chunk if chunk else n
            if place == 0:
                keys, values = [], []
            h = alpha * p["beta"] * event + (1 - alpha * delta) * h
            e = silu((p["eta"] * h).sum(0) + p["D"] * event)
            z = silu(p["W_z"] @ e + p["b_z"])
            keys.append(turned(p["kappa_k"] * z + p["mu_k"], place))
            values.append(silu(p["W_v"] @ event + p["b_v"]))
            scores = np.array(keys) @ turned(p["kappa_q"] * z + p["mu_q"], place) / np.sqrt(len(z))
            o = np.exp(scores) / np.exp(scores).sum() @ np.array(values)
            gamma, phi = silu(p["W_gamma"] @ e + p["b_gamma"]), sigmoid(p["W_phi"] @ e + p["b_phi"])
            outputs.append(phi * (silu(p["W_h"] @ e + p["U_h"] @ (gamma * o) + p["b_h"]) - event))
        return np.array(outputs)

    return written


@pytest.mark.parametrize("chunk", [0, 3])
def test_mega(chunk):
    against(mega(chunk), Mega(chunk=chunk))


def test_chunks_of_mega_stream():
    layer = Mega(chunk=3).layer(2, 2, key=jax.random.key(0), dtype=jnp.float32)
    u = jnp.asarray(np.random.default_rng(0).standard_normal((8, 2)), jnp.float32)
    step, state, found = eqx.filter_jit(lambda u, state: layer(u, state=state)), layer.init_state(), []
    for piece in (u[:2], u[2:4], u[4:6], u[6:]):
        y, state = step(piece, state)
        found.append(y)
    np.testing.assert_allclose(np.concatenate(found), eqx.filter_jit(layer)(u)[0], rtol=1e-5, atol=1e-6)


LONG = [Mamba2(head=2, chunk=4), S4(), LinOss("IMEX"), Mega(chunk=4), Mega()]


@pytest.mark.parametrize("kind", LONG, ids=lambda kind: type(kind).__name__)
def test_long_sequences_in_chunks_with_padding_and_starts(kind):
    rng = np.random.default_rng(0)
    layer = kind.layer(3, 4, key=jax.random.key(0), dtype=jnp.float32)
    u = jnp.asarray(rng.standard_normal((23, 3)), jnp.float32)
    mask, reset = jnp.asarray(rng.random(23) < 0.8), jnp.arange(23) == 9
    run = eqx.filter_jit(lambda layer, u, mask, reset: layer(u, mask=mask, reset=reset)[0])
    found = run(layer, u, mask, reset)
    apart = [run(layer, u[part][mask[part]], None, None) for part in (slice(0, 9), slice(9, 23))]
    np.testing.assert_allclose(found[mask], np.concatenate(apart), rtol=1e-4, atol=1e-5)
