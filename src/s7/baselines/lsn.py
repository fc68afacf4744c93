"""A spiking network with learned delays.

Hammouamri, Khalfaoui-Hassani & Masquelier, Learning delays in spiking neural networks using dilated convolutions with
learnable spacings, ICLR 2024 (arXiv 2306.17670).
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from s7.baselines.architecture import Architecture, bare
from s7.baselines.cell import Cell
from s7.baselines.delay_line import arrivals
from s7.baselines.spiking import spikes
from s7.contractions import linear
from s7.initialization import Parameters, constant, draw, split


@dataclass(frozen=True)
class Lsn(Cell):
    """v_k = (1 - 1/τ) v_{k-1} (1 - s_{k-1}) + Σ_j W_ij Σ_d κ(d - d_ij) x_{k-d, j} + b        s_k = 1 where v_k ≥ 1

    Each synapse has a weight W_ij and a delay d_ij between 0 and `delays` - 1 events, both learned. The kernel κ is a
    Gaussian of width `spread`, normalized over the possible delays, so that delays have gradients. A spike resets the
    membrane potential v. The output is the spikes. The paper narrows the Gaussian during training and then rounds the
    delays; here the width is constant. Time gaps are ignored.

    Args:
        delays: The number of possible delays.
        spread: The width of the kernel, in events.
        tau: The time constant of the membrane, in events.
    """

    delays: int = 10
    spread: float = 1.0
    tau: float = 5.0

    def __post_init__(self):
        if self.delays < 1:
            raise ValueError(f"Lsn: delays={self.delays} must be at least 1")
        if not (self.spread > 0 and self.tau > 1):
            raise ValueError(f"Lsn: spread={self.spread} must be positive and tau={self.tau} above 1")

    def init(self, units, *, key, dtype):
        """Draw weights, and delays uniformly; b is zero."""
        weights_key, delays_key = split(key, 2)
        weights = draw({"W": ((units, units), 1.5 / math.sqrt(units))}, key=weights_key, dtype=dtype)
        delays = jax.random.uniform(delays_key, (units, units), dtype, 0, self.delays - 1)
        return weights | {"delay": delays, "b": constant(0, units, dtype)}

    def start(self, units, dtype):
        """Return zero spikes and potential, and no delayed inputs."""
        waiting = jnp.asarray(np.zeros((self.delays - 1, units)), dtype)
        return constant(0, units, dtype), constant(0, units, dtype), waiting

    def kernel(self, parameters: Parameters) -> Float[Array, "D H H"]:
        """The weight of each synapse at each delay."""
        places = jnp.arange(self.delays, dtype=parameters["W"].dtype)[:, None, None]
        delay = jnp.clip(parameters["delay"], 0, self.delays - 1)
        shares = jax.nn.softmax(-0.5 * ((places - delay) / self.spread) ** 2, axis=0)
        return parameters["W"] * shares

    def drive(self, parameters, u):
        """What each event adds to itself and to the events after it."""
        units = u.shape[1]
        return linear(self.kernel(parameters).reshape(-1, units), u)

    def advance(self, parameters, drive, state, dt):
        """Compute the state after one event."""
        s, v, waiting = state
        arriving, waiting = arrivals(drive, waiting)
        v = (1 - 1 / self.tau) * v * (1 - s) + arriving + parameters["b"]
        return spikes(v), v, waiting


class LsnModel(Architecture, name="lsn"):
    """Spiking network with learned delays."""

    source = "Hammouamri et al. 2024"
    family = "cells"
    settings = bare(Lsn)
