"""Packing: several sequences in one row, so that short sequences need no padding."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped


class Packed(NamedTuple):
    """Packed sequences, the result of `pack`.

    Attributes:
        inputs: The events of all sequences.
        segments: The number of the sequence at each position; -1 on padding.
        dt: The gap before each event, or None for regular time.
        sequences: The number of sequences.
    """

    inputs: Shaped[np.ndarray, "L ..."]
    segments: Int[np.ndarray, " L"]
    dt: Float[np.ndarray, " L"] | None
    sequences: int


def pack(
    inputs: Sequence[Shaped[np.ndarray, "..."]],
    dt: Sequence[Float[np.ndarray, "..."]] | None = None,
    *,
    stride: int = 1,
    length: int | None = None,
) -> Packed:
    """Pack sequences into one, for `S7Model.packed`.

    Args:
        inputs: N arrays (L_n, ...).
        dt: N arrays of gaps (L_n,), or None for regular time.
        stride: The stride of the model. Each sequence starts at a multiple of it.
        length: The length to pad to; by default the smallest possible.

    Examples:
        >>> import numpy as np, s7
        >>> s7.pack([np.array([5, 6, 7]), np.array([8])], stride=2).segments
        array([ 0,  0,  0, -1,  1, -1], dtype=int32)
    """
    if not inputs:
        raise ValueError("pack: there are no sequences")
    sizes = [len(sequence) for sequence in inputs]
    for n, size in enumerate(sizes):
        if size == 0:
            raise ValueError(f"pack: sequence {n} has no events")
        if dt is not None and len(dt[n]) != size:
            raise ValueError(f"pack: sequence {n} has {size} events but {len(dt[n])} gaps")
    places = [-(-size // stride) * stride for size in sizes]
    starts = np.concatenate([[0], np.cumsum(places)])
    total = int(starts[-1])
    if length is None:
        length = total
    elif length < total:
        raise ValueError(f"pack: the sequences take {total} places, more than length={length}")
    first = np.asarray(inputs[0])
    laid = np.zeros((length, *first.shape[1:]), first.dtype)
    gaps = None if dt is None else np.zeros(length, np.asarray(dt[0]).dtype)
    segments = np.full(length, -1, np.int32)
    for n, (start, size) in enumerate(zip(starts, sizes, strict=False)):
        laid[start : start + size] = inputs[n]
        segments[start : start + size] = n
        if gaps is not None and dt is not None:
            gaps[start : start + size] = dt[n]
    return Packed(laid, segments, gaps, len(sizes))
