"""Encoders: from what comes in at each event to a vector of the model's width.

An encoder's instance holds its settings; its parameters are passed in.
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
from s7.arrays import as_jax
from s7.contractions import linear
from s7.initialization import Parameters, constant, draw
from s7.registry import Registered
from s7.standardization import check_scale, check_units, events_of, units_of
from s7.tokens import from_token, vocabulary


class Encoder(Registered, ABC):
    """What every encoder has."""

    @property
    @abstractmethod
    def event_shape(self) -> tuple[int, ...]:
        """The shape of what comes in at one event."""

    @abstractmethod
    def init(self, width: int, *, key: PRNGKeyArray, dtype: DTypeLike) -> Parameters:
        """Its parameters."""

    @abstractmethod
    def __call__(self, parameters: Parameters, inputs: Shaped[Array, "L ..."]) -> Float[Array, "L H"]:
        """The vectors at each event."""

    def validate(self, inputs: Shaped[ArrayLike, "..."], dtype: DTypeLike, mask: Array | None) -> Array:
        """The inputs in the type to compute with, checked, with nothing left in the padding."""
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
        """What is wrong with an invalid input, for error messages."""
        return "is not finite"

    def invalid(self, inputs: Any) -> Any:
        """Where inputs cannot be read: booleans in their shape, from NumPy or JAX arrays."""
        return checks.not_finite(inputs)

    def table(self, parameters: Parameters) -> Float[Array, "V H"] | None:
        """All that can come out, one row for each token; None where what comes in is not a token."""
        return None


class _TokenReader(Encoder):
    """Encoders that read whole numbers, 0 to `size` - 1."""

    event_shape = ()

    @property
    @abstractmethod
    def size(self) -> int:
        """How many tokens there are."""

    def validate(self, inputs, dtype, mask):
        if not isinstance(inputs, jax.Array):
            inputs = np.asarray(inputs)
        if not jnp.issubdtype(inputs.dtype, jnp.integer):
            raise TypeError(f"tokens must be integers, not {inputs.dtype}")
        if inputs.ndim != 1:
            raise ValueError(f"tokens have shape {inputs.shape}, expected (length,); jax.vmap batches")
        # Before the conversion, which would wrap large integers around.
        inputs = checks.require(inputs, self.invalid, "inputs", self.why_invalid, mask)
        inputs = jnp.asarray(inputs).astype(jnp.int32)
        return inputs if mask is None else jnp.where(mask, inputs, 0)

    @property
    def why_invalid(self):
        return f"is not a token: tokens are 0 to {self.size - 1}"

    def invalid(self, inputs):
        negative = inputs < 0
        if self.size > np.iinfo(inputs.dtype).max:  # as bytes, say, none can be too large
            return negative
        return negative | (inputs >= self.size)


@dataclass(frozen=True)
class TokenEncoder(_TokenReader):
    """A learned vector for each of `tokens` tokens."""

    tokens: int

    @property
    def size(self) -> int:
        return self.tokens

    def init(self, width, *, key, dtype):
        return draw({"token": ((self.tokens, width), 1.0)}, key=key, dtype=dtype)

    def __call__(self, parameters, inputs):
        return parameters["token"][inputs]

    def table(self, parameters):
        return parameters["token"]


@dataclass(frozen=True)
class EventEncoder(_TokenReader):
    """The sum of learned vectors for an event's token, column, row and polarity; any of them can be left out.

    `sensor` is (width, height). For a large sensor `token=False` keeps the model small: a vector per token
    takes 2·width·height rows, the other three together width + height + 2.
    """

    sensor: tuple[int, int]
    token: bool = True
    x: bool = True
    y: bool = True
    polarity: bool = True

    def __post_init__(self):
        vocabulary(self.sensor)
        if not (self.token or self.x or self.y or self.polarity):
            raise ValueError("EventEncoder: token, x, y and polarity are all left out; keep one")

    @property
    def size(self) -> int:
        return vocabulary(self.sensor)

    def init(self, width, *, key, dtype):
        s_x, s_y = self.sensor
        rows = {"token": self.size, "x": s_x, "y": s_y, "polarity": 2}
        rows = {name: size for name, size in rows.items() if getattr(self, name)}
        scale = 1 / math.sqrt(len(rows))
        return draw({name: ((size, width), scale) for name, size in rows.items()}, key=key, dtype=dtype)

    def __call__(self, parameters, inputs):
        x, y, polarity = from_token(inputs, self.sensor[1])
        index = {"token": inputs, "x": x, "y": y, "polarity": polarity}
        vectors = [table[index[name]] for name, table in parameters.items()]
        return jnp.sum(jnp.stack(vectors), 0)

    def table(self, parameters):
        return self(parameters, jnp.arange(self.size))


@dataclass(frozen=True)
class LinearEncoder(Encoder):
    """W u + c of `inputs` numbers. The bias starts random: a one-channel input then meets different thresholds.

    `mean` and `scale` are the inputs' own, in their own units: u is what is left when both are taken out. One of each
    serves all numbers, or there is one for each. `LinearEncoder.of(array)` takes them from data.
    """

    inputs: int
    bias: float = 0.7
    mean: float | tuple[float, ...] = 0.0
    scale: float | tuple[float, ...] = 1.0

    def __post_init__(self):
        check_units(self, self.inputs)

    @classmethod
    def of(cls, inputs: Any, bias: float = 0.7) -> "LinearEncoder":
        """An encoder with the mean and the scale of data; features that do not vary keep scale 1.

        Args:
            inputs: An array (N, L, features), a list of N arrays (L_n, features), a pandas frame with one numeric
                column per feature and one row per event, a list of frames, or `s7.Samples`.
            bias: The standard deviation of the initial bias.
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
    """W relu(W1 u + c1) + c of all the numbers of an event, whatever their shape, divided by `scale`.

    For pictures of something that turns about a fixed point or stands still: `hidden` templates to compare with.
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
    """A small convolutional network on the picture at each event: 5×5, pool, 3×3 with stride 2, pool, linear.

    Pictures are divided by `scale`: 255 for bytes.
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
        height, breadth, colours = self.shape
        channels = self.channels
        flat = _eighth(height) * _eighth(breadth) * channels
        weights = {
            "conv1": ((5, 5, colours, channels), math.sqrt(2 / (25 * colours))),
            "conv2": ((3, 3, channels, channels), math.sqrt(2 / (9 * channels))),
            "W": ((width, flat), 1 / math.sqrt(flat)),
        }
        biases = {"c1": channels, "c2": channels, "c": width}
        zeros = {name: constant(0, size, dtype) for name, size in biases.items()}
        return draw(weights, key=key, dtype=dtype) | zeros

    def __call__(self, parameters, inputs):
        # Pooling commutes with adding a bias and with relu, and leaves them a quarter of the work.
        z = _max_pool(_convolve(inputs / self.scale, parameters["conv1"], 1))
        z = jax.nn.relu(z + parameters["c1"])
        z = jax.nn.relu(_max_pool(_convolve(z, parameters["conv2"], 2)) + parameters["c2"])
        return linear(parameters["W"], z.reshape(inputs.shape[0], -1)) + parameters["c"]


def _eighth(size: int) -> int:
    """What a side is after a pool, a stride of 2 and a pool, each rounding up."""
    for _ in range(3):
        size = -(-size // 2)
    return size


def _convolve(pictures: Float[Array, "L Y X I"], kernel: Float[Array, "A B I O"], stride: int) -> Array:
    """A convolution that keeps the size (over `stride`), each row of the result by one matrix product.

    XLA's own is slow on a CPU with so few channels, above all backwards.
    """
    high, wide, _, outputs = kernel.shape
    pad_y, rows = _same(pictures.shape[1], high, stride)
    pad_x, columns = _same(pictures.shape[2], wide, stride)
    # place[x, v, b]: whether column x meets the kernel's column b on the way to column v.
    x, v, b = np.ogrid[: pictures.shape[2], :columns, :wide]
    place = jnp.asarray(x == v * stride + b - pad_x, kernel.dtype)
    band = jnp.einsum("abio,xvb->axivo", kernel, place).reshape(high, -1, columns * outputs)
    lines = pictures.reshape(*pictures.shape[:2], -1)
    below = (rows - 1) * stride + high - pad_y - pictures.shape[1]
    lines = jnp.pad(lines, ((0, 0), (pad_y, max(below, 0)), (0, 0)))
    seen = jnp.concatenate([lines[:, a : a + (rows - 1) * stride + 1 : stride] for a in range(high)], -1)
    result = seen @ band.reshape(-1, columns * outputs)
    return result.reshape(-1, rows, columns, outputs)


def _same(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Padding in front and the size of the result, so that the kernel's middle meets every `stride`-th pixel."""
    out = -(-size // stride)
    return max((out - 1) * stride + kernel - size, 0) // 2, out


def _max_pool(pictures: Float[Array, "L Y X O"]) -> Array:
    """The maximum of each 2×2 square; at an odd edge, of the part inside the picture."""
    return _max_of_squares(*as_jax(pictures))


@jax.custom_vjp
def _max_of_squares(pictures: Array) -> Array:
    return _squares(pictures).max((2, 4))


def _squares(pictures: Array) -> Array:
    length, rows, columns, channels = pictures.shape
    odd = ((0, 0), (0, rows % 2), (0, columns % 2), (0, 0))
    pictures = jnp.pad(pictures, odd, constant_values=-jnp.inf)
    return pictures.reshape(length, -(-rows // 2), 2, -(-columns // 2), 2, channels)


def _max_pool_forward(pictures):
    largest = _max_of_squares(pictures)
    return largest, (pictures, largest)


def _max_pool_backward(saved, g):
    """To the largest, in equal parts where several are, as on a black background. JAX's own is slower."""
    pictures, largest = saved
    squares = _squares(pictures)
    winners = squares == largest[:, :, None, :, None]
    share = g / winners.sum((2, 4))
    spread = jnp.where(winners, share[:, :, None, :, None], 0)
    length, _, _, _, _, channels = squares.shape
    whole = spread.reshape(length, 2 * squares.shape[1], 2 * squares.shape[3], channels)
    return (whole[:, : pictures.shape[1], : pictures.shape[2]],)


_max_of_squares.defvjp(_max_pool_forward, _max_pool_backward)
