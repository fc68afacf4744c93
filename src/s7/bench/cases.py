"""Benchmark cases: the layers in the paper's table of hyperparameters, or layers of any shape."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from s7.config import ModelConfig, build_config
from s7.encoders import EventEncoder, LinearEncoder
from s7.forms import Form, Full
from s7.heads import Mean
from s7.layer import S7Layer
from s7.presets import preset, tasks_with
from s7.settings import unknown
from s7.transitions import Stable, Transition

LENGTHS = (256, 2048, 16_384, 131_072)
# Approximate number of steps in a batch: the longer the sequences, the smaller the batch.
STEPS = 32_768
QUICK = ((8, 4096, 48, 8), (12, 4096, 16, 14), (8, 4096, 32, 16), (60, 64, 100, 32))
# Sizes of one input and one output. The models are built without data, which would determine them.
INPUTS, OUTPUTS = 16, 10
# Width and height of each event camera.
SENSORS = {"nmnist": (34, 34), "dvs-gesture": (128, 128)}


@dataclass(frozen=True)
class LayerCase:
    """A layer and the shape of its input batch. `tasks` lists the tasks whose preset has this layer."""

    batch: int
    length: int
    width: int
    state: int
    blocks: int = 1
    transition: Transition = Stable()
    form: Form = Full()
    tasks: tuple[str, ...] = ()

    @property
    def steps(self) -> int:
        """The number of steps in the batch."""
        return self.batch * self.length

    def layer(self) -> S7Layer:
        """Return the layer, initialised from a fixed seed."""
        return S7Layer(
            self.width,
            self.state,
            key=jax.random.key(0),
            transition=self.transition,
            form=self.form,
            blocks=self.blocks,
        )

    def inputs(self) -> jax.Array:
        """Return standard normal inputs of shape (batch, L, H) from a fixed seed."""
        return jnp.asarray(np.random.default_rng(0).standard_normal((self.batch, self.length, self.width), np.float32))

    def about(self) -> dict:
        """Return the fields that describe this case in a row."""
        return {
            "tasks": list(self.tasks),
            "batch": self.batch,
            "length": self.length,
            "width": self.width,
            "state": self.state,
            "D": self.form.D,
            "gain": getattr(self.transition, "gain", None),
        }


def paper_tasks(names: Sequence[str] | None = None) -> list[str]:
    """Return the tasks with a `paper` preset, or check that the given names are among them."""
    known = tasks_with("paper")
    for name in names or ():
        if name not in known:
            raise ValueError(f"--tasks: {unknown('task', name, known)}")
    return list(names or known)


def paper_config(task: str) -> ModelConfig:
    """Return the model configuration of a task's `paper` preset, with a generic encoder and head instead of its own."""
    given = {"encoder": LinearEncoder(INPUTS), "head": Mean(OUTPUTS)}
    return build_config(preset(task, "paper")["model"], "model", given)


def ours_config(task: str) -> ModelConfig:
    """Return the model configuration of the `ours` preset of an event-camera task, with a generic head."""
    table: dict = {"encoder": EventEncoder(SENSORS[task])} | preset(task, "ours")["model"]
    return build_config(table, "model", {"head": Mean(OUTPUTS)})


def paper_cases(tasks: Sequence[str] | None = None, lengths: Sequence[int] = LENGTHS) -> list[LayerCase]:
    """Return the layers in the paper's table at each length. Tasks with the same layer share a case."""
    shared: dict[LayerCase, list[str]] = {}
    for task in paper_tasks(tasks):
        config = paper_config(task)
        layer = LayerCase(1, 1, config.width, config.state, config.blocks, config.transition, config.form)
        shared.setdefault(layer, []).append(task)
    return [
        replace(layer, batch=max(1, round(STEPS / length)), length=length, tasks=tuple(names))
        for layer, names in shared.items()
        for length in lengths
    ]


def shape_cases(shapes: Sequence[tuple[int, ...]]) -> list[LayerCase]:
    """Return cases with default layers. Each shape is (batch, L, H, P)."""
    return [LayerCase(batch, length, width, state) for batch, length, width, state in shapes]
