"""Sequence parallelism: the events of one sequence are divided over devices, in order and in equal parts.

The recurrence is exact across parts. Each device first finds the last state of its events from a zero state, and the
product of their factors. From those of all devices follows the state before its own part, and it computes its states
from there, as one device would. The gradient crosses parts in the same way, in the other direction, where λ_n is the
gradient with respect to the state before part n as far as it affects part n only:

    before_{n+1} = product_n * before_n + last_n          after_{n-1} = product_n * after_n + λ_n

The first passes keep nothing that is as long as a part until the backward pass, so little memory is needed twice.

Within `sequence_parallel`, which is used inside of `jax.shard_map`, all that looks beyond one event works across parts:
gaps of a reversed scan, starts of packed sequences, averages of heads, statistics of batch norms.
"""

from contextlib import AbstractContextManager

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Inexact, Shaped

# A user context is part of JAX's compilation key.
_axis = jax.make_user_context(None)


def sequence_parallel(axis: str) -> AbstractContextManager[None]:
    """Divide the events of sequences over a mesh axis, in a context inside of `jax.shard_map`.

    A model that is called in the context reads the part of the sequence that its device holds; `length` is that of the
    whole sequence. Outputs per sequence are the same on all devices, outputs per event are those of the device's part.
    Parts are equally long, and a multiple of the model's stride.

    Args:
        axis: The name of the mesh axis.

    Examples:
        >>> import jax, numpy as np, s7
        >>> from jax.sharding import Mesh, PartitionSpec as P
        >>> model = s7.S7Model(encoder=s7.LinearEncoder(1), head=s7.Mean(2), width=4, state=3, key=jax.random.key(0))
        >>> mesh = Mesh(jax.devices(), ("events",))
        >>> def part(inputs, length):
        ...     with s7.sequence_parallel("events"):
        ...         return model(inputs, None, length)
        >>> whole = jax.shard_map(part, mesh=mesh, in_specs=(P("events"), P()), out_specs=P(), check_vma=False)
        >>> jax.jit(whole)(np.zeros((64, 1), np.float32), 60).shape
        (2,)
    """
    return _axis(axis)


def sequence_axis() -> str | None:
    """The mesh axis over which sequences are divided; None if they are not."""
    return _axis.value


def parts() -> int:
    """The number of parts of a sequence."""
    axis = sequence_axis()
    return 1 if axis is None else lax.axis_size(axis)


def first_event(events: int) -> Array | int:
    """The number of the first event of this part, which has `events` of them."""
    axis = sequence_axis()
    return 0 if axis is None else lax.axis_index(axis) * events


def shifted(sequence: Shaped[Array, "L ..."], edge: Shaped[Array, "..."], *, later: bool) -> Shaped[Array, "L ..."]:
    """Shift a sequence by one event, across parts.

    Args:
        sequence: The values of each event.
        edge: The value that takes the empty place at the start or at the end of the whole sequence.
        later: Whether each event gets the value of the one before it, rather than of the one after it.
    """
    axis = sequence_axis()
    if axis is not None:
        count, here = lax.axis_size(axis), lax.axis_index(axis)
        step = 1 if later else -1
        pairs = [(n, n + step) for n in range(count) if 0 <= n + step < count]
        received = lax.ppermute(sequence[-1 if later else 0], axis, pairs)
        edge = jnp.where(here == (0 if later else count - 1), edge, received)
    if later:
        return jnp.concatenate([edge[None], sequence[:-1]])
    return jnp.concatenate([sequence[1:], edge[None]])


def state_before(
    last: Inexact[Array, "*B P"], product: Inexact[Array, "*B P"], initial: Inexact[Array, "*B P"], *, reverse: bool
) -> Inexact[Array, "*B P"]:
    """The state before the events of this part.

    Its gradient is that of the first part's initial state. What other parts receive goes through `adjoint_after`.

    Args:
        last: The last state of this part from a zero state.
        product: The product of its factors.
        initial: The state before the whole sequence.
        reverse: Whether the recurrence runs from the last event to the first.
    """
    axis = sequence_axis()
    assert axis is not None
    before = lax.stop_gradient(_carried(last, product, initial, axis, reverse=reverse))
    first = lax.axis_size(axis) - 1 if reverse else 0
    return jnp.where(lax.axis_index(axis) == first, initial, before)


def adjoint_after(
    adjoint: Inexact[Array, "*B P"], product: Inexact[Array, "*B P"], axis: str, *, reverse: bool
) -> Inexact[Array, "*B P"]:
    """The gradient with respect to the last state of this part, from all later parts.

    Args:
        adjoint: The gradient with respect to the state before this part, as far as it affects this part only.
        product: The product of the factors of this part.
        axis: The mesh axis over which the sequence is divided.
        reverse: Whether the recurrence runs from the last event to the first.
    """
    return _carried(adjoint, product, jnp.zeros_like(adjoint), axis, reverse=not reverse)


def _carried(ends: Array, products: Array, carry: Array, axis: str, *, reverse: bool) -> Array:
    """What the parts before this one leave to it, each of which multiplies it by a product and adds its end."""
    gathered = lax.all_gather(jnp.stack([ends, products]), axis)
    order = range(gathered.shape[0])
    found = []
    for n in reversed(order) if reverse else order:
        found.append(carry)
        carry = gathered[n, 1] * carry + gathered[n, 0]
    return jnp.stack(found[::-1] if reverse else found)[lax.axis_index(axis)]
