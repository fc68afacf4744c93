"""The recurrence in all its implementations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import s7
from s7 import reference
from s7.backend_selection import current_backend
from s7.recurrence import over_windows, recurrence

run = jax.jit(recurrence, static_argnames="reverse")


def problem(length, state, *, complex_numbers=False, seed=0):
    rng = np.random.default_rng(seed)

    def numbers(*shape):
        values = rng.uniform(-1, 1, shape)
        return values + 1j * rng.uniform(-1, 1, shape) * 0.1 if complex_numbers else values

    return numbers(length, state), numbers(length, state), numbers(state)


def by_loop(a, v, x):
    states = []
    for a_k, v_k in zip(a, v, strict=True):
        x = a_k * x + v_k
        states.append(x)
    return np.array(states)


@pytest.mark.parametrize("complex_numbers", [False, True])
@pytest.mark.parametrize("backend", ["xla", "parallel"])
@given(length=st.sampled_from([1, 2, 3, 17, 64, 501]), state=st.sampled_from([1, 3]))
@settings(max_examples=5)
def test_equals_the_loop_in_both_directions(backend, complex_numbers, length, state):
    a, v, x = problem(length, state, complex_numbers=complex_numbers)
    with s7.backend(backend):
        forward = run(a, v, x)
        reverse = run(a, v, x, reverse=True)
    np.testing.assert_allclose(forward, by_loop(a, v, x), atol=1e-12)
    np.testing.assert_allclose(reverse, by_loop(a[::-1], v[::-1], x)[::-1], atol=1e-12)


def test_reverse_equals_the_flipped_sequence_to_the_bit():
    a, v, x = problem(64, 3)
    np.testing.assert_array_equal(run(a, v, x, reverse=True), run(a[::-1], v[::-1], x)[::-1])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("complex_numbers", [False, True])
@pytest.mark.parametrize("backend", ["xla", "parallel"])
def test_the_gradient_equals_that_of_the_loop(backend, complex_numbers, reverse):
    arguments = problem(9, 3, complex_numbers=complex_numbers)
    weights = np.random.default_rng(5).normal(size=(9, 3))

    def through_the_loop(a, v, x):
        step = lambda x, av: (av[0] * x + av[1],) * 2  # noqa: E731
        return jax.lax.scan(step, x, (a, v), reverse=reverse)[1]

    def gradient(solve):
        loss = lambda *q: jnp.sum(weights * jnp.sin(solve(*q)).real)  # noqa: E731
        return jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(*arguments)

    with s7.backend(backend):
        fast = gradient(lambda a, v, x: recurrence(a, v, x, reverse=reverse))
    for ours, plain in zip(fast, gradient(through_the_loop), strict=True):
        np.testing.assert_allclose(ours, plain, atol=1e-12)


def test_a_zero_factor_starts_a_new_sequence():
    a, v, x = problem(20, 3)
    a[8] = 0
    states = run(a, v, x)
    np.testing.assert_array_equal(states[8:], run(a[8:], v[8:], np.zeros(3)))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("stride", [1, 2, 5])
def test_windows_equal_every_nth_state(stride, reverse):
    a, v, x = problem(20, 3)
    states = run(a, v, x, reverse=reverse)
    A, V = jax.jit(over_windows, static_argnums=2, static_argnames="reverse")(a, v, stride, reverse=reverse)
    ends = states[::stride] if reverse else states[stride - 1 :: stride]
    np.testing.assert_allclose(run(A, V, x, reverse=reverse), ends, atol=1e-13)
    if not reverse:
        np.testing.assert_allclose(ends, reference.pooled_state(a, v, x, stride), atol=1e-12)


def test_each_backend_compiles_its_own_code():
    seen = []

    @jax.jit
    def compiled(a):
        seen.append(current_backend(4))
        return a

    for name in ("xla", "parallel", "xla"):
        with s7.backend(name):
            compiled(1.0)
    assert seen == ["xla", "parallel"]


def test_the_environment_selects_the_backend_and_invalid_names_are_rejected(monkeypatch):
    monkeypatch.setenv("S7_BACKEND", "parallel")
    assert current_backend(4) == "parallel"
    with s7.backend("xla"):
        assert current_backend(4) == "xla"
    with pytest.raises(ValueError, match="no backend 'cuda'; choose from auto, native, parallel, xla"):
        s7.backend("cuda")
    monkeypatch.setenv("S7_BACKEND", "nonsense")
    with pytest.raises(ValueError, match="S7_BACKEND: no backend 'nonsense'"):
        current_backend(4)
