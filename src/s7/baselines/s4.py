"""S4: a state space per channel whose matrix is diagonal plus rank one, initialized to HiPPO-LegS.

Gu, Goel & Ré, Efficiently modeling long sequences with structured state spaces, ICLR 2022 (arXiv 2111.00396).
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Complex, DTypeLike, Float, PRNGKeyArray

from s7.baselines.architecture import Architecture, layered
from s7.baselines.chunks import scan_chunks
from s7.baselines.drawn_layer import DrawnLayer, backwards, check_steps, log_uniform
from s7.initialization import Parameters, draw, split
from s7.sequence_layer import LayerKind, reverse_gaps


@dataclass(frozen=True)
class S4(LayerKind):
    """x' = A x + B u,  y = C x + D u  in each channel, with A = Λ - P P* and a bilinear step of size Δ:

        x_k = (I - Δ/2 A)⁻¹ ((I + Δ/2 A) x_{k-1} + Δ B u_k)          y_k = C x_k + D u_k

    Conjugate pairs of states are stored once: N complex states are a real system of 2N. Whole sequences are convolved
    with the kernel C Āᵏ B̄, whose Fourier transform is a sum over the diagonal (a Cauchy kernel) with a correction for
    the rank one. Streams and packed sequences run the recurrence, with the same results. Time gaps are ignored.

    Args:
        dt_min, dt_max: The range of the initial Δ, which is log-uniform.
    """

    dt_min: float = 0.001
    dt_max: float = 0.1

    def __post_init__(self):
        check_steps(self)

    def layer(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> "S4Layer":
        """Make a layer with `state` complex states in each channel."""
        return S4Layer.drawn(self, width, state, key=key, dtype=dtype)

    def init(self, width: int, state: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """Λ, P and B of HiPPO-LegS in every channel, C with variance 1, D normal. Complex numbers are pairs."""
        maps_key, steps_key = split(key, 2)
        spectrum, P, B = hippo_legs(state)

        def tiled(values: np.ndarray) -> Array:
            return jnp.asarray(np.broadcast_to(values[..., None, :], (*values.shape[:-1], width, state)), dtype)

        return draw({"C": ((2, width, state), math.sqrt(0.5)), "D": ((width,), 1.0)}, key=maps_key, dtype=dtype) | {
            "decay": tiled(np.log(-spectrum.real)),
            "omega": tiled(spectrum.imag),
            "P": tiled(np.stack([P.real, P.imag])),
            "B": tiled(np.stack([B.real, B.imag])),
            "log_step": log_uniform(self, width, key=steps_key, dtype=dtype),
        }


def hippo_legs(states: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Λ, P and B of HiPPO-LegS of size 2·states in the basis that makes A + P P* diagonal, one of each conjugate pair.

    A + P Pᵀ with P_n = sqrt(n + 1/2) is -1/2 plus a skew-symmetric matrix, so its eigenvalues are -1/2 ± iω.
    """
    n = np.arange(2 * states)
    P, B = np.sqrt(n + 0.5), np.sqrt(2 * n + 1.0)
    skew = -np.tril(np.outer(B, B), -1) / 2
    frequencies, basis = np.linalg.eigh(-1j * (skew - skew.T))
    positive = basis[:, frequencies > 0]
    return -0.5 + 1j * frequencies[frequencies > 0], positive.conj().T @ P, positive.conj().T @ B


class _System(NamedTuple):
    """The system of every channel: Λ, P, B, C as complex numbers (H, N) and Δ (H, 1)."""

    spectrum: Complex[Array, "H N"]
    P: Complex[Array, "H N"]
    B: Complex[Array, "H N"]
    C: Complex[Array, "H N"]
    step: Float[Array, "H 1"]

    def advance(self, x: Complex[Array, "H N"], u: Float[Array, " H"]) -> Complex[Array, "H N"]:
        """One bilinear step, in O(N): the inverse of a diagonal matrix plus rank one (Woodbury)."""
        half = self.step / 2
        x = x + half * (self.spectrum * x - self.P * pair_sum(self.P.conj() * x)) + self.step * self.B * u[:, None]
        inverse = 1 / (1 - half * self.spectrum)
        through = pair_sum(self.P.conj() * inverse * x) / (1 + half * pair_sum(self.P.conj() * inverse * self.P))
        return inverse * (x - half * self.P * through)

    def paired(self) -> "_System":
        """With both of each conjugate pair: (H, 2N)."""
        both = [jnp.concatenate([q, q.conj()], -1) for q in self[:4]]
        return _System(both[0], both[1], both[2], both[3], self.step)

    def matrix(self) -> Complex[Array, "H N N"]:
        """Ā, a column for each unit vector. Only of a system with both of each pair."""
        half, identity = self.step[..., None] / 2, jnp.eye(self.P.shape[-1])
        A = self.spectrum[:, :, None] * identity - self.P[:, :, None] * self.P.conj()[:, None, :]
        return jnp.linalg.solve(identity - half * A, identity + half * A)

    def kernel(self, length: int) -> Float[Array, "H L"]:
        """C Āᵏ B̄ for k < length, from its values at the roots of unity (section 3.2 and appendix C.3 of the paper).

        With z a root of unity and R = 1 / ((2/Δ)(1 - z) - (1 + z) Λ), the transform of the truncated kernel is

            2 (C̃RB - (1 + z) C̃RP (1 + (1 + z) P*RP)⁻¹ P*RB),        C̃ = C (I - Ā^length).
        """
        both = self.paired()
        C = both.C - jnp.einsum("hn,hnm->hm", both.C, _power(both.matrix(), length))
        z = jnp.exp(jnp.asarray(-2j * np.pi / length * np.arange(length), C.dtype))
        weights = jnp.stack([C * both.B, C * both.P, both.P.conj() * both.B, both.P.conj() * both.P])  # (4, H, 2N)

        @jax.checkpoint  # the Cauchy matrix is recomputed: it is L·N numbers in each channel
        def transform(spectrum, step, weights):
            cauchy = 1 / ((2 / step) * (1 - z)[:, None] - (1 + z)[:, None] * spectrum)
            CB, CP, PB, PP = jnp.einsum("qn,ln->ql", weights, cauchy)
            return 2 * (CB - (1 + z) * CP * PB / (1 + (1 + z) * PP))

        spectra = lax.map(lambda channel: transform(*channel), (both.spectrum, both.step, weights.swapaxes(0, 1)))
        return jnp.fft.ifft(spectra, axis=-1).real


def pair_sum(q: Complex[Array, "*H N"]) -> Float[Array, "*H 1"]:
    """The sum over both of each conjugate pair."""
    return 2 * q.real.sum(-1, keepdims=True)


def _power(matrix: Complex[Array, "H N N"], exponent: int) -> Complex[Array, "H N N"]:
    result = jnp.broadcast_to(jnp.eye(matrix.shape[-1], dtype=matrix.dtype), matrix.shape)
    while exponent:
        if exponent & 1:
            result = result @ matrix
        matrix, exponent = matrix @ matrix, exponent >> 1
    return result


class S4Layer(DrawnLayer):
    """S4 on one sequence; `jax.vmap` batches."""

    groups: ClassVar[dict[str, str]] = {
        f"parameters.{name}": "ssm" for name in ("decay", "omega", "P", "B", "log_step")
    }

    def init_state(self) -> Complex[Array, " S"]:
        zeros = jnp.asarray(np.zeros(self.parameters["omega"].size), self.dtype)
        return lax.complex(zeros, zeros)

    def drive(self, u):
        return u

    def states(self, drive, dt=None, mask=None, reset=None, state=None, *, stride=1, reverse=False):
        if reverse:
            _, reset = reverse_gaps(None, mask, reset)
            drive, mask, reset = backwards(drive, mask, reset)
        # The convolution knows neither an initial state nor other sequences. Where it is used, the final state of the
        # recurrence is removed by the compiler unless it is used.
        initial = self.init_state() if state is None else state
        final, read = self._recur(drive, mask, reset, initial, stride)
        if state is None and reset is None and len(drive) > 1:
            read = self._convolve(drive, mask)[stride - 1 :: stride]
        return read[::-1] if reverse else read, final

    def output(self, x, u):
        return x + self.parameters["D"] * u

    def _system(self) -> _System:
        p = self.parameters
        spectrum = lax.complex(-jnp.exp(p["decay"]), p["omega"])
        P, B, C = (lax.complex(q[0], q[1]) for q in (p["P"], p["B"], p["C"]))
        return _System(spectrum, P, B, C, jnp.exp(p["log_step"])[:, None])

    def _convolve(self, u: Float[Array, "L H"], mask: Bool[Array, " L"] | None) -> Float[Array, "L H"]:
        """C x at every position, repeating that of the last event at padded ones. Events are first moved together."""
        length = len(u)
        if mask is not None:
            (places,) = jnp.nonzero(mask, size=length, fill_value=length)
            u = jnp.concatenate([u, jnp.zeros_like(u[:1])])[places]
        kernel = self._system().kernel(length).T
        spectrum = jnp.fft.rfft(u, 2 * length, axis=0) * jnp.fft.rfft(kernel, 2 * length, axis=0)
        y = jnp.fft.irfft(spectrum, 2 * length, axis=0)[:length]
        return y if mask is None else jnp.concatenate([jnp.zeros_like(y[:1]), y])[jnp.cumsum(mask)]

    def _recur(
        self,
        u: Float[Array, "L H"],
        mask: Bool[Array, " L"] | None,
        reset: Bool[Array, " L"] | None,
        initial: Complex[Array, " S"],
        stride: int,
    ) -> tuple[Complex[Array, " S"], Float[Array, "M H"]]:
        mask = jnp.ones(len(u), bool) if mask is None else mask
        run = partial(_recur_chunk, self._system(), stride)
        return scan_chunks(run, initial, (u, mask, reset), len(u), stride=stride)


def _recur_chunk(
    system: _System,
    stride: int,
    initial: Complex[Array, " S"],
    events: tuple[Float[Array, "L H"], Bool[Array, " L"], Bool[Array, " L"] | None],
) -> tuple[Complex[Array, " S"], Float[Array, "M H"]]:
    """Compute the state after a chunk, and C x at the end of each of its windows."""

    def step(x, event):
        u, is_event, is_start = event
        before = x if is_start is None else jnp.where(is_start, 0, x)
        x = jnp.where(is_event, system.advance(before, u), before)
        return x, pair_sum(system.C * x)[:, 0]

    final, read = lax.scan(step, initial.reshape(system.B.shape), events)
    return final.reshape(-1), read[stride - 1 :: stride]


class S4Model(Architecture, name="s4"):
    """State space per channel, diagonal plus rank one, as a convolution in training."""

    source = "Gu et al. 2022"
    family = "state-space"
    settings = layered(S4, state=16)
