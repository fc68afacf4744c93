"""Baselines against the equations of their papers: a float64 layer compared with a NumPy loop."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from s7.sequence_layer import LayerKind

LENGTH, WIDTH, STATE = 7, 3, 4

Written = Callable[[dict[str, np.ndarray], np.ndarray, np.ndarray], np.ndarray]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(x, 0)


def against(written: Written, kind: LayerKind, *, tolerance: float = 1e-12) -> None:
    """The layer matches the equations, with gaps and in regular time, with perturbed parameters."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        layer = kind.layer(WIDTH, STATE, key=jax.random.key(1), dtype=jnp.float64)
        # Biases that start at zero, or at one, would hide where they go.
        layer = jax.tree.map(lambda q: q + 0.3 * rng.standard_normal(q.shape), layer)
        u, dt = rng.standard_normal((LENGTH, WIDTH)), rng.uniform(0, 2, LENGTH)
        parameters = {name: np.asarray(q) for name, q in layer.parameters.items()}
        for gaps in (dt, None):
            wanted = written(parameters, u, np.ones(LENGTH) if gaps is None else gaps)
            found, _ = eqx.filter_jit(lambda layer, u, gaps: layer(u, gaps))(layer, u, gaps)
            assert wanted.shape == found.shape == (LENGTH, WIDTH)
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=tolerance, atol=tolerance)
