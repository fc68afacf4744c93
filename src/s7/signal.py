"""Signals between blocks: the values at each event, the gaps between events, and the padding."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from s7.backend_selection import current_backend, find_backend

# Kernels read tokens as floating-point numbers. Up to here they are exact.
MOST_ROWS = 2**24


class Rows(NamedTuple):
    """Values that are rows of a table. Functions of a single event are computed once per row and then gathered."""

    table: Float[Array, "V H"]
    token: Int[Array, " L"]

    def values(self) -> Float[Array, "L H"]:
        """The row of each event."""
        backend = find_backend(current_backend(self.token.shape[0]))
        if backend.has_pooling and self.table.shape[0] <= MOST_ROWS:
            return backend.pool(self.table, self.token, None, None, 1)[1]
        return self.table[self.token]


class Timing(NamedTuple):
    """Gaps, padding and starts of sequences, as a layer reads them.

    Attributes:
        dt: The gap before each event, or None for regular time.
        mask: False on padding, or None if there is no padding.
        reset: True at the first event of each packed sequence, or None for a single sequence.
    """

    dt: Float[Array, " L"] | None = None
    mask: Bool[Array, " L"] | None = None
    reset: Bool[Array, " L"] | None = None


REGULAR = Timing()


class Signal(NamedTuple):
    """A sequence of events. Padding follows the events; in packed sequences, the events of each sequence.

    Attributes:
        values: The values at each event.
        dt, mask, reset: As in `Timing`.
        rows: The table and the tokens of which `values` are the rows, if there is a table.
    """

    values: Float[Array, "L H"]
    dt: Float[Array, " L"] | None = None
    mask: Bool[Array, " L"] | None = None
    reset: Bool[Array, " L"] | None = None
    rows: Rows | None = None

    @property
    def length(self) -> int:
        """The number of positions, including padding."""
        return self.values.shape[0]

    @property
    def timing(self) -> Timing:
        """The gaps, padding and starts of sequences."""
        return Timing(self.dt, self.mask, self.reset)

    def valid(self) -> Bool[Array, " L"]:
        """The mask, all True if there is no padding."""
        return jnp.ones(self.length, bool) if self.mask is None else self.mask

    def gaps(self) -> Float[Array, " L"]:
        """The gaps; 1 for each event in regular time."""
        return jnp.ones(self.length, self.values.dtype) if self.dt is None else self.dt
