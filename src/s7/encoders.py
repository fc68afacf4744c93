"""Encoders: map the input at each event to a vector of the model's width.

An encoder is a frozen dataclass of settings. Its parameters are arguments of its methods.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, DTypeLike, Float, PRNGKeyArray, Shaped

from s7 import checks
from s7.contractions import linear
from s7.image_network import image_network, init_network
from s7.initialization import Parameters, constant, draw, smoothed
from s7.registry import Registered
from s7.sequence_layer import LayerKind
from s7.settings import Table
from s7.signal import Rows
from s7.standardization import check_scale, check_units, events_of, units_of
from s7.tokens import from_token, vocabulary


class Encoder(Registered, ABC):
    """The base class of encoders. A subclass is a frozen dataclass of settings and registers itself by its name."""

    @property
    @abstractmethod
    def event_shape(self) -> tuple[int, ...]:
        """The shape of the input at one event; `()` for tokens."""

    @abstractmethod
    def init(self, width: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """Initial parameters, for outputs of size `width`."""

    @abstractmethod
    def __call__(self, parameters: Parameters, inputs: Shaped[Array, "L ..."]) -> Float[Array, "L H"]:
        """Encode a sequence.

        Args:
            parameters: The parameters, as `init` returns them.
            inputs: The inputs, (L, *event_shape).

        Returns:
            One vector per event, (L, H).
        """

    def validate(self, inputs: Shaped[ArrayLike, "..."], dtype: DTypeLike, mask: Array | None) -> Array:
        """Check the inputs of one sequence and convert them.

        Args:
            inputs: The inputs, (L, *event_shape).
            dtype: The type to convert to. Tokens stay integers.
            mask: False on padding, (L,). Padding is set to zero.

        Raises:
            ValueError: If the shape is wrong or an input is invalid, with its position.
        """
        values: Array = jnp.asarray(inputs, dtype)
        expected = ("length", *self.event_shape)
        if values.ndim != len(expected) or values.shape[1:] != self.event_shape:
            wanted = f"({', '.join(map(str, expected))})"
            raise ValueError(f"inputs have shape {values.shape}, expected {wanted}; jax.vmap batches")
        values = checks.require(values, self.invalid, "inputs", self.why_invalid, mask)
        if mask is None:
            return values
        return jnp.where(mask.reshape(-1, *(1 for _ in self.event_shape)), values, 0)

    @property
    def why_invalid(self) -> str:
        """Why inputs are invalid, for error messages."""
        return "is not finite"

    def invalid(self, inputs: Any) -> Any:
        """Whether each input is invalid: booleans in the shape of `inputs`, which is a NumPy or JAX array."""
        return checks.not_finite(inputs)

    def table(self, parameters: Parameters) -> Float[Array, "V H"] | None:
        """The encoding of every token, one row per token, or None if the inputs are not tokens."""
        return None

    def collector(self) -> LayerKind | None:
        """The layer of the first block, if the encoder leaves it to collect events; None for the model's own layer."""
        return None

    @classmethod
    def completed(cls, settings: Table, given: "Encoder") -> Table:
        """Complete the settings of this class from the encoder of the data, which it replaces."""
        return settings


class TokenReader(Encoder):
    """The base class of encoders that read tokens: integers from 0 to `size` - 1."""

    event_shape = ()

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of tokens."""

    def validate(self, inputs, dtype, mask):
        if not isinstance(inputs, jax.Array):
            inputs = np.asarray(inputs)
        if not jnp.issubdtype(inputs.dtype, jnp.integer):
            raise TypeError(f"tokens must be integers, not {inputs.dtype}")
        if inputs.ndim != 1:
            raise ValueError(f"tokens have shape {inputs.shape}, expected (length,); jax.vmap batches")
        # Check before the conversion, in which large integers would overflow.
        inputs = checks.require(inputs, self.invalid, "inputs", self.why_invalid, mask)
        inputs = jnp.asarray(inputs).astype(jnp.int32)
        return inputs if mask is None else jnp.where(mask, inputs, 0)

    @property
    def why_invalid(self):
        return f"is not a token: tokens are 0 to {self.size - 1}"

    def invalid(self, inputs):
        negative = inputs < 0
        if self.size > np.iinfo(inputs.dtype).max:  # bytes, for example, cannot exceed a larger vocabulary
            return negative
        return negative | (inputs >= self.size)


@dataclass(frozen=True)
class TokenEncoder(TokenReader):
    """A learned vector for each token.

    Args:
        tokens: The number of tokens. Inputs are integers from 0 to `tokens` - 1, of shape (L,).
        smooth: How far the initial vectors of neighbouring tokens are alike, for tokens that are places along a line,
            such as channels of frequency: the standard deviation of a Gaussian filter, in tokens. 0 for independent
            vectors.
    """

    tokens: int
    smooth: float = 0.0

    def __post_init__(self):
        if self.tokens < 1:
            raise ValueError(f"TokenEncoder: tokens={self.tokens} must be at least 1")
        _check_smooth(self)

    @property
    def size(self) -> int:
        return self.tokens

    def init(self, width, *, key, dtype):
        drawn = draw({"token": ((self.tokens, width), 1.0)}, key=key, dtype=dtype)
        return {name: smoothed(table, self.smooth) for name, table in drawn.items()}

    def __call__(self, parameters, inputs):
        return Rows(parameters["token"], inputs).values()

    def table(self, parameters):
        return parameters["token"]


@dataclass(frozen=True)
class EventEncoder(TokenReader):
    """The sum of learned vectors for the token, the column, the row and the polarity of an event.

    Inputs are tokens from `s7.tokenize`, of shape (L,). For a large sensor, `token=False` keeps the model small: the
    vectors per token have 2·width·height rows, and the other three together have width + height + 2.

    Args:
        sensor: (width, height) in pixels.
        token: Whether to add a vector for the token.
        x: Whether to add a vector for the column.
        y: Whether to add a vector for the row.
        polarity: Whether to add a vector for the polarity.
        smooth: How far the initial vectors of neighbouring pixels are alike: the standard deviation of a Gaussian
            filter, in pixels. 0 for independent vectors. A model of few recordings then generalizes better from a
            pixel to its neighbours.
    """

    sensor: tuple[int, int]
    token: bool = True
    x: bool = True
    y: bool = True
    polarity: bool = True
    smooth: float = 0.0

    def __post_init__(self):
        vocabulary(self.sensor)
        _check_smooth(self)
        if not (self.token or self.x or self.y or self.polarity):
            raise ValueError("EventEncoder: token, x, y and polarity are all False; at least one must be True")

    @property
    def size(self) -> int:
        return vocabulary(self.sensor)

    def init(self, width, *, key, dtype):
        s_x, s_y = self.sensor
        rows = {"token": self.size, "x": s_x, "y": s_y, "polarity": 2}
        rows = {name: size for name, size in rows.items() if getattr(self, name)}
        scale = 1 / math.sqrt(len(rows))
        drawn = draw({name: ((size, width), scale) for name, size in rows.items()}, key=key, dtype=dtype)
        places = {"token": self.sensor, "x": (s_x,), "y": (s_y,), "polarity": ()}
        return {name: smoothed(table, self.smooth, places[name]) for name, table in drawn.items()}

    def __call__(self, parameters, inputs):
        x, y, polarity = from_token(inputs, self.sensor[1])
        index = {"token": inputs, "x": x, "y": y, "polarity": polarity}
        first, *rest = (Rows(table, index[name]).values() for name, table in parameters.items())
        return sum(rest, first)

    def table(self, parameters):
        # By broadcasting: the gradients are then sums along axes, which are faster than scatters.
        x, y = self.sensor
        axes = {"token": (x, y, 2), "x": (x, 1, 1), "y": (1, y, 1), "polarity": (1, 1, 2)}
        first, *rest = (table.reshape(*axes[name], -1) for name, table in parameters.items())
        return jnp.broadcast_to(sum(rest, first), (x, y, 2, first.shape[-1])).reshape(self.size, -1)


def _check_smooth(encoder: TokenEncoder | EventEncoder) -> None:
    if not 0 <= encoder.smooth < math.inf:
        raise ValueError(f"{type(encoder).__name__}: smooth={encoder.smooth} must be finite and not negative")


@dataclass(frozen=True)
class LinearEncoder(Encoder):
    """W u + c, where u = (inputs - mean) / scale.

    The initial bias is random, so that a single-channel input meets different thresholds. `LinearEncoder.of(data)`
    takes the number of features, `mean` and `scale` from data.

    Args:
        inputs: The number of features of an event. Inputs have shape (L, inputs).
        bias: The standard deviation of the initial bias c.
        mean: The mean of the inputs, one number for all features or one for each.
        scale: The standard deviation of the inputs, one number for all features or one for each.
    """

    inputs: int
    bias: float = 0.7
    mean: float | tuple[float, ...] = 0.0
    scale: float | tuple[float, ...] = 1.0

    def __post_init__(self):
        if self.inputs < 1:
            raise ValueError(f"LinearEncoder: inputs={self.inputs} must be at least 1")
        check_units(self, self.inputs)

    @classmethod
    def of(cls, inputs: Any, bias: float = 0.7) -> "LinearEncoder":
        """An encoder with the mean and the scale of data. Constant features have scale 1.

        Args:
            inputs: An array (N, L, features), a list of N arrays (L_n, features), a pandas frame with one numeric
                column per feature and one row per event, a list of frames, or `s7.Samples`.
            bias: The standard deviation of the initial bias.

        Examples:
            >>> import numpy as np, s7
            >>> s7.LinearEncoder.of([np.array([[0.0], [2.0]]), np.array([[4.0]])]).mean
            (2.0,)
        """
        events = events_of(inputs)
        return cls(events.shape[1], bias, *units_of(events))

    @property
    def event_shape(self):
        return (self.inputs,)

    def init(self, width, *, key, dtype):
        wanted = {"W": ((width, self.inputs), 1 / math.sqrt(self.inputs)), "c": ((width,), self.bias)}
        return draw(wanted, key=key, dtype=dtype)

    def __call__(self, parameters, inputs):
        u = (inputs - jnp.asarray(self.mean, inputs.dtype)) / jnp.asarray(self.scale, inputs.dtype)
        return linear(parameters["W"], u) + parameters["c"]


@dataclass(frozen=True)
class DenseEncoder(Encoder):
    """W relu(W1 u + c1) + c, where u is the flattened input of an event divided by `scale`.

    It compares an input with `hidden` learned templates, which suits images of objects that do not move or that rotate
    about a fixed point.

    Args:
        shape: The shape of an event. Inputs have shape (L, *shape).
        hidden: The number of hidden units.
        scale: The divisor of the inputs, such as 255 for bytes.
    """

    shape: tuple[int, ...]
    hidden: int = 64
    scale: float = 1.0

    def __post_init__(self):
        if not self.shape or min(self.shape) < 1 or self.hidden < 1:
            raise ValueError(f"DenseEncoder: shape={self.shape} and hidden={self.hidden} must be at least 1")
        check_scale(self)

    @property
    def event_shape(self):
        return self.shape

    def init(self, width, *, key, dtype):
        flat = math.prod(self.shape)
        weights = {
            "W1": ((self.hidden, flat), math.sqrt(2 / flat)),
            "W": ((width, self.hidden), 1 / math.sqrt(self.hidden)),
        }
        zeros = {"c1": constant(0, self.hidden, dtype), "c": constant(0, width, dtype)}
        return draw(weights, key=key, dtype=dtype) | zeros

    def __call__(self, parameters, inputs):
        u = inputs.reshape(inputs.shape[0], -1) / self.scale
        hidden = jax.nn.relu(linear(parameters["W1"], u) + parameters["c1"])
        return linear(parameters["W"], hidden) + parameters["c"]


@dataclass(frozen=True)
class ImageEncoder(Encoder):
    """A small convolutional network on the image at each event: 5×5, max pool, 3×3 with stride 2, max pool, linear.

    Args:
        shape: (height, width, channels) of an image, at least 8×8. Inputs have shape (L, *shape).
        channels: The number of channels of both convolutions.
        scale: The divisor of the inputs, such as 255 for bytes.
    """

    shape: tuple[int, int, int]
    channels: int = 12
    scale: float = 1.0

    def __post_init__(self):
        if len(self.shape) != 3 or min(self.shape[:2]) < 8:
            raise ValueError(f"ImageEncoder: shape={self.shape} must be (height, width, channels), at least 8×8")
        check_scale(self)

    @property
    def event_shape(self):
        return self.shape

    def init(self, width, *, key, dtype):
        return init_network(self.shape, self.channels, width, key=key, dtype=dtype)

    def __call__(self, parameters, inputs):
        return image_network(parameters, inputs / self.scale)
