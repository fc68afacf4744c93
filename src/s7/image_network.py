"""A small convolutional network on pictures: 5×5, max pool, 3×3 with stride 2, max pool, linear.

It is the encoder of the pendulum's images in RKN, CRU and S5. A picture with a single row is convolved along its
columns only.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from s7.arrays import as_jax
from s7.contractions import linear
from s7.initialization import Parameters, constant, draw


def init_network(
    shape: tuple[int, int, int], channels: int, width: int, *, key: PRNGKeyArray, dtype: DTypeLike
) -> Parameters:
    """Initial parameters.

    Args:
        shape: (rows, columns, channels) of a picture.
        channels: The number of channels of both convolutions.
        width: The number of outputs.
        key: A JAX random key.
        dtype: The type of the parameters.
    """
    height, breadth, colours = shape
    flat = _eighth(height) * _eighth(breadth) * channels
    first, second = min(5, height), min(3, height)
    weights = {
        "conv1": ((first, 5, colours, channels), math.sqrt(2 / (first * 5 * colours))),
        "conv2": ((second, 3, channels, channels), math.sqrt(2 / (second * 3 * channels))),
        "W": ((width, flat), 1 / math.sqrt(flat)),
    }
    biases = {"c1": channels, "c2": channels, "c": width}
    zeros = {name: constant(0, size, dtype) for name, size in biases.items()}
    return draw(weights, key=key, dtype=dtype) | zeros


def image_network(parameters: Parameters, pictures: Float[Array, "L Y X I"]) -> Float[Array, "L H"]:
    """The features of each picture."""
    # Pooling commutes with the bias and the relu; pooling first leaves them a quarter of the work.
    z = max_pool(convolve(pictures, parameters["conv1"], 1))
    z = jax.nn.relu(z + parameters["c1"])
    z = jax.nn.relu(max_pool(convolve(z, parameters["conv2"], 2)) + parameters["c2"])
    return linear(parameters["W"], z.reshape(pictures.shape[0], -1)) + parameters["c"]


def _eighth(size: int) -> int:
    """The size of a side after a pool, a stride of 2 and another pool, each rounding up."""
    return -(-size // 8)


def convolve(pictures: Float[Array, "L Y X I"], kernel: Float[Array, "A B I O"], stride: int) -> Array:
    """A convolution with "same" padding. Each row of the result is one matrix product.

    XLA's convolution is slow on a CPU with few channels, especially in the backward pass.
    """
    high, wide, _, outputs = kernel.shape
    pad_y, rows = _same(pictures.shape[1], high, stride)
    pad_x, columns = _same(pictures.shape[2], wide, stride)
    # place[x, v, b]: whether column x of the input and column b of the kernel contribute to column v of the result.
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
    """The padding before the first pixel and the size of the result, so that the kernel is centred on its pixels."""
    out = -(-size // stride)
    return max((out - 1) * stride + kernel - size, 0) // 2, out


def max_pool(pictures: Float[Array, "L Y X O"]) -> Array:
    """The maximum of each 2×2 square; at an odd edge, the maximum of the pixels inside the image."""
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
    """The gradient of the maximum, divided equally among equal pixels (a black background). JAX's own is slower."""
    pictures, largest = saved
    squares = _squares(pictures)
    winners = squares == largest[:, :, None, :, None]
    share = g / winners.sum((2, 4))
    spread = jnp.where(winners, share[:, :, None, :, None], 0)
    length, _, _, _, _, channels = squares.shape
    whole = spread.reshape(length, 2 * squares.shape[1], 2 * squares.shape[3], channels)
    return (whole[:, : pictures.shape[1], : pictures.shape[2]],)


_max_of_squares.defvjp(_max_pool_forward, _max_pool_backward)
