"""A recurrence with many states per event, run in chunks of time so that its states are never all in memory.

Mamba and S4D have N states in each channel: L·E·N numbers along a sequence. Only the states between chunks are stored,
and the backward pass recomputes the others chunk by chunk.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Inexact

from s7.backend_selection import SHORTEST_NATIVE

Events = TypeVar("Events")

# States in one chunk of a sequence: few enough for the cache.
_CHUNK_STATES = 65_536


def scan_chunks(
    run: Callable[[Array, Events], tuple[Array, Array]],
    initial: Inexact[Array, " S"],
    events: Events,
    length: int,
    *,
    stride: int = 1,
    reverse: bool = False,
    size: int | None = None,
) -> tuple[Inexact[Array, " S"], Inexact[Array, "M E"]]:
    """Run a recurrence over a sequence in chunks of whole windows.

    Args:
        run: Maps the state before a chunk and the chunk's events to the state after it and the outputs of its windows.
        initial: The state before the first event.
        events: A tree of arrays with one row per event, or one per window. Zeros fill the last chunk: for `run` they
            must be events that leave the state unchanged.
        length: The number of events, a multiple of `stride`.
        stride: Events per window.
        reverse: Run from the end of the sequence.
        size: Events per chunk, rounded up to whole windows; None for chunks whose states fit in the cache.

    Returns:
        The final state and the outputs of all windows.
    """
    if size is None:  # long enough for the native recurrence
        size = max(SHORTEST_NATIVE, _CHUNK_STATES // initial.size)
    size = -(-size // stride) * stride
    if length <= size:
        return jax.checkpoint(run)(initial, events)
    count = -(-length // size)

    def cut(rows: Array) -> Array:
        per_chunk = size * len(rows) // length
        filled = jnp.pad(rows, [(0, count * per_chunk - len(rows))] + [(0, 0)] * (rows.ndim - 1))
        return filled.reshape(count, per_chunk, *rows.shape[1:])

    step = jax.checkpoint(run, prevent_cse=False)  # within a scan nothing can be merged across passes
    final, outputs = lax.scan(step, initial, jax.tree.map(cut, events), reverse=reverse)
    return final, outputs.reshape(-1, outputs.shape[-1])[: length // stride]
