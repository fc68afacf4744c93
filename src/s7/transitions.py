"""Transitions: the factor a_k on the state, as a function of the input u_k and the time gap dt_k.

Each transition has a raw parameter that may depend on the input,

    w_k = w + W_w u_k                                     (the paper's Λ_k, which it does not define)

and discretizes it into the factor a_k and the gain g_k on the input. In regular time dt is None and every step counts
as one. In asynchronous time dt_k is the gap before event k. A layer may have states of two kinds: half of them read the
gaps, the others count events.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, Inexact, PRNGKeyArray

from s7.contractions import linear
from s7.initialization import Parameters, draw, split
from s7.ranges import Choice, Range, searched
from s7.registry import Registered

Gain = Literal["rate", "variance"] | None

# Selective maps are initialized below their natural scale, so that a new layer is close to a static one.
SELECTIVE_SCALE = 0.4


@dataclass(frozen=True)
class Transition(Registered, ABC):
    """The base class of transitions, a frozen dataclass of settings; parameters are arguments of its methods.

    Shapes: L events, width H, P states.

    Args:
        selective: Whether the raw parameter w_k depends on the input.
        counting: Whether every second state counts events: its dt_k is 1, whatever the gap is.
    """

    groups: ClassVar[Mapping[str, str]] = {"w": "ssm", "omega": "ssm", "decay": "ssm", "W_w": "selective"}
    complex_state: ClassVar[bool] = False
    selective: bool = True
    counting: bool = field(default=False, kw_only=True)

    @abstractmethod
    def spectrum(self, block: int, key: PRNGKeyArray) -> dict[str, np.ndarray | Array]:
        """Initial parameters of one block of `block` states, by name. One of them is `w`."""

    @abstractmethod
    def discretize(
        self, parameters: Parameters, w: Float[Array, "*L P"], dt: Float[Array, "*L"] | None
    ) -> tuple[Inexact[Array, "*L P"], Inexact[Array, "*L P"]]:
        """Compute the factor a_k on the state and the gain g_k on the input, of states that read the gaps.

        Args:
            parameters: The parameters, as `init` returns them.
            w: The raw parameter w_k, (L, P).
            dt: The gaps, (L,), or None in regular time.
        """

    def factors(
        self, parameters: Parameters, w: Float[Array, "*L P"], dt: Float[Array, "*L"] | None
    ) -> tuple[Inexact[Array, "*L P"], Inexact[Array, "*L P"]]:
        """The factor and the gain of all states, of which every second one counts events if `counting` is set."""
        read = self.discretize(parameters, w, dt)
        if dt is None or not self.counting:
            return read
        counted = self.discretize(parameters, w, jnp.ones_like(dt))
        counts = np.arange(w.shape[-1]) % 2 == 1
        a, gain = (jnp.where(counts, one, other) for one, other in zip(counted, read, strict=True))
        return a, gain

    def init(self, width: int, state: int, blocks: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """Initial parameters of `state` states in `blocks` blocks, each with the same spectrum."""
        if state % blocks:
            raise ValueError(f"blocks={blocks} does not divide state={state}")
        spectrum_key, map_key = split(key, 2)
        block = self.spectrum(state // blocks, spectrum_key)
        parameters = {name: jnp.asarray(_tile(values, blocks), dtype) for name, values in block.items()}
        if self.selective:
            maps = {"W_w": ((state, width), SELECTIVE_SCALE / math.sqrt(width))}
            parameters |= draw(maps, key=map_key, dtype=dtype)
        return parameters

    def raw(self, parameters: Parameters, u: Float[Array, "L H"]) -> Float[Array, "L P"]:
        """w_k = w + W_w u_k."""
        w = parameters["w"]
        if not self.selective:
            return jnp.broadcast_to(w, (u.shape[0], w.shape[0]))
        return w + linear(parameters["W_w"], u)


@dataclass(frozen=True)
class Stable(Transition):
    """The paper's stable reparameterization, with the rate r_k = 1 / (a w_k² + b).

        regular time       a_k = 1 - r_k                            (equation 4), in [1 - 1/b, 1)
        asynchronous       a_k = exp((-r_k + iω) dt_k)              (equation 12 with f(w) = -1/(a w² + b))

    The first is the forward Euler step of the second. An Euler step of an oscillation can leave the unit disc, so with
    `oscillate` regular time uses the second formula with dt = 1.

    Args:
        a: The factor of w² in the rate; a > 0.
        b: The constant in the rate; b ≥ 0.5.
        oscillate: Whether states are complex with learned frequencies ω, which do not depend on the input. Otherwise
            ω = 0.
        gain: "rate" for g_k = r_k, which gives real states a unit response to a constant input in regular time and an
            impulse response of unit area in asynchronous time; "variance" for g_k = sqrt(1 - |a|²) over one unit of
            time; None for g_k = 1, as in the paper.
        tau: The range of the initial time constants, in steps or in units of dt.
        period: With `oscillate`, the initial frequencies are the harmonics of this many steps, such as the number of
            pixels in a row of an image, each with all time constants; None for those of HiPPO.
    """

    a: float = 1.0
    b: float = 0.5
    oscillate: bool = searched(False, Choice((False, True), optional=True))
    gain: Gain = searched("rate", Choice(("rate", "variance", "none"), optional=True))
    tau: tuple[float, float] = searched((2.0, 50.0), Range(10.0, 1000.0, log=True, item=1, optional=True))
    period: int | None = None

    def __post_init__(self):
        if not self.a > 0:
            raise ValueError(f"Stable: a={self.a} must be positive")
        if not self.b >= 0.5:
            raise ValueError(f"Stable: b={self.b} must be at least 0.5, or a_k = 1 - 1/b falls below -1")
        if self.period is not None and self.period < 2:
            raise ValueError(f"Stable: period={self.period} must be at least 2")
        if self.period is not None and not self.oscillate:
            raise ValueError(f"Stable: period={self.period} needs oscillate=True")
        _check_gain(self)
        _check_tau(self, least=self.b)

    @property
    def complex_state(self) -> bool:  # type: ignore[override]
        """Oscillating states are complex."""
        return self.oscillate

    def spectrum(self, block, key):
        """w from the time constants τ = a w² + b. HiPPO's fastest state makes a quarter turn in the shortest τ."""
        if self.oscillate and self.period is not None:
            harmonics = 2 * np.pi / self.period * np.arange(self.period // 2 + 1)
            row, column = np.divmod(np.arange(block), len(harmonics))
            times, frequencies = time_ladder(int(row[-1]) + 1, *self.tau)[row], harmonics[column]
        else:
            times, frequencies = time_ladder(block, *self.tau), hippo_frequencies(block)
            frequencies *= np.pi / 2 / self.tau[0] / frequencies.max()
        parameters = {"w": np.sqrt((times - self.b) / self.a)}
        return parameters | {"omega": frequencies} if self.oscillate else parameters

    def rate(self, w: Float[Array, "*L P"]) -> Float[Array, "*L P"]:
        """r = 1 / (a w² + b)."""
        return 1 / (self.a * w * w + self.b)

    def discretize(self, parameters, w, dt):
        """Equation 4 in regular time, equation 12 in asynchronous time."""
        r = self.rate(w)
        if self.oscillate:
            dt = jnp.ones((), w.dtype) if dt is None else dt
            a = _rotation(r, parameters["omega"], dt)
        else:
            a = 1 - r if dt is None else jnp.exp(-r * dt[..., None])
        if self.gain is None:
            return a, jnp.ones_like(r)
        if self.gain == "rate":
            return a, r
        # 1 - |a|² over one unit of time, without cancellation.
        return a, safe_sqrt(r * (2 - r) if dt is None else -jnp.expm1(-2 * r))


@dataclass(frozen=True)
class Plain(Transition):
    """The ablation without reparameterization: a_k = w_k, or exp((w_k - 1) dt_k) in asynchronous time.

    |a_k| is not bounded, and training can make it exceed 1. Only the initial spectrum is stable: the rows of W_w start
    so small that |w_k| < 1 within three standard deviations of an input of unit variance. Otherwise states that start
    with a long memory, at w = 1 - 1/τ, would grow in the first batch. W_w is in the optimizer group "ssm", with w, so
    that a low `train.ssm_learning_rate` keeps the spectrum near its start. `gain` and `tau` are those of `Stable`.
    """

    groups: ClassVar[Mapping[str, str]] = {"w": "ssm", "W_w": "ssm"}
    gain: Gain = "rate"
    tau: tuple[float, float] = (2.0, 50.0)

    def __post_init__(self):
        _check_gain(self)
        _check_tau(self, least=0.5)

    def spectrum(self, block, key):
        """w = 1 - 1/τ for each time constant τ."""
        return {"w": 1 - 1 / time_ladder(block, *self.tau)}

    def init(self, width, state, blocks, *, key, dtype):
        """As for other transitions, with each row of W_w scaled down to a third of the distance of its w from ±1."""
        parameters = super().init(width, state, blocks, key=key, dtype=dtype)
        if self.selective:
            room = (1 - jnp.abs(parameters["w"])) / 3
            parameters["W_w"] *= jnp.minimum(1, room / SELECTIVE_SCALE)[:, None]
        return parameters

    def discretize(self, parameters, w, dt):
        """The gains are those of `Stable` with r = 1 - w."""
        a = w if dt is None else jnp.exp((w - 1) * dt[..., None])
        if self.gain is None:
            return a, jnp.ones_like(w)
        if self.gain == "rate":
            return a, 1 - w
        unit = w if dt is None else jnp.exp(w - 1)
        return a, safe_sqrt(1 - unit * unit)


@dataclass(frozen=True)
class Step(Transition):
    """A static complex spectrum Λ with a step size that may depend on the input: S5, EventSSM, Mamba.

        Δ_k = softplus(w_k)        a_k = exp(Λ Δ_k dt_k)        g_k = (exp(Λ Δ_k) - 1) / Λ

    Λ is initialized to the HiPPO-N spectrum. In regular time dt = 1. S5 is `selective=False, held=True`: its inputs are
    samples of a signal. EventSSM is `selective=False`: its inputs are events, whose gain does not depend on the gap.

    Args:
        dt_min: The smallest initial Δ. Initial values are log-uniform.
        dt_max: The largest initial Δ.
        held: Whether the input is held over the gap: g_k = (exp(Λ Δ_k dt_k) - 1) / Λ.
    """

    complex_state: ClassVar[bool] = True
    dt_min: float = 0.001
    dt_max: float = 0.1
    held: bool = False

    def __post_init__(self):
        if not 0 < self.dt_min <= self.dt_max:
            raise ValueError(f"Step: dt_min={self.dt_min} and dt_max={self.dt_max} must be positive and in this order")

    def spectrum(self, block, key):
        """Λ = -1/2 + iω, and w = softplus⁻¹ of the step sizes."""
        low, high = math.log(self.dt_min), math.log(self.dt_max)
        sizes = jnp.exp(jax.random.uniform(key, (block,), minval=low, maxval=high))
        return {
            "w": jnp.log(jnp.expm1(sizes)),
            "decay": np.full(block, math.log(0.5)),
            "omega": hippo_frequencies(block),
        }

    def discretize(self, parameters, w, dt):
        """Zero-order hold of the input over one unit of time, or over the gap if `held`."""
        # The floor keeps Λ away from zero, by which the gain divides.
        decay = jnp.maximum(jnp.exp(parameters["decay"]), 1e-4)
        size = jax.nn.softplus(w)
        spectrum = jax.lax.complex(-decay, parameters["omega"])
        unit = _rotation(size * decay, size * parameters["omega"], jnp.ones((), w.dtype))
        a = unit if dt is None else _rotation(size * decay, size * parameters["omega"], dt)
        return a, ((a if self.held else unit) - 1) / spectrum


@dataclass(frozen=True)
class Ring(Transition):
    """The transition of LRU: a_k = exp((-exp(w_k) + iω) dt_k) and g_k = sqrt(1 - |a|²) over one unit of time.

    Args:
        radius: The range of the initial modulus |a|, which is uniform in area.
        phase: The largest initial phase ω; phases are uniform from 0.
    """

    complex_state: ClassVar[bool] = True
    selective: bool = False
    radius: tuple[float, float] = (0.5, 0.98)
    phase: float = 2 * math.pi

    def __post_init__(self):
        low, high = self.radius
        if not 0 < low <= high < 1:
            raise ValueError(f"Ring: radius={self.radius} must be two numbers between 0 and 1 in order")

    def spectrum(self, block, key):
        """The initial moduli and phases of LRU."""
        low, high = self.radius
        modulus_key, phase_key = split(key, 2)
        modulus = jnp.sqrt(jax.random.uniform(modulus_key, (block,), minval=low**2, maxval=high**2))
        phase = jax.random.uniform(phase_key, (block,), maxval=self.phase)
        return {"w": jnp.log(-jnp.log(modulus)), "omega": phase}

    def discretize(self, parameters, w, dt):
        """In regular time dt = 1. The gain does not depend on the gap."""
        rate = jnp.exp(w)
        a = _rotation(rate, parameters["omega"], jnp.ones((), w.dtype) if dt is None else dt)
        return a, safe_sqrt(-jnp.expm1(-2 * rate))


def _tile(values: np.ndarray | Array, times: int) -> np.ndarray | Array:
    return np.tile(values, times) if isinstance(values, np.ndarray) else jnp.tile(values, times)


def _check_gain(transition: Stable | Plain) -> None:
    if transition.gain not in ("rate", "variance", None):
        name = type(transition).__name__
        raise ValueError(f'{name}: gain={transition.gain!r} is not one of "rate", "variance", None')


def _check_tau(transition: Stable | Plain, least: float) -> None:
    low, high = transition.tau
    if not least <= low <= high < math.inf:
        name = type(transition).__name__
        raise ValueError(f"{name}: tau={transition.tau} must be two numbers in order, at least {least}")


def _rotation(rate: Array, omega: Array, dt: Array) -> Array:
    """exp((-rate + i omega) dt)."""
    dt = dt[..., None]
    modulus, angle = (
        jnp.exp(-rate * dt),
        jnp.broadcast_to(omega * dt, jnp.broadcast_shapes(rate.shape, dt.shape)),
    )
    return jax.lax.complex(modulus * jnp.cos(angle), modulus * jnp.sin(angle))


def safe_sqrt(q: Array) -> Array:
    """The square root of q; zero with gradient zero where q ≤ 0, where the gradient would be infinite."""
    positive = q > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, q, 1)), 0)


def time_ladder(count: int, shortest: float, longest: float) -> np.ndarray:
    """Logarithmically spaced time constants; for `count` 1, the geometric mean of the range."""
    if count == 1:
        return np.array([math.sqrt(shortest * longest)])
    return np.geomspace(shortest, longest, count)


def hippo_frequencies(count: int) -> np.ndarray:
    """The positive imaginary parts of the HiPPO-N spectrum of size 2·count, largest first.

    HiPPO-N is the normal part of HiPPO-LegS: -1/2 on the diagonal and ±sqrt((n + ½)(m + ½)) off it, so its
    eigenvalues are -1/2 ± iω.
    """
    root = np.sqrt(np.arange(2 * count) + 0.5)
    skew = np.tril(np.outer(root, root), -1)
    return np.sort(np.linalg.eigvalsh(1j * (skew - skew.T)))[::-1][:count]
