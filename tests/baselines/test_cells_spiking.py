"""Spiking cells and the LSTM after a convolution against their equations in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np

from s7.baselines.bilstm_conv import ConvLstm
from s7.baselines.lsn import Lsn
from s7.baselines.sgn import Sgn
from s7.baselines.spiking import spikes
from tests.baselines.checks import WIDTH, against, sigmoid


def test_sgn():
    def written(p, u, dt):
        alpha = np.clip(p["alpha"], np.exp(-1 / 5), np.exp(-1 / 25))
        beta = np.clip(p["beta"], np.exp(-1 / 30), np.exp(-1 / 120))
        a, c, V = np.clip(p["a"], -1, 1), np.clip(p["c"], 0, 2), p["V"] - np.diag(np.diag(p["V"]))
        s = v = w = np.zeros(WIDTH)
        outputs = []
        for event in u:
            w = beta * w + a * v + c * s
            v = alpha * (v - s) + (1 - alpha) * (p["W"] @ event + p["b"] + V @ s - w)
            s = np.where(v >= 1, 1.0, 0.0)
            outputs.append(s)
        return np.array(outputs)

    against(written, Sgn())


def test_lsn():
    delays, spread, tau = 4, 0.8, 3.0

    def written(p, u, dt):
        v = s = np.zeros(WIDTH)
        outputs = []
        for k in range(len(u)):
            current = p["b"].copy()
            for i in range(WIDTH):
                for j in range(WIDTH):
                    delay = np.clip(p["delay"][i, j], 0, delays - 1)
                    kernel = np.exp(-0.5 * ((np.arange(delays) - delay) / spread) ** 2)
                    kernel /= kernel.sum()
                    current[i] += p["W"][i, j] * sum(kernel[d] * u[k - d, j] for d in range(min(delays, k + 1)))
            v = (1 - 1 / tau) * v * (1 - s) + current
            s = np.where(v >= 1, 1.0, 0.0)
            outputs.append(s)
        return np.array(outputs)

    against(written, Lsn(delays=delays, spread=spread, tau=tau))


def test_the_surrogate_gradient_is_a_box():
    gradient = jax.vmap(jax.grad(lambda v: spikes(v[None])[0]))(jnp.array([0.4, 0.6, 1.0, 1.4, 1.6]))
    np.testing.assert_array_equal(gradient, [0, 0.5, 0.5, 0.5, 0])


def test_convolution_and_lstm():
    def written(p, u, dt):
        taps = p["K"].reshape(3, WIDTH, WIDTH)
        h = c = np.zeros(WIDTH)
        outputs = []
        for k in range(len(u)):
            x = np.maximum(0, p["c"] + sum(taps[j] @ u[k - j] for j in range(min(3, k + 1))))
            i, f, g, o = np.split(p["W"] @ x + p["U"] @ h + p["b"], 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            outputs.append(h)
        return np.array(outputs)

    against(written, ConvLstm(kernel=3))
