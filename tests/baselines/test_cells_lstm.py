"""The LSTM against its equations in NumPy."""

import jax
import numpy as np

from s7.baselines.lstm import Lstm
from tests.baselines.checks import against, sigmoid


def lstm(parameters, u, dt):
    """h at each step: Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al. 2000."""
    W, U, b = (parameters[name] for name in ("W", "U", "b"))
    h = c = np.zeros(U.shape[1])
    outputs = []
    for x in u:
        i, f, g, o = np.split(W @ x + U @ h + b, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.array(outputs)


def test_lstm():
    against(lstm, Lstm())


def test_the_forget_gates_start_open():
    parameters = Lstm(forget=2.0).init(3, key=jax.random.key(0), dtype="float32")
    assert parameters["b"].tolist() == [0] * 3 + [2] * 3 + [0] * 6
