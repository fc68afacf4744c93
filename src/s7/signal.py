"""What flows from block to block: values at events, with the time between them and what is padding."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class Rows(NamedTuple):
    """Values that are rows of a table: what depends on an event alone is computed once per row, then gathered."""

    table: Float[Array, "V H"]
    token: Int[Array, " L"]


class Timing(NamedTuple):
    """When events happen and where sequences start, as a layer reads it.

    `dt` are the gaps before events, None in regular time. `mask` is False on padding, None where there is none.
    `reset` is True at the first event of each of several packed sequences, None for a single one.
    """

    dt: Float[Array, " L"] | None = None
    mask: Bool[Array, " L"] | None = None
    reset: Bool[Array, " L"] | None = None


REGULAR = Timing()


class Signal(NamedTuple):
    """A sequence of events. None for dt is regular time; for mask, all are events; for reset, one sequence.

    Padding stands at the end, or, where several sequences are packed, at the end of each.
    """

    values: Float[Array, "L H"]
    dt: Float[Array, " L"] | None = None
    mask: Bool[Array, " L"] | None = None
    reset: Bool[Array, " L"] | None = None
    rows: Rows | None = None

    @property
    def length(self) -> int:
        """Places in the sequence, padding included."""
        return self.values.shape[0]

    @property
    def timing(self) -> Timing:
        """Gaps, padding and starts."""
        return Timing(self.dt, self.mask, self.reset)

    def valid(self) -> Bool[Array, " L"]:
        """The mask, written out."""
        return jnp.ones(self.length, bool) if self.mask is None else self.mask

    def gaps(self) -> Float[Array, " L"]:
        """The time gaps, one step each in regular time."""
        return jnp.ones(self.length, self.values.dtype) if self.dt is None else self.dt
