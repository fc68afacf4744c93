"""A model whose states are random and whose readout is solved in closed form, for data sets too small to train on.

Each of M banks is a static S7 layer of P oscillating states with one time constant. It reads u, a random mixture of the
channels, or the differences of the mixture between successive steps, held constant between the steps. Random kernels
mix the states of a bank,

    x_k = a_k x_{k-1} + (a_k − 1) / λ · u_k,    a_k = exp(λ dt_k),    λ = −1/τ + iω
    y_k = K [Re x_k, Im x_k]

and the features of a series are the fractions of its steps at which each kernel exceeds each of its thresholds, and the
longest runs of such steps. A ridge regression maps them to the outputs. Gaps enter the states exactly.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, ArrayLike, Float, Integer, PRNGKeyArray, Shaped

from s7.data.samples import Samples
from s7.inference import batches_of, rounded_length
from s7.recurrence import recurrence
from s7.sequence_layer import reverse_gaps

# Steps whose responses are computed together: few enough for the cache, and compared in one loop over all thresholds.
CHUNK = 64


class RandomStates(eqx.Module):
    """Random states, random kernels, thresholds, and a linear readout.

    Attributes:
        channels: The mixture of channels that each bank reads, (M, C).
        rate, omega: Decay rates and frequencies of the states, (M, P), in units of dt.
        kernels: The mixtures of states in both directions of time, (2, M, 2 P, K).
        thresholds: Of each kernel, (2, M, K, T).
        W, c: The readout.
        differences: 1 for banks that read the differences of the mixture between steps, 0 for others, (M,). None in
            models of version 0.7, which have neither differences nor longest runs.
    """

    channels: Float[Array, "M C"]
    rate: Float[Array, "M P"]
    omega: Float[Array, "M P"]
    kernels: Float[Array, "D M R K"]
    thresholds: Float[Array, "D M K T"]
    W: Float[Array, "O F"]
    c: Float[Array, " O"]
    differences: Float[Array, " M"] | None = None

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
        """The fraction of the steps at which each kernel exceeds each threshold, and that of the longest such run."""
        states, mask = self.states(inputs, dt, length)
        steps = states.shape[1]
        known = jnp.ones(steps, bool) if mask is None else mask
        size = min(CHUNK, steps)
        missing = -steps % size
        chunks = jnp.pad(states, ((0, 0), (0, missing), (0, 0), (0, 0)))
        chunks = chunks.reshape(len(states), -1, size, *states.shape[2:]).transpose(1, 0, 3, 2, 4)
        thresholds = jnp.moveaxis(self.thresholds, -1, 0)

        def count(carry: tuple[Array, Array, Array], chunk: tuple[Array, Array]) -> tuple[Any, None]:
            counts, run, longest = carry
            y = jnp.where(chunk[1][:, None], chunk[0] @ self.kernels, -jnp.inf)
            # Written out, so that it is compiled to vectorized loops: ten times faster than reductions over the steps.
            for n in range(size):
                above = (y[:, :, n] > thresholds).astype(y.dtype)
                counts = counts + above
                run = (run + 1) * above
                longest = jnp.maximum(longest, run)
            return (counts, run, longest), None

        none = jnp.zeros_like(thresholds)
        rows = jnp.pad(known, (0, missing)).reshape(-1, size)
        (counts, _, longest), _ = lax.scan(count, (none, none, none), (chunks, rows))
        pooled = counts if self.differences is None else jnp.stack([counts, longest])
        return (pooled / jnp.maximum(known.sum(), 1)).ravel()

    def responses(self, inputs: Any, dt: Any = None, length: Any = None) -> tuple[Float[Array, "D L M K"], Any]:
        """The response of each kernel at each step, in both directions of time, and the mask."""
        states, mask = self.states(inputs, dt, length)
        return jnp.einsum("dlmr,dmrk->dlmk", states, self.kernels), mask

    def states(self, inputs: Any, dt: Any = None, length: Any = None) -> tuple[Float[Array, "D L M R"], Any]:
        """The states of each bank at each step, in both directions of time, and the mask."""
        u = jnp.asarray(inputs, self.c.dtype)
        mask = None if length is None else jnp.arange(u.shape[0]) < length
        gaps = jnp.ones(u.shape[0], u.dtype) if dt is None else jnp.asarray(dt, u.dtype)
        gaps = gaps if mask is None else jnp.where(mask, gaps, 0)
        read = u @ self.channels.T
        # Backwards, a gap separates a step from the next one, of which the value is held.
        backwards = reverse_gaps(gaps, mask, None)[0]
        assert backwards is not None
        if self.differences is not None:
            read = read - self.differences * jnp.concatenate([read[:1], read[:-1]])
        even = dt is None
        directions = [
            self._states(read, gaps, even=even, reverse=False),
            self._states(read, backwards, even=even, reverse=True),
        ]
        return jnp.stack(directions[: self.kernels.shape[0]]), mask

    def _states(
        self, read: Float[Array, "L M"], gaps: Float[Array, " L"], *, even: bool, reverse: bool
    ) -> Float[Array, "L M R"]:
        spectrum = lax.complex(-self.rate, self.omega)
        dt = gaps[:, None, None].astype(spectrum.dtype)
        # Gaps of even steps are 1, or 0 in padding: one exponential for all steps.
        change = dt * (jnp.exp(spectrum) - 1) if even else jnp.exp(spectrum * dt) - 1
        a = 1 + change
        v = change / spectrum * read[:, :, None]
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
    banks: int = 24,
    states: int = 8,
    kernels: int = 42,
    thresholds: int = 4,
    outputs: int = 1,
) -> RandomStates:
    """Draw a model without thresholds and readout.

    Args:
        channels: The number of channels.
        duration: The typical duration of a series, in units of dt.
        rng: The source of randomness.
        banks, states, kernels, thresholds: Their numbers M, P, K and T. Every second bank reads differences.
        outputs: The number of outputs.
    """
    tau = np.repeat(np.geomspace(1.5, max(3.0, duration / 4), -(-banks // 2)), 2)[:banks]
    differences = np.arange(banks) % 2
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
    features = 2 * 2 * banks * kernels * thresholds
    arrays = (mixture, rate, omega, weights, np.zeros((2, banks, kernels, thresholds)))
    others = (np.zeros((outputs, features)), np.zeros(outputs), differences)
    return RandomStates(*(jnp.asarray(q, jnp.float32) for q in (*arrays, *others)))


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
    unread = _without_readout(model)
    for place, n in enumerate(chosen.tolist()):
        length = len(inputs[n])
        # Padded to one length, for which one program is compiled.
        padded = np.pad(inputs[n], ((0, longest - length), (0, 0)))
        gaps = None if dt is None else np.pad(dt[n], (0, longest - length)).astype(np.float32)
        y = np.sort(np.asarray(_responses(unread, padded, gaps, jnp.asarray(length))[0])[:, :length], 1)
        d, m, k = np.nonzero(which == place)
        at = np.minimum((levels[d, m, k] * y.shape[1]).astype(int), max(0, y.shape[1] - 2))
        # Between two responses, so that rounding does not decide about either.
        low, high = (y[d[:, None], np.minimum(at + n, y.shape[1] - 1), m[:, None], k[:, None]] for n in (0, 1))
        found[d, m, k] = (low + high) / 2
    return eqx.tree_at(lambda q: q.thresholds, model, jnp.asarray(found))


def features_of(model: RandomStates, samples: Samples) -> Float[np.ndarray, "N F"]:
    """The features of all samples."""
    found = np.empty((len(samples), model.W.shape[1]), np.float32)
    unread = _without_readout(model)
    for members, batch in batches_of(samples):
        found[members] = np.asarray(_features(unread, batch.inputs, batch.dt, batch.length))[: len(members)]
    return found


def outputs_of(model: RandomStates, samples: Samples) -> Float[np.ndarray, "N O"]:
    """The outputs for all samples. They do not depend on which samples share a batch."""
    return np.asarray(_readout(model, features_of(model, samples)))


def _without_readout(model: RandomStates) -> RandomStates:
    """The model without outputs: programs for the states do not depend on their number."""
    return eqx.tree_at(lambda q: (q.W, q.c), model, (model.W[:0], model.c[:0]))


# Compiled once for each shape, not once for each model.
_responses = eqx.filter_jit(RandomStates.responses)


@eqx.filter_jit
def _features(model: RandomStates, inputs: Any, dt: Any, length: Any) -> Float[Array, "B F"]:
    # One series after the other, whose states stay in the cache.
    return lax.map(lambda one: model.features(*one), (inputs, dt, length))


@eqx.filter_jit
def _readout(model: RandomStates, features: Float[ArrayLike, "N F"]) -> Float[Array, "N O"]:
    return lax.map(lambda row: model.W @ row + model.c, jnp.asarray(features))
