"""From the arguments of a call to the signal that the first block of a model reads.

Arguments are checked, gaps are converted to the model's unit of time, and inputs are encoded.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, DTypeLike, Float, Integer

from s7 import checks
from s7.config import ModelConfig
from s7.initialization import Parameters
from s7.sequence_parts import first_event, parts, shifted
from s7.signal import MOST_ROWS, Rows, Signal

# Selective quantities are computed once per token instead of once per event if the vocabulary is at most this many
# times as long as the sequence. A batch shares the table, so this is faster even for sequences shorter than it.
TABLE_PER_EVENT = 4


def encode(
    config: ModelConfig,
    parameters: Parameters,
    dtype: DTypeLike,
    inputs: Any,
    dt: Any,
    length: Any,
    mask: Any,
) -> Signal:
    """Check and encode a sequence.

    Args:
        config: The configuration of the model.
        parameters: The parameters of its encoder.
        dtype: The type to compute in.
        inputs, dt, length: As in a call of the model.
        mask: False on padding, if `length` is None; None if there is no padding.
    """
    encoder = config.encoder
    events = np.shape(inputs)[0]
    if events == 0:
        raise ValueError("the sequence has no events")
    if length is not None:
        mask = first_event(events) + jnp.arange(events) < checks.length(jnp.asarray(length), events * parts())
    inputs = encoder.validate(inputs, dtype, mask)
    gaps = _gaps(config, dtype, dt, events, mask)
    size = getattr(encoder, "size", None)
    if size is None or size > min(TABLE_PER_EVENT * events, MOST_ROWS):
        return Signal(encoder(parameters, inputs), gaps, mask)
    rows = Rows(encoder.table(parameters), inputs)  # type: ignore[arg-type]
    return Signal(rows.values(), gaps, mask, rows=rows)


def _gaps(config: ModelConfig, dtype: DTypeLike, dt: Any, events: int, mask: Any) -> Float[Array, " L"] | None:
    """The gaps in the model's unit of time, 0 on padding; None for regular time."""
    if dt is None or config.gaps == "ignored":
        if config.dt is None:
            return None
        dt = jnp.full(events, config.dt)
    dt = checks.gap_array(dt, dtype)
    if dt.shape != (events,):
        raise ValueError(f"dt has shape {dt.shape}, expected ({events},) as the inputs have")
    dt = checks.gaps(dt, mask)
    dt = dt if config.time_unit is None else dt / config.time_unit
    return dt if mask is None else jnp.where(mask, dt, 0)


def check_segments(segments: Any, sequences: int, stride: int) -> Integer[Array, " L"]:
    """Check the numbers of packed sequences.

    Args:
        segments: The number of the sequence of each event; -1 on padding.
        sequences: The number of sequences.
        stride: The stride of the model. Sequences must start at multiples of it.
    """
    numbers: Array = jnp.asarray(segments)
    why = f"is not a segment: segments are -1 (padding) or 0 to {sequences - 1}"
    numbers = checks.require(numbers, lambda n: (n < -1) | (n >= sequences), "segments", why)
    if not isinstance(numbers, Tracer):
        starts = np.flatnonzero(segment_starts(numbers))
        for at in starts[starts % stride != 0][:1]:
            raise ValueError(
                f"packed: sequence {numbers[at]} starts at {at}, which is not a multiple of the stride {stride}"
            )
    return numbers


def segment_starts(segments: Integer[Array, " L"]) -> Bool[Array, " L"]:
    """Whether each event is the first of its sequence."""
    before = shifted(segments, jnp.full((), -1, segments.dtype), later=True)
    return (segments >= 0) & (segments != before)
