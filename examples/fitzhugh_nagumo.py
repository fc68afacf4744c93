"""The FitzHugh–Nagumo neuron: spikes that relax slowly, so the next value needs the hidden w and hence the past.

    v' = v − v³/3 − w + 0.5            w' = (v + 0.7 − 0.8 w) / 50            v(0) ~ U(−1, 1),  w(0) = 0

A model reads v alone, up to now, and predicts it 0.4 time units ahead.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

END = 400.0
SAMPLES = 1001
# Steps of 0.05: RK4 is then right to about 1e-6, a hundredth of what the models reach.
SUBSTEPS = 8


class Split(NamedTuple):
    """Inputs v_k and targets v_{k+1} of some sequences."""

    inputs: Float[np.ndarray, "N L 1"]
    targets: Float[np.ndarray, "N L 1"]


def rates(state: Float[np.ndarray, "2 N"]) -> Float[np.ndarray, "2 N"]:
    """(v', w') of every sequence."""
    v, w = state
    return np.stack([v - v**3 / 3 - w + 0.5, (v + 0.7 - 0.8 * w) / 50])


def simulate(v0: Float[np.ndarray, " N"], substeps: int = SUBSTEPS) -> Float[np.ndarray, "N T"]:
    """v at `SAMPLES` even times from 0 to `END`, all sequences at once, by classical Runge–Kutta."""
    h = END / (SAMPLES - 1) / substeps
    state = np.stack([v0, np.zeros_like(v0)])
    trace = [v0]
    for _ in range(SAMPLES - 1):
        for _ in range(substeps):
            k1 = rates(state)
            k2 = rates(state + h / 2 * k1)
            k3 = rates(state + h / 2 * k2)
            k4 = rates(state + h * k3)
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        trace.append(state[0])
    return np.stack(trace, axis=1)


def splits(seed: int, sizes: tuple[int, ...]) -> list[Split]:
    """Disjoint splits of `sizes` sequences each, of one random draw."""
    v0 = np.random.default_rng(seed).uniform(-1, 1, sum(sizes))
    trace = simulate(v0).astype(np.float32)[..., None]
    parts = np.split(trace, np.cumsum(sizes)[:-1])
    return [Split(part[:, :-1], part[:, 1:]) for part in parts]
