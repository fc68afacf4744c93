"""Checks of what is fed in.

Values that are at hand are checked where it is cheap. Inside compiled code a check costs a little at every call,
so it is there only in the checked mode: `with s7.checked(): ...`, or S7_CHECKED=1 in the environment.
"""

import os
from contextlib import AbstractContextManager

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

_checked = jax.make_user_context(None)


def checked(on: bool = True) -> AbstractContextManager:
    """Within it, a non-finite input, a negative gap or a token out of range raises an error."""
    return _checked(on)


def is_checked() -> bool:
    """Whether the checked mode is on."""
    if _checked.value is None:
        return os.environ.get("S7_CHECKED", "") not in ("", "0")
    return _checked.value


def require(array: Array, good: Array, what: str) -> Array:
    """The array; in the checked mode an error that says `what` is wrong wherever `good` is not.

    Outside of compiled code the error names the first bad position.
    """
    if not is_checked():
        return array
    if isinstance(good, Tracer):
        return eqx.error_if(array, ~good, what)
    return _require_now(array, np.asarray(good), what)


def _require_now(array: Array, good: np.ndarray, what: str) -> Array:
    if not good.all():
        position = tuple(int(i) for i in np.argwhere(~good)[0])
        place = position[0] if len(position) == 1 else position
        raise ValueError(f"{what}, first at {place}: {np.asarray(array)[position]}")
    return array


def finite(array: Array, name: str, mask: Array | None = None) -> Array:
    """The array, whose values must be finite wherever `mask` says that they count."""
    if not is_checked():
        return array
    good = jnp.isfinite(array)
    if mask is not None:
        good = good | ~mask.reshape(mask.shape + (1,) * (array.ndim - mask.ndim))
    return require(array, good, f"{name} is not finite")


def gaps(dt: Array, mask: Array | None = None) -> Array:
    """The time gaps, which must be finite and not negative."""
    if not is_checked():
        return dt
    good = jnp.isfinite(dt) & (dt >= 0)
    if mask is not None:
        good = good | ~mask
    return require(dt, good, "dt is negative or not finite")
