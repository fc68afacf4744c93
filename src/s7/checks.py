"""Checks of inputs: invalid tokens, gaps, lengths and non-finite values.

A call outside of `jax.jit` is always checked. Inside `jax.jit` values are not known until the compiled code runs, and a
check there costs time at every call, so it is compiled in only in checked mode: `with s7.checked(): ...`, or
S7_CHECKED=1 in the environment. All errors are `ValueError`s of one line that name the first invalid position.
"""

import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from s7.arrays import innermost

_checked_mode = jax.make_user_context(None)


class InvalidInput(ValueError):
    """An input that a model cannot read."""


class checked(AbstractContextManager):
    """Check inputs inside compiled code too: `with s7.checked(): ...`.

    An error in compiled code ends the block with a `ValueError`, under any combination of jit, grad and vmap.
    Functions that were compiled outside of the block are compiled again inside of it.
    """

    def __init__(self, on: bool = True):
        self._mode = _checked_mode(on)
        self._failures: list[str] = []

    def __enter__(self) -> None:
        _listeners.append(self._failures)
        self._mode.__enter__()

    def __exit__(self, kind, error, traceback) -> None:
        self._mode.__exit__(kind, error, traceback)
        # By identity: lists that are equal need not be the same.
        _listeners[:] = [one for one in _listeners if one is not self._failures]
        if error is not None and not isinstance(error, InvalidInput):  # as XLA passes it on, in one of several types
            for message in self._failures:
                if message in str(error):
                    raise InvalidInput(message) from None


# The lists of failures of all `checked` blocks; a callback of compiled code runs in another thread.
_listeners: list[list[str]] = []


def is_checked() -> bool:
    """Whether checks are compiled in."""
    if _checked_mode.value is None:
        return os.environ.get("S7_CHECKED", "") not in ("", "0")
    return _checked_mode.value


def require(
    array: Any, invalid: Callable[[Any], Any], name: str, why: str, mask: Array | np.ndarray | None = None
) -> Any:
    """The array, checked.

    Args:
        array: NumPy array, JAX array or tracer.
        invalid: Maps the array (on the host if possible) to booleans of its shape, True where a value is invalid.
        name: The array's name in messages.
        why: What is wrong with an invalid value: "is negative".
        mask: Where values count: a boolean array over the leading axes, or None for everywhere.

    Raises:
        InvalidInput: If a value is invalid. Inside compiled code only in checked mode.
    """
    if not (_is_known(array) or is_checked()):
        return array
    bad = _where_counted(invalid(_on_host(array)), None if mask is None else _on_host(mask))
    if _is_known(bad):
        _raise_now(array, bad, name, why)
        return array
    return _compiled(array, bad, name, why) if is_checked() else array


def finite(array: Array, name: str, mask: Array | None = None) -> Array:
    """The array, whose values must be finite wherever `mask` is True."""
    return require(array, not_finite, name, "is not finite", mask)


def gaps(dt: Array, mask: Array | None = None) -> Array:
    """The time gaps, which must be finite and not negative wherever `mask` is True."""
    why = "is not a gap: gaps must be finite and not negative"
    return require(dt, lambda dt: not_finite(dt) | (dt < 0), "dt", why, mask)


def gap_array(dt: Any, dtype: Any) -> Array:
    """Gaps as an array of the model's type; datetimes and timedeltas have no unit there and are refused."""
    if isinstance(dt, np.ndarray | np.generic) and dt.dtype.kind in "mM":
        raise TypeError(f"dt holds {dt.dtype}, expected numbers; use s7.gaps(times, unit='s')")
    return jnp.asarray(dt, dtype)


def length(length: Array, events: int) -> Array:
    """The number of events of a sequence that count, a whole number from 0 to `events`."""
    if not jnp.issubdtype(length.dtype, jnp.integer):
        raise TypeError(f"length must be a whole number, not {length.dtype}")
    why = f"is not a length: the sequence has {events} events"
    return require(length, lambda length: (length < 0) | (length > events), "length", why)


def not_finite(array: Any) -> Any:
    """Where an array is infinite or NaN; nowhere, if it holds integers."""
    if isinstance(array, np.ndarray):
        return ~np.isfinite(array) if array.dtype.kind in "fc" else np.zeros(array.shape, bool)
    return ~jnp.isfinite(array)


def check_inputs(
    encoder: Any,
    inputs: np.ndarray,
    dt: np.ndarray | None = None,
    length: Any = None,
    *,
    offsets: np.ndarray | None = None,
    name: str = "",
) -> None:
    """Check data on the host, before any of it reaches a model.

    Args:
        encoder: The model's encoder, which says what it can read.
        inputs: One sequence (L, ...), a batch (N, L, ...), or concatenated sequences (E, ...) with `offsets`.
        dt: Gaps before the events, (L), (N, L) or (E).
        length: How many events of each sequence count, a number or (N); None: all.
        offsets: Where each sequence starts, and the end: errors then name the sequence and the event in it.
        name: What the data are, in front of messages: "train".

    Raises:
        InvalidInput: If a value cannot be read; names the position of the first.
    """
    inputs = np.asarray(inputs)
    places = inputs.ndim - len(encoder.event_shape)
    prefix = f"{name}: " if name else ""
    if places not in (1, 2) or inputs.shape[places:] != encoder.event_shape:
        raise InvalidInput(f"{prefix}an event has shape {inputs.shape[1:]}, the encoder reads {encoder.event_shape}")
    mask = None
    if length is not None:
        events = inputs.shape[places - 1]
        lengths = np.asarray(length)
        _raise_now(lengths, (lengths < 0) | (lengths > events), f"{prefix}length", f"is not within 0 to {events}")
        mask = np.arange(events) < lengths[..., None]
    bad = _where_counted(encoder.invalid(inputs), mask)
    _raise_now(inputs, bad, f"{prefix}inputs", encoder.why_invalid, offsets)
    if dt is not None:
        bad = _where_counted(not_finite(dt) | (dt < 0), mask)
        _raise_now(dt, bad, f"{prefix}dt", "is negative or not finite", offsets)


def _where_counted(bad: Any, mask: Any) -> Any:
    return bad if mask is None else bad & mask.reshape(mask.shape + (1,) * (bad.ndim - mask.ndim))


def _raise_now(array: Any, bad: Any, name: str, why: str, offsets: np.ndarray | None = None) -> None:
    bad = _unbatched(bad)
    if not bad.any():
        return
    position = tuple(int(i) for i in np.argwhere(bad)[0])
    values = np.broadcast_to(_unbatched(array), bad.shape)
    raise InvalidInput(_message(name, position, values[position], why, offsets))


def _message(name: str, position: tuple[int, ...], value: Any, why: str, offsets: np.ndarray | None = None) -> str:
    if offsets is not None:
        sequence = int(np.searchsorted(offsets, position[0], side="right") - 1)
        event = position[0] - int(offsets[sequence])
        return f"{name} of sequence {sequence}, event {event} {why}: {value}"
    place = f"[{', '.join(map(str, position))}]" if position else ""
    return f"{name}{place} = {value} {why}"


def _compiled(array: Array, bad: Array, name: str, why: str) -> Array:
    """The array, with a check in the compiled code around it."""

    def report(failed, at, value):
        # Under vmap each is an array over the batch.
        failed, at, value = (np.asarray(q) for q in (failed, at, value))
        if failed.any():
            batch = tuple(int(i) for i in np.argwhere(failed)[0])
            position = batch + tuple(int(i) for i in np.unravel_index(int(at[batch]), bad.shape))
            message = _message(name, position, value[batch], why)
            for failures in _listeners:
                failures.append(message)
            raise InvalidInput(message)
        return np.zeros(failed.shape, bool)

    flat = bad.reshape(-1)
    at = jnp.argmax(flat)
    value = jax.lax.stop_gradient(array).reshape(-1)[at]
    never = jax.ShapeDtypeStruct((), bool)
    failed = jax.pure_callback(report, never, flat.any(), at, value, vmap_method="broadcast_all")
    return jnp.where(failed, 0, array)  # depends on the check, or XLA would remove it


def _is_known(array: Any) -> bool:
    """Whether values can be looked at now; those of `jax.vmap` outside of `jax.jit` can."""
    return not isinstance(innermost(array), Tracer)


def _on_host(array: Any) -> Any:
    """A NumPy view of an array in the memory of the CPU; any other array as it is."""
    if isinstance(array, Tracer):
        return array
    if isinstance(array, jax.Array) and any(device.platform != "cpu" for device in array.devices()):
        return array
    return np.asarray(array)


def _unbatched(array: Any) -> np.ndarray:
    """The values of an array that `jax.vmap` maps over, with the batch in front."""
    axes = []
    while hasattr(array, "batch_dim"):
        axes.append(array.batch_dim)
        array = array.val
    array = np.asarray(array)
    depth = 0
    for axis in reversed(axes):  # the outermost vmap first; its axis is hidden from those inside
        if axis is not None:
            array = np.moveaxis(array, axis + depth, depth)
            depth += 1
    return array


def _quiet(record: logging.LogRecord) -> bool:
    """JAX logs the traceback of an error in a callback; these errors reach the user as exceptions."""
    return not (record.exc_info and isinstance(record.exc_info[1], InvalidInput))


logging.getLogger("jax._src.callback").addFilter(_quiet)
