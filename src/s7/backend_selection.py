"""Backends: how layers are computed, and which one is used.

All backends give the same numbers. `with s7.backend("xla")` or the environment variable S7_BACKEND chooses one, and
`s7.backends()` lists them. A backend is a subclass of `Backend`; the built-in ones are in `s7.compute`. Code that runs
on several backends asks `current_backend` when it is traced.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, ClassVar

import jax
from jaxtyping import Array

from s7 import native, registry

# A user context is part of JAX's compilation key: changing the backend recompiles.
_chosen = jax.make_user_context(None)

# A native call packs the weights first, which pays off from this number of steps on.
SHORTEST_NATIVE = 32


class Backend(registry.Registered, ABC, package="s7.compute"):
    """The base class of backends. Only `recurrence` must be written; its gradient comes with it.

    A user's backend registers itself by being defined, under the class keyword `name`:

        class Mine(s7.Backend, name="mine"):
            def recurrence(self, a, v, initial, reverse): ...

        with s7.backend("mine"): ...
    """

    # Whether `recurrence` defines its own gradient. Otherwise it is the recurrence run the other way.
    has_gradient: ClassVar[bool] = False

    @abstractmethod
    def recurrence(self, a: Array, v: Array, initial: Array, reverse: bool) -> Array:
        """x_k = a_k * x_{k-1} + v_k for every k, or x_k = a_k * x_{k+1} + v_k with `reverse`.

        Args:
            a: The factors, (L, P), real or complex.
            v: The inputs, (L, P), real or complex.
            initial: The state before the first step, (P,).
            reverse: Whether to start from the end.

        Returns:
            The states, (L, P).
        """

    # Whether `gate` is written.
    has_gate: ClassVar[bool] = False

    def fuses(self, transition: Any, form: Any) -> bool:
        """Whether `block` and `window_block` compute S7 layers with this transition and form."""
        return False

    def block(
        self, transition: Any, form: Any, u: Array, directions: Sequence[Any], *, reverse: bool, around: Any
    ) -> tuple[Array, list[Array]]:
        """The outputs (L, H) of a block and the final state (P,) of each layer; called only where `fuses` says so.

        Args:
            transition: The transition of the layers.
            form: The form of the layers.
            u: The inputs, (L, H).
            directions: One `fused.Direction`, or two that read the events in opposite orders; their outputs are added.
            reverse: Whether the first layer runs from the last event to the first.
            around: The parts of the block around the layers, a `fused.Around`.
        """
        raise NotImplementedError

    def window_block(
        self,
        transition: Any,
        form: Any,
        values: Array,
        token: Array | None,
        ends: Any,
        directions: Sequence[Any],
        *,
        around: Any,
    ) -> tuple[Array, list[Array]]:
        """As `block`, for events in windows or from tokens: one output (M, H) per window.

        Args:
            transition: The transition of the layers.
            form: The form of the layers.
            values: The inputs, (L, H) or, where `token` is given, the rows of a table, (V, H).
            token: The row of each event, (L,), or None.
            ends: What is read at the end of each window, a `pooling.Ends`.
            directions: As for `block`; the first layer runs from the first event to the last.
            around: The parts of the block around the layers, a `fused.Around`.
        """
        raise NotImplementedError

    def fuses_windows(self, transition: Any) -> bool:
        """Whether `window_states` computes the states of layers with this transition."""
        return False

    def window_states(
        self,
        transition,
        rates,
        w,
        drive,
        token,
        dt,
        mask,
        reset,
        state,
        *,
        stride: int,
        reverse: bool,
        product: Array | None = None,
    ) -> Array:
        """The states (L / stride, P) at the ends of windows of events; called only where `fuses_windows` says so.

        `w` is the raw parameter (R, P) and `drive` the input to the state in real rows (R, S), of each event or, where
        `token` is given, of each row of a table; `token` is then the row of each event, (L,). For a part of a sequence
        that is divided over devices, `product` is that of its factors, which the gradient needs (native/parts.py).
        """
        raise NotImplementedError

    # Whether `pool` is written.
    has_pooling: ClassVar[bool] = False

    def pool(
        self, values: Array, token: Array | None, share: Array | None, last: Array | None, stride: int
    ) -> tuple[Array | None, Array]:
        """The weighted mean and the last value of each window of events; called only where `has_pooling` says so.

        Args:
            values: The value of each event, (L, H) or, where `token` is given, of each row of a table, (V, H).
            token: The row of each event, (L,), or None.
            share: The weight of each event in the mean, (L,). Without it, no mean is computed.
            last: The position of the last event in each window, (L / stride,); None if all windows are full.
            stride: The number of events in a window.
        """
        raise NotImplementedError

    def gate(self, z: Array, gate: Any, dropout: Any, skip: Array | None) -> Array:
        """skip + dropout(z * sigmoid(W gelu(z) + c)); called only where `has_gate` says so. See gating.py."""
        raise NotImplementedError

    def unavailable_reason(self) -> str:
        """Why the backend cannot be used on this machine, or an empty string if it can."""
        return ""

    def summary(self) -> str:
        """One line about the backend."""
        return registry.summary(type(self))


@cache
def _instance(kind: type[Backend]) -> Backend:
    return kind()


def find_backend(name: str) -> Backend:
    """The backend of that name."""
    return _instance(Backend.registry.find(name))


def backends() -> dict[str, str]:
    """The available backends with one line about each; for one that cannot be used here, the reason."""
    registry.load_plugins()
    found = {Backend.registry.short_name(name): _instance(kind) for name, kind in Backend.registry.classes.items()}
    reasons = {name: one.unavailable_reason() for name, one in sorted(found.items())}
    return {name: f"missing: {why}" if why else found[name].summary() for name, why in reasons.items()}


def backend(name: str) -> AbstractContextManager:
    """Choose how layers are computed within a `with` block.

    Args:
        name: One of `s7.backends()`, or "auto" for the fastest that is available.
    """
    _check(name, "s7.backend")
    return _chosen(name)


def current_backend(length: int) -> str:
    """The backend for `length` steps: the innermost `with s7.backend(...)`, else $S7_BACKEND, else the fastest."""
    name = _chosen.value or os.environ.get("S7_BACKEND") or "auto"
    _check(name, "S7_BACKEND")
    if name != "auto":
        return name
    if jax.default_backend() != "cpu":
        return "parallel"
    return "native" if length >= SHORTEST_NATIVE and native.available() else "xla"


def _check(name: str, asked_by: str) -> None:
    if name == "auto":
        return
    try:
        reason = find_backend(name).unavailable_reason()
    except ValueError:
        raise ValueError(f"{asked_by}: no backend {name!r}; choose from auto, {', '.join(backends())}") from None
    if reason:
        raise ValueError(f"{asked_by}: the backend {name!r} cannot be used here: {reason}")
