"""One training step and one evaluation step, compiled once for each shape of batch.

A step that produces a value that is not finite leaves the state unchanged, and so do all steps after it: the state
stays as it was when it was last finite, and the outcome names the first parameter that was not.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from s7.data.batching import Batch
from s7.training.objectives import Objective
from s7.training.optimizer import Optimizer
from s7.training.parameters import Arrays, ParamLayout, carried_by


class TrainState(NamedTuple):
    """Everything that changes from step to step.

    Attributes:
        trained: all trained parameters in one vector.
        carried: arrays that no gradient changes, such as running statistics.
        memory: the optimizer's state; None outside of training.
        good: false once a step was not finite.
    """

    trained: Float[Array, " N"]
    carried: Arrays
    memory: Any
    good: Bool[Array, ""]


class Sums(NamedTuple):
    """Sums of the objective's values over a batch, and of the targets' weights."""

    values: dict[str, Float[Array, ""]]
    weight: Float[Array, ""]


class Outcome(NamedTuple):
    """The sums of a step, whether all was finite, and the first index of the vector that was not (or -1)."""

    sums: Sums
    good: Bool[Array, ""]
    bad: Int[Array, ""]


class Steps:
    """The compiled evaluation of a model under an objective."""

    def __init__(self, layout: ParamLayout, objective: Objective):
        self._layout, self._objective = layout, objective
        self.outputs = jax.jit(self._outputs)
        self.sums = jax.jit(partial(weighted_sums, objective))

    def evaluate(self, state: TrainState, batch: Batch) -> tuple[Array, Sums]:
        """The outputs and their sums. Two programs, so that callers that need only outputs share the first."""
        outputs = self.outputs(state.trained, state.carried, batch)
        return outputs, self.sums(outputs, batch.targets, batch.weight)

    def _outputs(self, trained: Float[Array, " N"], carried: Arrays, batch: Batch) -> Array:
        return outputs(self._layout.model(self._layout.unravel(trained), carried), batch)


class TrainStep:
    """The compiled training step: `train(numbers, state, batch, key)`, which consumes the state's memory.

    `numbers` are the arrays of an optimizer of the same kind as the one given (see `arrays_of`), so that a change of
    learning rate or length needs no new program.
    """

    def __init__(self, layout: ParamLayout, objective: Objective, optimizer: Optimizer):
        self._layout, self._objective = layout, objective
        arrays, self._static = eqx.partition(optimizer, eqx.is_array)
        self._structure = jax.tree.structure(arrays)
        self.train = jax.jit(self._train, donate_argnums=1)

    def _train(
        self, numbers: tuple[Array, ...], state: TrainState, batch: Batch, key: PRNGKeyArray
    ) -> tuple[TrainState, Outcome]:
        optimizer = eqx.combine(jax.tree.unflatten(self._structure, numbers), self._static)

        def loss(arrays):
            model = self._layout.model(arrays, state.carried)
            outputs, moments = training_outputs(model, batch, key)
            if jax.tree.leaves(moments):
                model = model.with_moments(moments)
            sums = weighted_sums(self._objective, outputs, batch.targets, batch.weight)
            mean = sums.values["loss"] / jnp.maximum(sums.weight, 1)
            return mean, (sums, carried_by(model, tuple(state.carried)))

        # Differentiated array by array: the gradient of a slice would be a vector as long as all of them.
        arrays = self._layout.unravel(state.trained)
        (mean, (sums, carried)), by_array = jax.value_and_grad(loss, has_aux=True)(arrays)
        gradient = self._layout.ravel(by_array)
        update, memory = optimizer.update(gradient, state.memory, state.trained, value=mean)
        trained = state.trained + update
        # Clipping spreads one NaN over the whole gradient, so the unclipped gradient identifies its origin.
        bad = _first_bad(gradient)
        bad = jnp.where(bad < 0, _first_bad(trained), bad)
        good = state.good & (bad < 0) & jnp.isfinite(mean)
        old = (state.trained, state.carried, state.memory)
        kept = jax.tree.map(partial(jnp.where, good), (trained, carried, memory), old)
        return TrainState(kept[0], kept[1], kept[2], good), Outcome(sums, good, bad)


def arrays_of(optimizer: Optimizer) -> tuple[Array, ...]:
    """The arrays of an optimizer, in the order that `TrainStep.train` takes them."""
    return tuple(jax.tree.leaves(eqx.filter(optimizer, eqx.is_array)))


def weighted_sums(objective: Objective, outputs: Array, targets: ArrayLike, weight: ArrayLike) -> Sums:
    """The sums of an objective's values over the targets that count."""
    values = objective.values(outputs, jnp.asarray(targets))
    weight = jnp.asarray(weight)
    # Where the weight is zero a value may be anything, even infinite.
    sums = {name: jnp.sum(jnp.where(weight > 0, value * weight, 0)) for name, value in values.items()}
    return Sums(sums, jnp.sum(weight))


def _first_bad(vector: Float[Array, " N"]) -> Int[Array, ""]:
    """The first index whose value is not finite, or -1."""
    broken = ~jnp.isfinite(vector)
    first = jnp.argmax(broken)
    return jnp.where(broken[first], first, -1)


def outputs(model: Any, batch: Batch) -> Array:
    """A model's outputs over a batch in inference: no dropout, running statistics."""
    if batch.segments is not None:
        return jax.vmap(partial(model.packed, sequences=_sequences(batch)))(batch.inputs, batch.segments, dt=batch.dt)
    return jax.vmap(model)(batch.inputs, batch.dt, batch.length)


def training_outputs(model: Any, batch: Batch, key: PRNGKeyArray) -> tuple[Array, Any]:
    """A model's outputs in training, and the new running statistics of a model that has them.

    Any Equinox module can be trained that is called as model(inputs, dt, length, key=key) on one sequence. A model
    with a method `training` (an S7Model) is called through it, for statistics over the batch.
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
