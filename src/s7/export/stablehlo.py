"""The step of a model as StableHLO, for any runtime that reads it: from an event and the state to an answer and the
next state.

The weights are constants of the program. It is written by `jax.export` and stays readable by later versions of JAX, as
their compatibility guarantees say.
"""

import importlib.util
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from s7.backend_selection import backend
from s7.files import leaf_name
from s7.model import S7Model
from s7.storage import tensors, write_atomically

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
WITH_GAPS, WITHOUT_GAPS, STATE = "step.stablehlo", "step_without_gaps.stablehlo", "state.safetensors"


def write_stablehlo(model: S7Model, folder: Path) -> list[Path]:
    """Write the step of a model, with gaps and without, and the state before the first event.

    `jax.export.deserialize(data).call(event, gap, *state)` returns the answer after all events so far, followed by the
    arrays of the next state. The second program has no `gap`; a stream uses one of the two from its first event on.

    Args:
        model: A causal model with any head but `Retrieval`.
        folder: The folder to write to. It is made if needed.

    Returns:
        The paths of the files: the two programs, and the initial state, whose metadata list its arrays in order.
    """
    if importlib.util.find_spec("flatbuffers") is None:
        raise ModuleNotFoundError("StableHLO files need flatbuffers, which is missing; pip install 's7-ssm[stablehlo]'")
    if any(block.backward is not None for block in model.blocks):
        raise ValueError("a bidirectional model has no step: it reads the sequence from its end too")
    if model.config.head.documents > 1:
        raise ValueError("the Retrieval head compares two sequences; its step cannot be exported")
    folder = Path(folder)
    state = model.init_state()
    places, _ = jax.tree_util.tree_flatten_with_path(state)
    arrays = {leaf_name(place): np.asarray(leaf) for place, leaf in places}
    files = {
        WITH_GAPS: _program(model, state, timed=True),
        WITHOUT_GAPS: _program(model, state, timed=False),
        STATE: tensors(arrays, {"order": json.dumps(list(arrays))}),
    }
    for name, data in files.items():
        write_atomically(folder / name, data)
    return [folder / name for name in files]


def _program(model: S7Model, state: Any, *, timed: bool) -> bytes:
    leaves, structure = jax.tree.flatten(state)
    encoder: Any = model.config.encoder
    dtype = jnp.dtype(model.config.dtype)
    event = jax.ShapeDtypeStruct(encoder.event_shape, dtype if encoder.event_shape else jnp.dtype("int32"))
    gap = (jax.ShapeDtypeStruct((), dtype),) if timed else ()

    def step(event, *rest):
        before = jax.tree.unflatten(structure, rest[len(gap) :])
        answer, after = model.step(event, before, rest[0] if timed else None)
        return answer, *jax.tree.leaves(after)

    with backend("xla"):
        exported = jax.export.export(jax.jit(step), platforms=PLATFORMS)(event, *gap, *leaves)
    return bytes(exported.serialize())
