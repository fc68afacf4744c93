"""An encoder for models that read frames instead of single events: it leaves the events to the first layer."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from s7.encoders import Encoder, EventEncoder, TokenReader
from s7.sequence_layer import LayerKind
from s7.settings import Table
from s7.signal import MOST_ROWS


@dataclass(frozen=True)
class FrameEncoder(TokenReader):
    """The vector (token, 0, 0, …) of each event, for a first layer that collects events in frames.

    Inputs are tokens, of shape (L,). The encoder has no parameters. The first block has neither norm, gate nor skip
    connection; the stride of the first stage is the number of events between two outputs of the layer.

    Args:
        layer: The layer of the first block, such as `FrameCnn`. Its `shape` determines the number of tokens.
    """

    layer: LayerKind

    def __post_init__(self):
        if not hasattr(self.layer, "shape"):
            raise ValueError(f"FrameEncoder: {type(self.layer).__name__} does not collect frames; use FrameCnn")
        if self.size > MOST_ROWS:
            raise ValueError(f"FrameEncoder: {self.size} tokens are more than {MOST_ROWS}")

    @property
    def size(self) -> int:
        columns, rows, channels = self.layer.shape  # type: ignore[attr-defined]
        return columns * rows * channels

    def init(self, width, *, key, dtype):
        # Whole numbers, which are not trained: where the token goes in a vector of this width.
        first = np.arange(width) == 0
        return {"first": jnp.asarray(first, jnp.int64 if jnp.dtype(dtype) == jnp.float64 else jnp.int32)}

    def __call__(self, parameters, inputs):
        first = parameters["first"]
        dtype = jnp.float64 if first.dtype == jnp.int64 else jnp.float32
        return (inputs[:, None] * first).astype(dtype)

    def table(self, parameters):
        return self(parameters, jnp.arange(self.size))

    def collector(self):
        return self.layer

    @classmethod
    def completed(cls, settings: Table, given: Encoder) -> Table:
        """The shape of a frame, from the sensor or the number of tokens of the data's encoder."""
        if not isinstance(given, TokenReader):
            raise ValueError("frames are made of events: the inputs of this task are not tokens; choose another model")
        shape = (*given.sensor, 2) if isinstance(given, EventEncoder) else (1, given.size, 1)
        layer = settings.get("layer", {})
        layer = {"kind": layer} if isinstance(layer, str) else layer
        return settings | {"layer": {"shape": list(shape)} | layer}
