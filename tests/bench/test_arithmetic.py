"""Operations of traced functions, against formulas."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from s7.bench.arithmetic import operations

A, B = jnp.zeros((3, 4)), jnp.zeros((4, 5))


def scanned(x):
    return lax.scan(lambda carry, _: (jnp.tanh(carry @ carry), None), x, None, length=7)[0]


@pytest.mark.parametrize(
    ("function", "arguments", "count"),
    [
        (lambda a, b: a @ b, (A, B), 2 * 3 * 4 * 5),
        (lambda a: a * a + 1, (A,), 2 * 12),
        (lambda a: a.sum(), (A,), 12),
        (lambda a: a.T.reshape(-1)[:3], (A,), 0),
        (lambda a: a > 0, (A,), 0),
        (jax.jit(lambda a, b: jax.checkpoint(jnp.matmul)(a, b)), (A, B), 2 * 3 * 4 * 5),
        (scanned, (jnp.zeros((3, 3)),), 7 * (2 * 27 + 9)),
        (lambda a, b: a @ b, (A.astype(complex), B.astype(complex)), 8 * 3 * 4 * 5),
        (lambda a: lax.cond(a.sum() > 0, jnp.sin, lambda a: a, a), (A,), 12 + 12),
    ],
)
def test_operations(function, arguments, count):
    assert operations(function, *arguments) == count
