"""One step of training and one of evaluation, compiled once for each shape of batch.

A step that meets a number that is not finite changes nothing, and so do all after it: the state stays as it was when
it was last good, and says which parameter was the first to go bad.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from s7.data.batching import Batch
from s7.training.objectives import Objective
from s7.training.optimizer import AdamW, Memory
from s7.training.parameters import Arrays, ParamLayout, carried_by


class TrainState(NamedTuple):
    """All that changes from step to step. `good` turns false when a step would have broken it, and stays so."""

    trained: Float[Array, " N"]
    carried: Arrays
    memory: Memory | None
    good: Bool[Array, ""]


class Sums(NamedTuple):
    """Of the objective's values over a batch, and of the targets' weights."""

    values: dict[str, Float[Array, ""]]
    weight: Float[Array, ""]


class Outcome(NamedTuple):
    """What a step says: its sums, whether all was finite, and the first place of the vector that was not (or -1)."""

    sums: Sums
    good: Bool[Array, ""]
    bad: Int[Array, ""]


class Steps:
    """The compiled steps for a model and an objective."""

    def __init__(self, layout: ParamLayout, objective: Objective):
        self._layout, self._objective = layout, objective
        # The state is given away: its memory becomes that of the next one.
        self.train = jax.jit(self._train, donate_argnums=1)
        self.outputs = jax.jit(self._outputs)
        self.sums = jax.jit(self._sums)

    def _train(
        self, optimizer: AdamW, state: TrainState, batch: Batch, key: PRNGKeyArray
    ) -> tuple[TrainState, Outcome]:
        assert state.memory is not None

        def loss(arrays):
            model = self._layout.model(arrays, state.carried)
            outputs, moments = training_outputs(model, batch, key)
            if jax.tree.leaves(moments):
                model = model.with_moments(moments)
            sums = self._sums(outputs, batch.targets, batch.weight)
            mean = sums.values["loss"] / jnp.maximum(sums.weight, 1)
            return mean, (sums, carried_by(model, tuple(state.carried)))

        # Differentiated array by array: the gradient of a slice would be a vector as long as all of them.
        arrays = self._layout.unravel(state.trained)
        (mean, (sums, carried)), by_array = jax.value_and_grad(loss, has_aux=True)(arrays)
        gradient = self._layout.ravel(by_array)
        trained, memory = optimizer.update(gradient, state.memory, state.trained)
        # One NaN in the gradient is in its norm, and after clipping everywhere: the gradient tells whose it was.
        bad = jnp.where(jnp.isfinite(gradient).all(), _first_bad(trained), _first_bad(gradient))
        good = state.good & (bad < 0) & jnp.isfinite(mean)
        old = (state.trained, state.carried, state.memory)
        kept = jax.tree.map(partial(jnp.where, good), (trained, carried, memory), old)
        return TrainState(kept[0], kept[1], kept[2], good), Outcome(sums, good, bad)

    def evaluate(self, state: TrainState, batch: Batch) -> tuple[Array, Sums]:
        """The outputs and their sums. Two programs, so that who needs the outputs only has them compiled already."""
        outputs = self.outputs(state.trained, state.carried, batch)
        return outputs, self.sums(outputs, batch.targets, batch.weight)

    def _outputs(self, trained: Float[Array, " N"], carried: Arrays, batch: Batch) -> Array:
        return outputs(self._layout.model(self._layout.unravel(trained), carried), batch)

    def _sums(self, outputs: Array, targets: ArrayLike, weight: ArrayLike) -> Sums:
        values = self._objective.values(outputs, jnp.asarray(targets))
        weight = jnp.asarray(weight)
        # Where nothing counts a value may be anything, even infinite.
        sums = {name: jnp.sum(jnp.where(weight > 0, value * weight, 0)) for name, value in values.items()}
        return Sums(sums, jnp.sum(weight))


def _first_bad(vector: Float[Array, " N"]) -> Int[Array, ""]:
    """The first place that is not finite, or -1."""
    broken = ~jnp.isfinite(vector)
    return jnp.where(broken.any(), jnp.argmax(broken), -1)


def outputs(model: Any, batch: Batch) -> Array:
    """A model's outputs over a batch, as they are in use: no dropout, running statistics."""
    if batch.segments is not None:
        return jax.vmap(partial(model.packed, sequences=_sequences(batch)))(batch.inputs, batch.segments, dt=batch.dt)
    return jax.vmap(model)(batch.inputs, batch.dt, batch.length)


def training_outputs(model: Any, batch: Batch, key: PRNGKeyArray) -> tuple[Array, Any]:
    """A model's outputs in training, and new running statistics where it has any.

    Any Equinox module will do that is called as model(inputs, dt, length, key=key) on one sequence; an S7Model's
    `training` is used for its batch statistics.
    """
    keys = jax.random.split(key, batch.inputs.shape[0])
    if batch.segments is not None:
        packed = partial(model.packed, sequences=_sequences(batch))
        whole = jax.vmap(lambda u, segments, dt, key: packed(u, segments, dt=dt, key=key))
        return whole(batch.inputs, batch.segments, batch.dt, keys), ()
    if not hasattr(model, "training"):
        each = jax.vmap(lambda u, dt, length, key: model(u, dt, length, key=key))
        return each(batch.inputs, batch.dt, batch.length, keys), ()

    def one(inputs, dt, length, key):
        return model.training(inputs, dt, length, key=key, batch_axis="batch")

    return jax.vmap(one, axis_name="batch", out_axes=(0, None))(batch.inputs, batch.dt, batch.length, keys)


def _sequences(batch: Batch) -> int:
    return batch.weight.shape[1]
