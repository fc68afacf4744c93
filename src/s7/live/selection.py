"""Which states of the first layer an event opens and which it closes.

    openness = 1 - |a_k| over one unit of time

The raw parameter w_k = w + W_w u_k decides how fast a state decays. An open state forgets and takes in its input; a
closed state keeps what it holds.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from s7.layer import S7Layer
from s7.model import S7Model

# More states than this are not shown.
STATES = 64
_TINY = 1e-6


class Selection:
    """Computes the openness of the states of a model's first layer.

    Args:
        model: The model.
        timed: Whether it reads times.
    """

    def __init__(self, model: S7Model, timed: bool):
        self._model, self._timed = model, timed
        layer: Any = model.blocks[0].layer
        self.is_selective = isinstance(layer, S7Layer) and layer.transition.selective
        self.states = min(layer.state, STATES) if self.is_selective else 0
        self._order: np.ndarray | None = None

    def openness(self, events: Shaped[np.ndarray, "n ..."]) -> Float[np.ndarray, "n states"]:
        """log2 of the openness of each state at each event, states with short memory first.

        Args:
            events: Tokens or rows of numbers. Pass the same number in every call: a new length is compiled again.
        """
        found = np.log2(np.asarray(_openness(self._model, jnp.asarray(events), self._timed)) + _TINY)
        if self._order is None:
            layer: Any = self._model.blocks[0].layer
            self._order = np.argsort(-np.asarray(_resting(layer, self._timed)), kind="stable")
        return found[:, self._order][:, :: max(1, -(-found.shape[1] // STATES))][:, :STATES]


@eqx.filter_jit
def _openness(model: S7Model, events: Array, timed: bool) -> Float[Array, "n P"]:
    block = model.blocks[0]
    u = model.config.encoder(model.encoder, events)
    if block.config.norm_place == "before":
        u = block.norm.prepare(u, None, None)[0](u)
    layer: Any = block.layer
    return _open(layer, layer.drive(u).w, timed)


@eqx.filter_jit
def _resting(layer: S7Layer, timed: bool) -> Float[Array, " P"]:
    return _open(layer, layer.rates["w"][None], timed)[0]


def _open(layer: S7Layer, w: Float[Array, "n P"], timed: bool) -> Float[Array, "n P"]:
    unit = jnp.ones(w.shape[0], w.dtype) if timed else None
    return jnp.maximum(1 - jnp.abs(layer.transition.discretize(layer.rates, w, unit)[0]), 0)
