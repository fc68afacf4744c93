"""LinOSS: a state space of forced harmonic oscillators.

Rusch & Rus, Oscillatory state-space models, ICLR 2025 (arXiv 2410.03943), section 2.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.nn import sigmoid
from jaxtyping import Array, Complex, DTypeLike, Float, PRNGKeyArray

from s7.baselines.architecture import Architecture, layered
from s7.baselines.drawn_layer import DrawnLayer
from s7.contractions import linear
from s7.initialization import Parameters, draw, split
from s7.recurrence import recurrence
from s7.sequence_layer import LayerKind, reverse_gaps

# Bounds of A Δ². Below the lower one the position of an oscillator is the quotient of two small numbers; at 4 the
# symplectic scheme stops being stable.
_LOWEST, _HIGHEST = 1e-5, 3.99


@dataclass(frozen=True)
class LinOss(LayerKind):
    """y'' = -A y + B u, with position y and velocity z of P oscillators, A ≥ 0 diagonal, and output C y_k + D u_k.

        IM      z_k = z_{k-1} + Δ (-A y_k + B u_k)          y_k = y_{k-1} + Δ z_k      dissipates energy
        IMEX    z_k = z_{k-1} + Δ (-A y_{k-1} + B u_k)      y_k = y_{k-1} + Δ z_k      conserves energy

    Both are diagonal in a complex variable q with Re q ∝ z and Im q ∝ y, which the recurrence is run in:

        q_k = a (q_{k-1} + Δ B u_k)          y_k = c Im q_k

    with a = 1 / (1 - iΔ√A) and c = 1/√A for IM, and with a = exp(iθ), cos θ = 1 - Δ²A/2 and c = Δ / sin θ for IMEX.
    Time gaps are ignored. B and C are real, as in the paper.

    Args:
        scheme: The time integration, "IM" or "IMEX".
    """

    scheme: Literal["IM", "IMEX"] = "IM"

    def __post_init__(self):
        if self.scheme not in ("IM", "IMEX"):
            raise ValueError(f'LinOss: scheme={self.scheme!r} is not one of "IM", "IMEX"')

    def layer(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> "LinOssLayer":
        """Make a layer of `state` oscillators."""
        return LinOssLayer.drawn(self, width, state, key=key, dtype=dtype)

    def init(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """Draw A and Δ uniformly between 0 and 1, and normal maps."""
        maps_key, stiffness_key, step_key = split(key, 3)
        maps = {
            "B": ((state, width), 1 / math.sqrt(width)),
            "C": ((width, state), 1 / math.sqrt(state)),
            "D": ((width,), 1.0),
        }
        step = jax.random.uniform(step_key, (state,), dtype, 0.01, 0.99)
        return draw(maps, key=maps_key, dtype=dtype) | {
            "A": jax.random.uniform(stiffness_key, (state,), dtype),
            "step": jnp.log(step / (1 - step)),
        }

    def discretize(
        self, A: Float[Array, " P"], step: Float[Array, " P"]
    ) -> tuple[Complex[Array, " P"], Float[Array, " P"]]:
        """Compute a and c."""
        stiffness = jnp.clip(A * step**2, _LOWEST, _HIGHEST)
        if self.scheme == "IM":
            frequency = jnp.sqrt(stiffness)  # Δ√A
            modulus = 1 / (1 + stiffness)
            return lax.complex(modulus, modulus * frequency), step / frequency
        sine = jnp.sqrt(stiffness * (1 - stiffness / 4))
        return lax.complex(1 - stiffness / 2, sine), step / sine


class LinOssLayer(DrawnLayer):
    """LinOSS on one sequence; `jax.vmap` batches."""

    groups: ClassVar[dict[str, str]] = {f"parameters.{name}": "ssm" for name in ("A", "step", "B")}

    def init_state(self) -> Complex[Array, " P"]:
        zeros = jnp.asarray(np.zeros(self.parameters["A"].shape), self.dtype)
        return lax.complex(zeros, zeros)

    def drive(self, u):
        return linear(self.parameters["B"], u)

    def states(self, drive, dt=None, mask=None, reset=None, state=None, *, stride=1, reverse=False):
        if reverse:
            _, reset = reverse_gaps(None, mask, reset)
        step = sigmoid(self.parameters["step"])
        a, c = self.kind.discretize(self.parameters["A"], step)
        v, a = a * (step * drive), jnp.broadcast_to(a, drive.shape)
        if mask is not None:
            a, v = jnp.where(mask[:, None], a, 1), jnp.where(mask[:, None], v, 0)
        if reset is not None:
            a = jnp.where(reset[:, None], 0, a)
        q = recurrence(a, v, self.init_state() if state is None else state, reverse=reverse)
        return c * q[(0 if reverse else stride - 1) :: stride].imag, q[0 if reverse else -1]

    def output(self, x, u):
        return linear(self.parameters["C"], x) + self.parameters["D"] * u


class LinOssModel(Architecture, name="linoss"):
    """Linear oscillatory state space, integrated implicitly (IM) or symplectically (IMEX)."""

    source = "Rusch & Rus 2025"
    family = "state-space"
    settings = layered(LinOss, state=32)
