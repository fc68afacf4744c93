"""Run in a process with several virtual devices: sequences and batches that are divided, against one device.

Prints a JSON object with the largest differences of each case.
"""

import json
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import s7
from s7.data.batching import Batch
from s7.training import CrossEntropy, TrainConfig
from s7.training.group import ALONE, EVENTS, ROWS, Group
from s7.training.optimizer import AdamW
from s7.training.parameters import flatten
from s7.training.steps import TrainState, TrainStep, arrays_of

POOLED = (s7.Stage(1, stride=2), s7.Stage(1))
FACTORED = {"form": s7.Factored(rank=2), "width": 4, "state": 3}
TOKENS = s7.EventEncoder(sensor=(4, 4))
# Devices, events, whether there are gaps, packed sequences, the backend, and the settings of the model.
CASES = {
    "pooled, bidirectional": (
        *(4, 256, True, 0, "auto"),
        FACTORED | {"stages": POOLED, "bidirectional": True, "head": s7.TimeMean(2)},
    ),
    "tokens, oscillating": (
        *(3, 288, True, 0, "auto"),
        FACTORED | {"stages": POOLED, "transition": s7.Stable(oscillate=True), "encoder": TOKENS, "head": s7.Last(2)},
    ),
    "per step, regular time": (2, 80, False, 0, "xla", {"width": 4, "state": 3, "depth": 1, "head": s7.PerStep(2)}),
    "packed": (2, 128, True, 3, "auto", FACTORED | {"stages": POOLED, "bidirectional": True, "head": s7.Mean(2)}),
}


def inputs_of(encoder, length, rng):
    if isinstance(encoder, s7.LinearEncoder):
        return rng.normal(size=(length, 1)).astype(np.float32)
    return rng.integers(0, encoder.size, length).astype(np.int32)


def differences(devices, length, timed, packed, backend, settings):
    """The largest differences of outputs and gradients, relative to the largest of each, over random sequences."""
    model = s7.S7Model(**{"encoder": s7.LinearEncoder(1), "key": jax.random.key(0)} | settings)
    mesh = Mesh(np.array(jax.devices()[:devices]), ("events",))
    events, per_step = P("events"), model.config.head.per_step

    def call(model, inputs, dt, which):
        return model.packed(inputs, which, packed, dt) if packed else model(inputs, dt, which)

    def part(*arguments):
        with s7.sequence_parallel("events"):
            return call(*arguments)

    specs = (P(), events, events if timed else P(), events if packed else P())
    divided = jax.shard_map(part, mesh=mesh, in_specs=specs, out_specs=events if per_step else P(), check_vma=False)
    factors = np.random.default_rng(0).normal(size=(length if per_step else max(packed, 1), 2)).astype(np.float32)

    def compiled(function):
        def loss(model, inputs, dt, which):
            outputs = function(model, inputs, dt, which)
            last = which if per_step else length
            counted = jnp.arange(len(factors))[:, None] < last
            return jnp.sum(jnp.where(counted, factors * outputs, 0)), outputs

        return jax.jit(jax.value_and_grad(loss, has_aux=True))

    alone, together = compiled(call), compiled(divided)
    rng, found = np.random.default_rng(1), []
    for real in (length, length - 1, length // 2 + 3, 5):
        dt = rng.exponential(size=length).astype(np.float32) if timed else None
        which = np.int32(real)
        if packed:
            ends = np.sort(rng.choice(np.arange(2, length // 2), packed, replace=False)) * 2
            which = np.searchsorted(ends, np.arange(length), side="right").astype(np.int32)
            which[(which >= packed) | (np.arange(length) % 64 > 60)] = -1
        arguments = (model, inputs_of(model.config.encoder, length, rng), dt, which)
        with s7.backend(backend):
            ((_, outputs), gradient), ((_, expected), expected_gradient) = together(*arguments), alone(*arguments)
        if per_step:
            outputs, expected = outputs[:real], expected[:real]
        found.append(relative(outputs, expected))
        found += jax.tree.leaves(jax.tree.map(relative, gradient, expected_gradient))
    return max(found)


def relative(found, expected):
    """The largest difference, relative to the largest value (of at least 0.01)."""
    if np.size(expected) == 0:
        return 0.0
    return float(np.abs(found - expected).max() / max(np.abs(expected).max(), 0.01))


@dataclass(frozen=True)
class Virtual(Group):
    """A group whose processes are devices of this process."""

    @cached_property
    def mesh(self):
        return Mesh(np.array(jax.devices()[: self.count]).reshape(-1, self.parts), (ROWS, EVENTS))

    def place(self, tree, specs):
        return tree


def step_difference(group):
    """The difference that dividing a batch makes to a training step with batch norm, dropout and class weights."""
    key = jax.random.key(1)
    rng = np.random.default_rng(0)
    rows, length = 4, 128
    objective = CrossEntropy(2, weights=(1.0, 3.0))
    settings = FACTORED | {"depth": 1, "norm": "batch", "dropout": 0.2 if group.parts == 1 else 0.0}
    model = s7.S7Model(encoder=s7.LinearEncoder(1), head=s7.Mean(2), key=jax.random.key(0), **settings)
    layout, trained, carried = flatten(model)
    optimizer = AdamW.of(TrainConfig(), layout, 10)
    lengths = np.array([128, 90, 33, 7], np.int32)
    dt = rng.exponential(size=(rows, length)).astype(np.float32)
    x = rng.normal(size=(rows, length, 1)).astype(np.float32)
    batch = Batch(x, dt, lengths, None, np.array([0, 1, 1, 0]), np.array([1, 1, 1, 0], np.float32))
    found = []
    for each in (ALONE, group):
        state = TrainState(*jax.tree.map(jnp.array, (trained, carried, optimizer.init(trained))), jnp.asarray(True))
        arguments = (arrays_of(optimizer), state, batch)
        step = TrainStep(layout, objective, optimizer, each)
        if each is ALONE:
            new, (sums, *_) = step.train(*arguments, key)
        else:
            asked = np.zeros((each.count, 3), np.float32)
            new, (sums, *_) = step.compiled(*arguments, jax.random.key_data(key), asked)
        # Here every part counts the targets; processes give those of the first part only a weight.
        found.append((new.memory, new.carried, jax.tree.map(lambda q, parts=each.parts: q / parts, sums)))
    return max(relative(*pair) for pair in zip(*map(jax.tree.leaves, found), strict=True))


if __name__ == "__main__":
    found = {name: differences(*case) for name, case in CASES.items()}
    found["rows"] = step_difference(Virtual(0, 2))
    found["rows and events"] = step_difference(Virtual(0, 4, 2))
    print(json.dumps(found))
