"""Custom calls on one part of a sequence that is divided over devices: their gradients cross the parts.

The initial state of such a call is the state before the part. The gradient of the call is computed twice: first for the
gradient with respect to that state, which all devices exchange, then with the gradient of the last state that follows.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from s7.native.calls import Weights, differentiable
from s7.sequence_parts import adjoint_after


class Divided(NamedTuple):
    """The options of a call on a part: those of the call on a whole sequence, and the mesh axis of the parts."""

    local: Any
    axis: str


class Link(NamedTuple):
    """A layer of a call: the place of its initial state among the arguments, and whether it runs backwards."""

    initial: int
    reverse: bool


def divided(
    name: str,
    weights: Weights,
    value: Callable[..., Sequence[Array]],
    value_and_saved: Callable[..., tuple[Sequence[Array], Any]],
    gradient: Callable[..., tuple[Array, ...]],
    *,
    links: Callable[[Any], Sequence[Link]],
    add_finals: Callable[..., Sequence[Array]],
    selective: bool = False,
) -> Callable[..., list[Array]]:
    """Make a differentiable function f(*products, *arrays, options) from that of a whole sequence.

    Args:
        name, weights, value, value_and_saved, gradient, selective: As in `calls.differentiable`.
        links: links(options) are the layers of the call.
        add_finals: add_finals(options, gradients, finals) adds the gradients of the last state of each layer to those
            of the results.

    The products are those of the factors of all events, for each layer; as the states, they are real rows.
    """

    def part_weights(options: Divided) -> slice:
        found = weights(options.local) if callable(weights) else weights
        count = len(links(options.local))
        return slice(found.start + count, None if found.stop is None else found.stop + count)

    def part_value(options: Divided, *arrays: Array):
        return value(options.local, *arrays[len(links(options.local)) :])

    def part_value_and_saved(options: Divided, *arrays: Array):
        count = len(links(options.local))
        results, saved = value_and_saved(options.local, *arrays[count:])
        return results, (arrays[:count], saved)

    def part_gradient(options: Divided, residuals, gradients, *needed):
        products, saved = residuals
        local, layers = options.local, links(options.local)
        needed = tuple(one[len(products) :] for one in needed)
        nothing = tuple((False,) * len(one) for one in needed)
        first = gradient(local, saved, gradients, *nothing)
        finals = [
            _after(first[link.initial], product, options, reverse=link.reverse)
            for link, product in zip(layers, products, strict=True)
        ]
        found = gradient(local, saved, add_finals(local, gradients, finals), *needed)
        return *map(jnp.zeros_like, products), *found

    return differentiable(name, part_weights, part_value, part_value_and_saved, part_gradient, selective=selective)


def _after(
    adjoint: Float[Array, "n S"], product: Float[Array, "n S"], options: Divided, *, reverse: bool
) -> Float[Array, "n S"]:
    if not options.local.oscillate:
        return adjoint_after(adjoint, product, options.axis, reverse=reverse)
    # The gradients are those of real and imaginary parts, so the transpose of a product is that with the conjugate.
    real, imaginary = jnp.split(adjoint, 2, -1)
    factor = lax.complex(*jnp.split(product, 2, -1)).conj()
    after = adjoint_after(lax.complex(real, imaginary), factor, options.axis, reverse=reverse)
    return jnp.concatenate([after.real, after.imag], -1)
