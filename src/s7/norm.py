"""Normalization of the features of each event.

A norm is first prepared on a sequence and then applied. Batch normalization, which needs the statistics of many events,
thus has the same interface as norms that need one event.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, DTypeLike, Float

from s7.backend_selection import current_backend
from s7.initialization import constant
from s7.native import kernels
from s7.sequence_parts import sequence_axis

NormName = Literal["layer", "rms", "batch", "none"]
EPSILON = 1e-5


class Moments(NamedTuple):
    """Running statistics of a batch norm."""

    mean: Float[Array, " H"]
    variance: Float[Array, " H"]


class Normalizer(NamedTuple):
    """A norm that is ready to be applied to each event. Backends may compute the formulas:

    none      u
    layer     (u - mean) / std · scale + shift        over the channels
    rms       u / sqrt(mean u²) · scale               over the channels
    affine    (u - mean) · scale + shift              with the mean of each channel
    """

    kind: Literal["none", "layer", "rms", "affine"] = "none"
    weights: Mapping[str, Float[Array, " H"]] = MappingProxyType({})

    def __call__(self, u: Float[Array, "*L H"], /) -> Float[Array, "*L H"]:
        """Normalize events."""
        if self.kind == "layer":
            return _layer_norm(u, self.weights["scale"], self.weights["shift"])
        if self.kind == "rms":
            return u * lax.rsqrt((u**2).mean(-1, keepdims=True) + EPSILON) * self.weights["scale"]
        if self.kind == "affine":
            return (u - self.weights["mean"]) * self.weights["scale"] + self.weights["shift"]
        return u


@jax.checkpoint  # cheap to recompute, and large on long sequences
def _layer_norm(u, scale, shift):
    centred = u - u.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + EPSILON) * scale + shift


class Norm(eqx.Module):
    """The base class of norms."""

    @property
    def moments(self) -> Moments | None:
        """The running statistics, which training updates without gradients; None if the norm has none."""
        return None

    @abstractmethod
    def prepare(
        self, u: Float[Array, "L H"], mask: Bool[Array, " L"] | None, batch_axis: str | tuple[str, ...] | None
    ) -> tuple[Normalizer, Moments | None]:
        """Prepare the norm for a sequence.

        Args:
            u: The sequence, (L, H).
            mask: False on padding, (L,).
            batch_axis: In training, the axis name given to jax.vmap.

        Returns:
            The function that normalizes events, and in training the new running statistics.
        """


class LayerNorm(Norm):
    """(u - mean) / std over the channels, scaled and shifted."""

    scale: Float[Array, " H"]
    shift: Float[Array, " H"]

    def __init__(self, width: int, dtype: DTypeLike):
        self.scale, self.shift = constant(1, width, dtype), constant(0, width, dtype)

    def prepare(self, u, mask, batch_axis):
        return Normalizer("layer", {"scale": self.scale, "shift": self.shift}), None


class RMSNorm(Norm):
    """u / sqrt(mean u²) over the channels, scaled."""

    scale: Float[Array, " H"]

    def __init__(self, width: int, dtype: DTypeLike):
        self.scale = constant(1, width, dtype)

    def prepare(self, u, mask, batch_axis):
        return Normalizer("rms", {"scale": self.scale}), None


class BatchNorm(Norm):
    """(u - mean) / std over all events of the batch that are not padding.

    Training uses the statistics of the batch, over `batch_axis` (the name given to jax.vmap). Otherwise the running
    statistics are used. `momentum` is the weight of the old statistics in each update.
    """

    scale: Float[Array, " H"]
    shift: Float[Array, " H"]
    running: Moments
    momentum: float = eqx.field(static=True)

    def __init__(self, width: int, dtype: DTypeLike, momentum: float = 0.95):
        self.scale, self.shift = constant(1, width, dtype), constant(0, width, dtype)
        self.running = Moments(constant(0, width, dtype), constant(1, width, dtype))
        self.momentum = momentum

    @property
    def moments(self) -> Moments | None:
        return self.running

    def prepare(self, u, mask, batch_axis):
        running = Moments(*map(lax.stop_gradient, self.running))
        if batch_axis is None:
            return self._normalizer(running), None
        if sequence_axis() is not None:
            batch_axis = (*((batch_axis,) if isinstance(batch_axis, str) else batch_axis), sequence_axis())
        events, mean_here, square = _sequence_moments(u, mask)
        count = jnp.maximum(lax.psum(events, batch_axis), 1)
        mean = lax.psum(events * mean_here, batch_axis) / count
        variance = lax.psum(square + events * (mean_here - mean) ** 2, batch_axis) / count
        batch = Moments(mean, variance)
        keep = self.momentum
        updated = Moments(
            *(keep * old + (1 - keep) * lax.stop_gradient(new) for old, new in zip(running, batch, strict=True))
        )
        return self._normalizer(batch), updated

    def _normalizer(self, moments: Moments) -> Normalizer:
        factor = lax.rsqrt(moments.variance + EPSILON) * self.scale
        return Normalizer("affine", {"scale": factor, "shift": self.shift, "mean": moments.mean})


def _sequence_moments(
    u: Float[Array, "L H"], mask: Bool[Array, " L"] | None
) -> tuple[Float[Array, ""], Float[Array, " H"], Float[Array, " H"]]:
    """The number of events, their mean, and the sum of their squared deviations from it."""
    weights = None if mask is None else mask.astype(u.dtype)
    if current_backend(u.shape[0]) == "native":
        return kernels.moments(u, weights)
    weights = jnp.ones(u.shape[0], u.dtype) if weights is None else weights
    count = weights.sum()
    mean = weights @ u / jnp.maximum(count, 1)
    return count, mean, weights @ (u - mean) ** 2


class NoNorm(Norm):
    """No normalization."""

    def prepare(self, u, mask, batch_axis):
        return Normalizer(), None


def make_norm(name: NormName, width: int, dtype: DTypeLike) -> Norm:
    """The norm of that name."""
    kinds: dict[str, Callable[[int, DTypeLike], Norm]] = {
        "layer": LayerNorm,
        "rms": RMSNorm,
        "batch": BatchNorm,
        "none": lambda width, dtype: NoNorm(),
    }
    if name not in kinds:
        raise ValueError(f"norm={name!r} is not one of {', '.join(kinds)}")
    return kinds[name](width, dtype)
