"""Variants of S7 that read time differently, for `benchmarks.time_gaps`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from s7.config import ModelConfig
from s7.forms import Static
from s7.transitions import Stable

Change = Callable[[ModelConfig], ModelConfig]


@dataclass(frozen=True)
class Held(Stable):
    """Inputs are held over the gap: g_k = 1 - exp(-r_k dt_k), so that a constant input has a constant response."""

    def discretize(self, parameters, w, dt):
        """The factor of `Stable` with a gain that depends on the gap."""
        a, gain = super().discretize(parameters, w, dt)
        return a, gain if dt is None else -jnp.expm1(-self.rate(w) * dt[..., None])


@dataclass(frozen=True)
class Mixed(Stable):
    """A learned clock between the gaps and the events: dt_k is replaced by s dt_k + (1 - s), s = sigmoid(mix)."""

    groups: ClassVar[Mapping[str, str]] = {**Stable.groups, "mix": "ssm"}
    start: float = 0.0

    def spectrum(self, block, key):
        """One s for all states."""
        return super().spectrum(block, key) | {"mix": np.full(1, self.start)}

    def discretize(self, parameters, w, dt):
        """As `Stable`, by the mixed clock."""
        if dt is None:
            return super().discretize(parameters, w, None)
        s = jax.nn.sigmoid(parameters["mix"][0])
        return super().discretize(parameters, w, s * dt + (1 - s))


@dataclass(frozen=True)
class MixedStates(Stable):
    """As `Mixed`, with one s for each state, alternately near 0.9 and 0.1 at the start."""

    groups: ClassVar[Mapping[str, str]] = {**Stable.groups, "mix": "ssm"}

    def spectrum(self, block, key):
        """Neighbours on the ladder of time constants start with different clocks."""
        return super().spectrum(block, key) | {"mix": np.where(np.arange(block) % 2, -2.0, 2.0)}

    def discretize(self, parameters, w, dt):
        """The factor exp((-r + iω)(s dt + 1 - s))."""
        if dt is None:
            return super().discretize(parameters, w, None)
        s = jax.nn.sigmoid(parameters["mix"])
        gap = s * dt[..., None] + (1 - s)
        rate = self.rate(w)
        modulus = jnp.exp(-rate * gap)
        if not self.oscillate:
            return modulus, rate
        angle = parameters["omega"] * gap
        return jax.lax.complex(modulus * jnp.cos(angle), modulus * jnp.sin(angle)), rate


@dataclass(frozen=True)
class Tuned(Stable):
    """`Stable` with initial frequencies multiplied by a factor."""

    factor: float = 1.0

    def spectrum(self, block, key):
        """The spectrum of `Stable` with other frequencies."""
        parameters = super().spectrum(block, key)
        return parameters | {"omega": self.factor * parameters["omega"]}


def _transition(kind: type[Stable] | None = None, **changes: Any) -> Change:
    def change(config: ModelConfig) -> ModelConfig:
        stable = config.transition
        assert isinstance(stable, Stable)
        names = ("selective", "a", "b", "oscillate", "gain", "tau")
        fields = {name: getattr(stable, name) for name in names} | changes
        return replace(config, transition=(kind or Stable)(**fields))

    return change


def _config(**changes: Any) -> Change:
    return lambda config: replace(config, **changes)


def _unit(factor: float) -> Change:
    return lambda config: replace(config, time_unit=factor * (config.time_unit or 1.0))


def chain(*changes: Change) -> Change:
    """One change after another."""

    def change(config: ModelConfig) -> ModelConfig:
        for one in changes:
            config = one(config)
        return config

    return change


_READ = _config(gaps="read")
_IGNORED = _config(gaps="ignored")
_MIXED = _config(gaps="mixed")
_REAL = _transition(oscillate=False)

# By name: whether log(1 + gap) is an input too, and the change of the model.
VARIANTS: dict[str, tuple[bool, Change]] = {
    "gaps mixed": (False, _MIXED),
    "gaps read": (False, _READ),
    "gaps ignored": (False, _IGNORED),
    "gaps read, and an input": (True, _READ),
    "gaps an input only": (True, _IGNORED),
    "input held over the gap": (False, chain(_READ, _transition(Held))),
    "learned clock per layer": (False, chain(_READ, _transition(Mixed))),
    "learned clock per state": (False, chain(_READ, _transition(MixedStates))),
    "real states, gaps mixed": (False, chain(_MIXED, _REAL)),
    "real states, gaps read": (False, chain(_READ, _REAL)),
    "real states, gaps ignored": (False, chain(_IGNORED, _REAL)),
    "all static": (False, chain(_READ, _config(form=Static()), _transition(selective=False))),
    "Λ static": (False, chain(_READ, _transition(selective=False))),
    "B and C static": (False, chain(_READ, _config(form=Static(D="diagonal")))),
    "gain 1": (False, chain(_READ, _transition(gain=None))),
    "gain by variance": (False, chain(_READ, _transition(gain="variance"))),
    "gaps 10 times as long": (False, chain(_READ, _unit(0.1))),
    "gaps a tenth as long": (False, chain(_READ, _unit(10.0))),
    "gaps mixed, 10 times as long": (False, chain(_MIXED, _unit(0.1))),
    "gaps mixed, a tenth as long": (False, chain(_MIXED, _unit(10.0))),
    "time constants 1 to 10": (False, chain(_READ, _transition(tau=(1.0, 10.0)))),
    "time constants 1 to 500": (False, chain(_READ, _transition(tau=(1.0, 500.0)))),
    "frequencies a quarter": (False, chain(_READ, _transition(Tuned, factor=0.25))),
    "frequencies 4 times": (False, chain(_READ, _transition(Tuned, factor=4.0))),
}
