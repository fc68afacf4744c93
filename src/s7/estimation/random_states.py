"""A model whose states are random and whose readout is solved in closed form, for data sets too small to train on.

Each of M banks is a static S7 layer of P oscillating states with one time constant, which reads a random mixture of the
channels held constant between the steps. Random kernels mix the states of a bank,

    x_k = a_k x_{k-1} + (a_k − 1) / λ · u_k,    a_k = exp(λ dt_k),    λ = −1/τ + iω
    y_k = K [Re x_k, Im x_k]

and the features of a series are the fractions of its steps at which each kernel exceeds each of its thresholds. A ridge
regression maps them to the outputs. Gaps enter exactly, so irregular series need no interpolation.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, ArrayLike, Float, Integer, PRNGKeyArray, Shaped

from s7.inference import rounded_length
from s7.recurrence import recurrence
from s7.sequence_layer import reverse_gaps


class RandomStates(eqx.Module):
    """Random states, random kernels, thresholds, and a linear readout.

    Attributes:
        channels: The mixture of channels that each bank reads, (M, C).
        rate, omega: Decay rates and frequencies of the states, (M, P), in units of dt.
        kernels: The mixtures of states in both directions of time, (2, M, 2 P, K).
        thresholds: Of each kernel, (2, M, K, T).
        W, c: The readout.
    """

    channels: Float[Array, "M C"]
    rate: Float[Array, "M P"]
    omega: Float[Array, "M P"]
    kernels: Float[Array, "D M R K"]
    thresholds: Float[Array, "D M K T"]
    W: Float[Array, "O F"]
    c: Float[Array, " O"]

    def __call__(
        self,
        inputs: Shaped[ArrayLike, "L C"],
        dt: Float[ArrayLike, " L"] | None = None,
        length: Integer[ArrayLike, ""] | int | None = None,
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, " O"]:
        """The outputs for one series; `key` has no effect."""
        return self.W @ self.features(inputs, dt, length) + self.c

    def features(self, inputs: Any, dt: Any = None, length: Any = None) -> Float[Array, " F"]:
        """The fraction of the steps at which each kernel exceeds each of its thresholds."""
        y, mask = self.responses(inputs, dt, length)
        steps = y.shape[1]
        count: Any = steps if mask is None else jnp.maximum(mask.sum(), 1)
        if mask is not None:
            y = jnp.where(mask[None, :, None, None], y, -jnp.inf)

        def above(thresholds: Array) -> Array:
            return (y > thresholds[:, None]).sum(1, dtype=jnp.int32)

        counts = lax.map(above, jnp.moveaxis(self.thresholds, -1, 0))
        return (counts / count).astype(y.dtype).ravel()

    def responses(self, inputs: Any, dt: Any = None, length: Any = None) -> tuple[Float[Array, "D L M K"], Any]:
        """The response of each kernel at each step, in both directions of time, and the mask."""
        u = jnp.asarray(inputs, self.c.dtype)
        mask = None if length is None else jnp.arange(u.shape[0]) < length
        gaps = jnp.ones(u.shape[0], u.dtype) if dt is None else jnp.asarray(dt, u.dtype)
        gaps = gaps if mask is None else jnp.where(mask, gaps, 0)
        read = u @ self.channels.T
        # Backwards, a gap separates a step from the next one, of which the value is held.
        backwards = reverse_gaps(gaps, mask, None)[0]
        assert backwards is not None
        directions = [self._states(read, gaps, reverse=False), self._states(read, backwards, reverse=True)]
        states = jnp.stack(directions[: self.kernels.shape[0]])
        return jnp.einsum("dlmr,dmrk->dlmk", states, self.kernels), mask

    def _states(self, read: Float[Array, "L M"], gaps: Float[Array, " L"], *, reverse: bool) -> Float[Array, "L M R"]:
        spectrum = lax.complex(-self.rate, self.omega)
        a = jnp.exp(spectrum * gaps[:, None, None].astype(spectrum.dtype))
        v = (a - 1) / spectrum * read[:, :, None]
        flat = (len(read), spectrum.size)
        x = recurrence(a.reshape(flat), v.reshape(flat), reverse=reverse).reshape(len(read), *spectrum.shape)
        # Each state in units of its response to a constant.
        x = x * self.rate
        return jnp.concatenate([x.real, x.imag], -1)


def random_states(
    channels: int,
    duration: float,
    rng: np.random.Generator,
    *,
    banks: int = 12,
    states: int = 8,
    kernels: int = 168,
    thresholds: int = 4,
    outputs: int = 1,
) -> RandomStates:
    """Draw a model without thresholds and readout.

    Args:
        channels: The number of channels.
        duration: The typical duration of a series, in units of dt.
        rng: The source of randomness.
        banks, states, kernels, thresholds: Their numbers M, P, K and T.
        outputs: The number of outputs.
    """
    tau = np.geomspace(1.5, max(3.0, duration / 4), banks)
    # From a decay without oscillation to several turns within the time constant, but no faster than the steps.
    omega = np.arange(states) * (0.4 * np.pi) / tau[:, None]
    omega = np.where(omega > np.pi, np.pi * rng.uniform(0.2, 1, omega.shape), omega)
    rate = np.broadcast_to(1 / tau[:, None], omega.shape)
    mixture = np.ones((banks, 1))
    if channels > 1:
        mixture = rng.standard_normal((banks, channels)) * (rng.random((banks, channels)) < 2 / channels)
        mixture[np.arange(banks), rng.integers(channels, size=banks)] += 1
    weights = rng.standard_normal((2, banks, 2 * states, kernels))
    constant = rate / (rate - 1j * omega)
    constant = np.concatenate([constant.real, constant.imag], 1)
    constant /= np.linalg.norm(constant, axis=1, keepdims=True)
    # Kernels do not respond to a constant, only to changes.
    weights -= np.einsum("mr,ms,dmsk->dmrk", constant, constant, weights)
    features = 2 * banks * kernels * thresholds
    arrays = (mixture, rate, omega, weights, np.zeros((2, banks, kernels, thresholds)), np.zeros((outputs, features)))
    return RandomStates(*(jnp.asarray(q, jnp.float32) for q in (*arrays, np.zeros(outputs))))


def with_thresholds(model: RandomStates, inputs: list[Any], dt: list[Any] | None, rng: np.random.Generator) -> Any:
    """The model with thresholds that are quantiles of the responses to some training series.

    Args:
        model: The model.
        inputs: Training series, (L_n, C).
        dt: Their gaps.
        rng: The source of randomness.
    """
    directions, banks, kernels, count = model.thresholds.shape
    found = np.empty(model.thresholds.shape, np.float32)
    chosen = rng.permutation(len(inputs))[:16]
    which = rng.integers(len(chosen), size=(directions, banks, kernels))
    levels = (np.arange(directions * banks * kernels * count) * 0.6180339887 % 1).reshape(found.shape)
    longest = rounded_length(max(len(inputs[n]) for n in chosen))
    for place, n in enumerate(chosen.tolist()):
        length = len(inputs[n])
        # Padded to one length, for which one program is compiled.
        padded = np.pad(inputs[n], ((0, longest - length), (0, 0)))
        gaps = None if dt is None else np.pad(dt[n], (0, longest - length)).astype(np.float32)
        y = np.sort(np.asarray(_responses(model, padded, gaps, jnp.asarray(length))[0])[:, :length], 1)
        d, m, k = np.nonzero(which == place)
        at = np.minimum((levels[d, m, k] * y.shape[1]).astype(int), max(0, y.shape[1] - 2))
        # Between two responses, so that rounding does not decide about either.
        low, high = (y[d[:, None], np.minimum(at + n, y.shape[1] - 1), m[:, None], k[:, None]] for n in (0, 1))
        found[d, m, k] = (low + high) / 2
    return eqx.tree_at(lambda q: q.thresholds, model, jnp.asarray(found))


def features_of(model: RandomStates, samples: Any, batches: Any) -> Float[np.ndarray, "N F"]:
    """The features of all samples; `batches` yields (indices, batch) pairs."""
    found = np.empty((len(samples), model.W.shape[1]), np.float32)
    for members, batch in batches:
        found[members] = np.asarray(_features(model, batch.inputs, batch.dt, batch.length))[: len(members)]
    return found


# Compiled once for each shape, not once for each model.
_responses = eqx.filter_jit(RandomStates.responses)


@eqx.filter_jit
def _features(model: RandomStates, inputs: Any, dt: Any, length: Any) -> Float[Array, "B F"]:
    return jax.vmap(model.features)(inputs, dt, length)
