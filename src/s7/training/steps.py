"""One training step and one evaluation step, compiled once for each shape of batch.

A step that produces a value that is not finite leaves the state unchanged, and so do all steps after it: the state
stays as it was when it was last finite, and the outcome names the first parameter that was not.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from s7 import segments
from s7.data.batching import Batch
from s7.recomputation import COMPILER_OPTIONS, recomputed_blocks
from s7.sequence_parts import sequence_parallel
from s7.training.config import TrainConfig
from s7.training.group import ALONE, EVENTS, ROWS, Group
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
        stream: of each row of a batch, what its last segment left to the next; empty if rows hold whole sequences.
    """

    trained: Float[Array, " N"]
    carried: Arrays
    memory: Any
    good: Bool[Array, ""]
    stream: Any = ()


class Sums(NamedTuple):
    """Sums of the objective's values over a batch, and of the targets' weights."""

    values: dict[str, Float[Array, ""]]
    weight: Float[Array, ""]


class Outcome(NamedTuple):
    """The result of a step.

    Attributes:
        sums: of the objective's values.
        good: whether all was finite.
        bad: the first index of the vector that was not finite, or -1.
        requests: how many processes made each request.
    """

    sums: Sums
    good: Bool[Array, ""]
    bad: Int[Array, ""]
    requests: Float[Array, " R"]


# What a process may ask of all: to end training, to stop with a checkpoint, to write a checkpoint. The requests are
# summed with the gradients, so that all processes act on them after the same step.
END, INTERRUPT, SAVE = range(3)
NO_REQUESTS = np.zeros(3, np.float32)


class Steps:
    """The compiled evaluation of a model under an objective."""

    def __init__(self, layout: ParamLayout, objective: Objective, group: Group = ALONE, *, per_step: bool = False):
        self._layout, self._objective, self._group = layout, objective, group
        self._specs = batch_specs(per_step)
        self.outputs: Callable[..., Array] = jax.jit(self._outputs)
        if group.parts > 1:
            every = PartitionSpec()
            together = _on_mesh(group, self._outputs, (every, every, self._specs), self._specs.weight)

            def outputs(trained: Array, carried: Arrays, batch: Batch) -> Array:
                state = group.replicate((trained, carried))
                return group.local(together(*state, group.place(batch, self._specs)))

            self.outputs = outputs
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
    learning rate or length needs no new program. The processes of a group each pass their rows of the batch; sums,
    gradients and the statistics of batch norms are over all rows, so all processes compute the same new state.
    """

    def __init__(
        self,
        layout: ParamLayout,
        objective: Objective,
        optimizer: Optimizer,
        group: Group = ALONE,
        *,
        per_step: bool = False,
        config: TrainConfig | None = None,
    ):
        self._layout, self._objective, self._group = layout, objective, group
        self._recomputed = config.precision if config is not None and config.remat == "blocks" else None
        options: dict[str, Any] = {"compiler_options": COMPILER_OPTIONS} if self._recomputed and _on_cpu() else {}
        self._specs = batch_specs(per_step)
        arrays, self._static = eqx.partition(optimizer, eqx.is_array)
        self._structure = jax.tree.structure(arrays)
        if group.count == 1:
            self.compiled = jax.jit(self._train, donate_argnums=1, **options)
            return
        every: Any = PartitionSpec()
        rows: Any = PartitionSpec(ROWS)
        states = TrainState(every, every, every, every, rows)
        inputs = (every, states, self._specs, every, PartitionSpec((ROWS, EVENTS)))
        self.compiled = _on_mesh(group, self._train_together, inputs, (states, every), donate_argnums=1, **options)

    def train(
        self,
        numbers: tuple[Array, ...],
        state: TrainState,
        batch: Batch,
        key: PRNGKeyArray,
        requests: Float[np.ndarray, " R"] = NO_REQUESTS,
    ) -> tuple[TrainState, Outcome]:
        """Take one step. The state is one of `group.replicate`; all processes call this with the same key."""
        return self.compiled(*self._arguments(numbers, state, batch, key, requests))

    def memory(self, numbers: tuple[Array, ...], state: TrainState, batch: Batch, key: PRNGKeyArray) -> int | None:
        """The bytes that the compiled step plans for arguments, results and temporary arrays, on each device."""
        planned = self.compiled.lower(*self._arguments(numbers, state, batch, key, NO_REQUESTS)).compile()
        return planned_bytes(planned)

    def _arguments(self, numbers, state, batch: Batch, key, requests: np.ndarray) -> tuple[Any, ...]:
        if self._group.count == 1:
            return numbers, state, batch, key
        batch = self._group.place(batch, self._specs)
        requests = self._group.place(requests[None], PartitionSpec((ROWS, EVENTS)))
        # Arrays of one process cannot be combined with those of the mesh; NumPy arrays can.
        numbers, words = jax.tree.map(np.asarray, (numbers, jax.random.key_data(key)))
        return numbers, state, batch, words, requests

    def _train_together(self, numbers, state, batch, words, requests) -> tuple[TrainState, Outcome]:
        return self._train(numbers, state, batch, jax.random.wrap_key_data(words), requests[0], together=True)

    def _train(
        self,
        numbers: tuple[Array, ...],
        state: TrainState,
        batch: Batch,
        key: PRNGKeyArray,
        requests: Float[ArrayLike, " R"] = NO_REQUESTS,
        *,
        together: bool = False,
    ) -> tuple[TrainState, Outcome]:
        axis = ROWS if together else None
        optimizer = eqx.combine(jax.tree.unflatten(self._structure, numbers), self._static)

        def loss(arrays):
            model = self._layout.model(arrays, state.carried)
            stream: Any = ()
            if batch.starts is None:
                outputs, moments = training_outputs(model, batch, key, axis)
            else:
                outputs, moments, stream = segment_outputs(model, batch, state.stream, key, axis)
            if jax.tree.leaves(moments):
                model = model.with_moments(moments)
            sums = weighted_sums(self._objective, outputs, batch.targets, batch.weight)
            return sums.values["loss"], (sums, carried_by(model, tuple(state.carried)), stream)

        # Differentiated array by array: the gradient of a slice would be a vector as long as all of them.
        arrays = self._layout.unravel(state.trained)
        with recomputed_blocks(self._recomputed):
            by_array, (sums, carried, stream) = jax.grad(loss, has_aux=True)(arrays)
        found = (self._layout.ravel(by_array), sums, jnp.asarray(requests))
        if together:
            found = _total(found, (ROWS, EVENTS))
        gradient, sums, asked = found
        weight = jnp.maximum(sums.weight, 1)
        gradient, mean = gradient / weight, sums.values["loss"] / weight
        update, memory = optimizer.update(gradient, state.memory, state.trained, value=mean)
        trained = state.trained + update
        # Clipping spreads one NaN over the whole gradient, so the unclipped gradient identifies its origin.
        bad = _first_bad(gradient)
        bad = jnp.where(bad < 0, _first_bad(trained), bad)
        good = state.good & (bad < 0) & jnp.isfinite(mean)
        old = (state.trained, state.carried, state.memory, state.stream)
        kept = jax.tree.map(partial(jnp.where, good), (trained, carried, memory, stream), old)
        return TrainState(kept[0], kept[1], kept[2], good, kept[3]), Outcome(sums, good, bad, asked)


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def batch_specs(per_step: bool) -> Any:
    """A batch of PartitionSpecs: how it is divided over the mesh, by rows, and by the events of each row."""
    rows: Any = PartitionSpec(ROWS)
    events: Any = PartitionSpec(ROWS, EVENTS)
    targets = events if per_step else rows
    return Batch(inputs=events, dt=events, length=rows, segments=events, targets=targets, weight=targets, starts=rows)


def _on_mesh(group: Group, function: Callable, inputs: Any, outputs: Any, **options: Any) -> Any:
    """Compile a function that the processes of a group compute together."""

    def run(*arguments):
        with sequence_parallel(EVENTS) if group.parts > 1 else nullcontext():
            return function(*arguments)

    # The kernels do not track which values differ between processes, hence check_vma=False: gradients are then those of
    # the sum of all processes' losses, and collectives are differentiated accordingly.
    together = jax.shard_map(run, mesh=group.mesh, in_specs=inputs, out_specs=outputs, check_vma=False)
    return jax.jit(together, **options)


def _total(tree: Any, axis: tuple[str, ...]) -> Any:
    """The sums of arrays over all processes, in one message."""
    leaves, structure = jax.tree.flatten(tree)
    dtype = jnp.result_type(*leaves)
    joined = lax.psum(jnp.concatenate([leaf.astype(dtype).ravel() for leaf in leaves]), axis)
    parts = jnp.split(joined, np.cumsum([leaf.size for leaf in leaves])[:-1])
    whole = [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in zip(parts, leaves, strict=True)]
    return jax.tree.unflatten(structure, whole)


def planned_bytes(compiled: Any) -> int | None:
    """The bytes that a compiled program plans for arguments, results and temporary arrays; None if it is not known."""
    planned = compiled.memory_analysis()
    if planned is None:
        return None
    kinds = ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes")
    return sum(getattr(planned, kind) for kind in kinds)


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


def training_outputs(model: Any, batch: Batch, key: PRNGKeyArray, axis: str | None = None) -> tuple[Array, Any]:
    """A model's outputs in training, and the new running statistics of a model that has them.

    `axis` is the mesh axis over which the rows of the batch are divided; None if all of them are here.

    Any Equinox module can be trained that is called as model(inputs, dt, length, key=key) on one sequence. A model
    with a method `training` (an S7Model) is called through it, for statistics over the batch.
    """
    keys = _row_keys(key, batch.inputs.shape[0], axis)
    if batch.segments is not None:
        packed = partial(model.packed, sequences=_sequences(batch))
        whole = jax.vmap(lambda u, segments, dt, key: packed(u, segments, dt=dt, key=key))
        return whole(batch.inputs, batch.segments, batch.dt, keys), ()
    if not hasattr(model, "training"):
        each = jax.vmap(lambda u, dt, length, key: model(u, dt, length, key=key))
        return each(batch.inputs, batch.dt, batch.length, keys), ()

    axes = "batch" if axis is None else ("batch", axis)

    def one(inputs, dt, length, key):
        return model.training(inputs, dt, length, key=key, batch_axis=axes)

    return jax.vmap(one, axis_name="batch", out_axes=(0, None))(batch.inputs, batch.dt, batch.length, keys)


def segment_outputs(
    model: Any, batch: Batch, stream: segments.Carried, key: PRNGKeyArray, axis: str | None
) -> tuple[Array, Any, segments.Carried]:
    """As `training_outputs`, for the next segment of each row, with what it leaves to the one after."""
    axes = "batch" if axis is None else ("batch", axis)
    fresh = segments.start(model)

    def one(inputs, dt, length, starts, before, key):
        carried = jax.tree.map(lambda new, old: jnp.where(starts, new, old), fresh, before)
        return segments.run(model, inputs, dt, length, carried, key=key, batch_axis=axes)

    each = jax.vmap(one, axis_name="batch", out_axes=(0, None, 0))
    keys = _row_keys(key, batch.inputs.shape[0], axis)
    return each(batch.inputs, batch.dt, batch.length, batch.starts, stream, keys)


def new_stream(model: Any, rows: int) -> segments.Carried:
    """The states of rows that have not seen an event."""
    return jax.tree.map(lambda q: jnp.broadcast_to(q, (rows, *q.shape)), segments.start(model))


def _row_keys(key: PRNGKeyArray, rows: int, axis: str | None) -> Array:
    """A key for each row here, which depends on its number among all rows only."""
    if axis is None:
        return jax.random.split(key, rows)
    keys = jax.random.split(key, rows * lax.axis_size(axis))
    return lax.dynamic_slice_in_dim(keys, lax.axis_index(axis) * rows, rows)


def _sequences(batch: Batch) -> int:
    return batch.weight.shape[1]
