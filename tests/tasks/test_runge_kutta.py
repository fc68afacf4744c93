"""The vectorized RK45 against that of SciPy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from s7.tasks.runge_kutta import solve


@given(
    start=st.lists(st.floats(-3, 3), min_size=1, max_size=5),
    tolerance=st.sampled_from([1e-3, 1e-5, 1e-8]),
    samples=st.integers(2, 40),
)
def test_each_sequence_takes_scipys_steps(start, tolerance, samples):
    def rates(state):
        x, v = state
        return np.stack([v, -x - 0.2 * v])

    times = np.linspace(0, 12, samples)
    initial = np.stack([np.array(start), np.ones(len(start))])
    found = solve(rates, initial, times, tolerance, 1e-6)
    for n in range(len(start)):
        wanted = solve_ivp(lambda t, y: rates(y), (0, 12), initial[:, n], t_eval=times, rtol=tolerance, atol=1e-6).y
        np.testing.assert_allclose(found[:, :, n].T, wanted, atol=1e-9)


def test_a_fixed_point_does_not_move():
    found = solve(np.zeros_like, np.array([[1.0, 0.0], [2.0, 0.0]]), np.linspace(0, 5, 4), 1e-3, 1e-6)
    assert found.tolist() == [[[1, 0], [2, 0]]] * 4
