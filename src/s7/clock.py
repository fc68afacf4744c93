"""The clock of a model: the gaps that its layers read.

    dt_k = gap_k / unit                          `gaps="read"`
    dt_k = s gap_k / unit + (1 - s)              `gaps="mixed"`, s = sigmoid(mix)

With the mean gap as the unit, s = 1 is time and s = 0 counts events. Training moves s to where the answer is.
"""

import jax
from jaxtyping import Array, DTypeLike, Float

from s7.config import ModelConfig
from s7.initialization import Parameters, constant


def init_clock(config: ModelConfig, dtype: DTypeLike) -> Parameters | None:
    """The initial parameters, s = 1/2; None for a clock without parameters."""
    return {"mix": constant(0, 1, dtype)} if config.gaps == "mixed" else None


def tick(config: ModelConfig, clock: Parameters | None, gaps: Float[Array, " L"]) -> Float[Array, " L"]:
    """The gaps dt_k of the layers.

    Args:
        config: The configuration of the model.
        clock: The parameters, as `init_clock` returns them.
        gaps: The gaps in the unit of the data.
    """
    dt = gaps if config.time_unit is None else gaps / config.time_unit
    if clock is None:
        return dt
    s = share(clock)
    return s * dt + (1 - s)


def share(clock: Parameters) -> Float[Array, " 1"]:
    """The share s of time in a mixed clock."""
    return jax.nn.sigmoid(clock["mix"])
