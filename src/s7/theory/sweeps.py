"""Gradients of real layers with respect to one raw parameter w_j over a range of values."""

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from s7.layer import S7Layer
from s7.theory.parameterizations import Parameterization, Printed
from s7.transitions import Gain, Plain, Stable, Transition

WIDTH, STATE = 2, 4
# States with at least this memory count as slow. Up to a tenth of the sequence, its end has no effect.
SLOW = 10.0


@dataclass(frozen=True)
class Sweep:
    """The largest |∂Loss/∂w_j| / K of all models and inputs for each w_j, with its time constant and slope |f'|."""

    w: np.ndarray
    tau: np.ndarray
    gradient: np.ndarray
    slope: np.ndarray

    @property
    def over_slope(self) -> np.ndarray:
        """|∂Loss/∂w_j| / (K |f'(w_j)|): the constant of the theorem as printed."""
        return np.divide(self.gradient, self.slope, out=np.full_like(self.slope, np.nan), where=self.slope > 0)

    @property
    def over_weight(self) -> np.ndarray:
        """|∂Loss/∂w_j| / (K |w_j|): the ratio of gradient to weight."""
        return self.gradient / np.abs(self.w)

    def growth(self, length: int) -> float:
        """Return the power of τ with which the ratio of gradient to weight grows for slow states."""
        seen = (self.tau >= SLOW) & (self.tau <= length / 10) & (self.gradient > 0) & np.isfinite(self.gradient)
        if seen.sum() < 2:
            return float("nan")
        return float(np.polyfit(np.log(self.tau[seen]), np.log(self.over_weight[seen]), 1)[0])


@dataclass(frozen=True)
class Selective:
    """A sweep of layers whose w_k depend on the input."""

    quotient: np.ndarray
    over_slope: np.ndarray


class Problem:
    """Random layers, inputs with |u| ≤ 1, and slowly decaying targets."""

    def __init__(self, seed: int, models: int, length: int):
        rng = np.random.default_rng(seed)
        signs = rng.choice([-1.0, 1.0], (length, WIDTH))
        alternating = np.repeat((-1.0) ** np.arange(length)[:, None], WIDTH, 1)
        self.inputs = np.stack([np.ones((length, WIDTH)), signs, alternating])
        memory = (1 + np.arange(length)) ** -1.5
        self.targets = np.fft.irfft(
            np.fft.rfft(self.inputs, 2 * length, axis=1) * np.fft.rfft(memory, 2 * length)[:, None], axis=1
        )[:, :length]
        self.keys = [jax.random.fold_in(jax.random.key(seed), n) for n in range(models)]

    def stable(self, stable: Stable, w: np.ndarray, *, timed: bool) -> Sweep:
        """Sweep `Stable`."""
        printed = Printed.of(stable)
        gradient = np.max([self._over_K(layer, w, timed).max(0) for layer in self._layers(stable)], 0)
        return Sweep(w, 1 / printed.rate(w), gradient, printed.slope(w))

    def alternative(self, alternative: Parameterization, w: np.ndarray, gain: Gain) -> Sweep:
        """Sweep another parameterization, computed with `Plain`."""
        plain = np.asarray(alternative.plain(jnp.asarray(w)))
        slope = np.abs(alternative.slope(w))
        layers = self._layers(Plain(gain=gain, selective=False))
        gradient = np.max([self._over_K(layer, plain, True).max(0) for layer in layers], 0)
        with np.errstate(invalid="ignore"):
            gradient = np.where(slope > 0, gradient * slope, 0.0)
        return Sweep(w, alternative.time(w), gradient, slope)

    def selective(self, stable: Stable, w: np.ndarray) -> Selective:
        """Sweep `Stable` with w_k = w + W u_k: the gradient relative to its bound, and to |f'(w_j)| as printed."""
        printed = Printed.of(stable)
        quotients, ratios = [], []
        length = self.inputs.shape[1]
        for layer in self._layers(stable):
            gradients = self._over_K(layer, w, True)
            for u, gradient in zip(self.inputs, gradients, strict=True):
                moved = w[:, None] + np.asarray(layer.rates["W_w"])[0] @ np.unique(u, axis=0).T
                S = np.minimum(-1 / np.expm1(-printed.rate(moved).min(1)), length)
                quotients.append(gradient / (S**2 * printed.slope(moved).max(1)))
                ratios.append(gradient / printed.slope(w))
        return Selective(np.max(quotients, 0), np.max(ratios, 0))

    def _layers(self, transition: Transition) -> Sequence[S7Layer]:
        return [S7Layer(WIDTH, STATE, key=key, transition=transition, dtype=jnp.float64) for key in self.keys]

    def _over_K(self, layer: S7Layer, raw: np.ndarray, timed: bool) -> np.ndarray:
        """Return |∂Loss/∂w_0| / K for every input and value, with NaN replaced by infinity."""
        dt = jnp.ones(self.inputs.shape[1]) if timed else None
        gradients = np.abs(np.asarray(_gradients(layer, jnp.asarray(raw), self.inputs, self.targets, dt)))
        return np.where(np.isnan(gradients), np.inf, gradients) / self._K(layer)[:, None]

    def _K(self, layer: S7Layer) -> np.ndarray:
        """Return the product of the largest readout and the largest drive of state 0 for each input."""
        bounds = []
        for u in self.inputs:
            distinct = jnp.asarray(np.unique(u, axis=0))
            C = layer.form.matrices(layer.maps, distinct)[2]
            drive = layer.form.drive(layer.maps, distinct)
            bounds.append(float(jnp.abs(C[:, :, 0]).max() * jnp.abs(drive[:, 0]).max()))
        return np.array(bounds)


@eqx.filter_jit
def _gradients(layer, raw, inputs, targets, dt):
    def loss(value, u, target):
        changed = eqx.tree_at(lambda layer: layer.rates["w"], layer, layer.rates["w"].at[0].set(value))
        return jnp.abs(changed(u, dt)[0] - target).max()

    over_values = jax.vmap(jax.grad(loss), (0, None, None))
    return jax.vmap(over_values, (None, 0, 0))(raw, inputs, targets)
