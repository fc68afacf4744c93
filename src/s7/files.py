"""Model and state files: one safetensors file each, with a description as JSON in its header.

An `S7Model` is described by its configuration; any other Equinox module, or an `S7Model` that was altered by hand, by
its structure (see structure.py). An object with a method `__s7_save__` is saved as the module that it returns, and made
again by that module's method `__s7_load__`. Arrays are named by their path in the model. `save` restores what it is
about to write and compares, so that whatever it accepts can be loaded again. Reading a file never unpickles or
evaluates, and imports nothing but parts of this package.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from s7 import hub
from s7.config import ModelConfig
from s7.model import ModelState, S7Model
from s7.registry import require_importable
from s7.sequence_layer import LayerKind
from s7.settings import build, kind_of
from s7.storage import read_arrays, write_arrays
from s7.structure import Arrays, describe, from_stored, rebuild, to_stored, widened
from s7.transitions import Transition

# The model in a run folder: the first of these files that exists.
NAMES = ("best.safetensors", "model.safetensors")

# Sizes in a configuration up to this one need no arrays in the file to support them.
_HARMLESS = 2**16


def save(model: Any, path: str | os.PathLike, *, precision: Literal["full", "float16"] = "full") -> Path:
    """Write a model to a file that `s7.load` restores bit by bit in any process.

    Args:
        model: An `S7Model`, a fitted estimator of `s7.sklearn`, or any Equinox module whose classes are defined in
            importable modules.
        path: A .safetensors file, or a folder, in which the file is called model.safetensors.
        precision: "float16" rounds float32 parameters to 11 bits, for a file of half the size. `s7.load` then restores
            the rounded numbers, as float32.

    Returns:
        The path of the file.

    Raises:
        ValueError: If the model could not be restored. The file is then not written.

    Examples:
        >>> import jax, numpy as np, s7
        >>> model = s7.S7Model(encoder=s7.LinearEncoder(3), head=s7.Mean(2), width=8, state=4, key=jax.random.key(0))
        >>> path = s7.save(model, "model.safetensors")
        >>> bool((s7.load(path).head["W"] == model.head["W"]).all())
        True
    """
    if hasattr(model, "__s7_save__"):
        model = model.__s7_save__()
    if not isinstance(model, eqx.Module):
        raise TypeError(f"s7.save writes an S7Model or another Equinox module, not a {type(model).__name__}")
    path = Path(path)
    if path.suffix != ".safetensors":
        path = path / "model.safetensors"
    try:
        config, arrays = _description(model)
        if precision == "float16":
            arrays = _halved(arrays)
    except ValueError as error:
        raise ValueError(f"{path}: not written, {error}") from None
    write_arrays(path, "model", arrays, config)
    return path


def load(path: str | os.PathLike) -> Any:
    """Restore a model from a file that `s7.save` wrote.

    Args:
        path: A model file, a run folder (best.safetensors, else model.safetensors), or the name of a shared model:
            "s7/nmnist", "org/name" or "org/name@revision". Names are looked up in this package, in the local cache
            of the Hugging Face hub, and on the hub if huggingface_hub is installed.

    Raises:
        ValueError: If the file is damaged, or if it needs a class whose module has not been imported.
    """
    path = _find(Path(path))
    arrays, config = read_arrays(path, "model")
    try:
        restored = _restored(config, arrays)
        return restored.__s7_load__() if hasattr(restored, "__s7_load__") else restored
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def save_state(model: S7Model, state: ModelState, path: str | os.PathLike) -> Path:
    """Write the state of a stream, so that another process can continue it.

    Args:
        model: The model of the state. Its configuration is stored with the state.
        state: The state, from `model.init_state`, `model.step` or `model.chunk`.
        path: A .safetensors file.

    Returns:
        The path of the file.
    """
    if not isinstance(model, S7Model):
        raise TypeError(f"save_state(model, state, path): model is a {type(model).__name__}, not an S7Model")
    path = Path(path)
    write_arrays(path, "state", named_arrays(state), to_json(model.config))
    return path


def load_state(model: S7Model, path: str | os.PathLike) -> ModelState:
    """Restore the state of a stream.

    Args:
        model: The model that the state belongs to.
        path: A file that `s7.save_state` wrote.

    Raises:
        ValueError: If the file is damaged or belongs to a model with another configuration.
    """
    path = Path(path)
    arrays, config = read_arrays(path, "state")
    try:
        same = _config(config) == model.config
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not same:
        raise ValueError(f"{path}: the state belongs to a model with another configuration")
    return fill(eqx.filter_eval_shape(model.init_state), arrays, path)


def _halved(arrays: Arrays) -> Arrays:
    """The arrays with float32 rounded to float16, whose largest number is 65,504."""
    for name, array in arrays.items():
        if array.dtype == np.float32 and np.abs(array).max(initial=0) > np.finfo(np.float16).max:
            raise ValueError(f"{name} has a number above {np.finfo(np.float16).max:,.0f}, too large for float16")
    return {name: array.astype(np.float16) if array.dtype == np.float32 else array for name, array in arrays.items()}


def _description(model: eqx.Module) -> tuple[Any, Arrays]:
    """What a file holds of a model: by its configuration if that says it all, else by its structure."""
    if type(model) is S7Model:
        for cls in _classes(model.config):
            require_importable(cls)
        config, arrays = to_json(model.config), named_arrays(model)
        if _is_built_as(model, config, arrays):
            return config, arrays
    description, arrays = describe(model)
    again = describe(rebuild(description, arrays))
    if again[0] != description or any(again[1][name].tobytes() != array.tobytes() for name, array in arrays.items()):
        raise ValueError(f"{type(model).__name__} would not be restored as it is")
    return {"module": description}, arrays


def _is_built_as(model: S7Model, config: Any, arrays: Arrays) -> bool:
    """Whether a configuration, as JSON, and arrays make exactly this model."""
    try:
        back = _restored(json.loads(json.dumps(config)), arrays)
    except (TypeError, ValueError):
        return False
    structures: list[Any] = [jax.tree.structure(q) for q in (back, model)]
    others = [eqx.filter(q, eqx.is_array, inverse=True) for q in (back, model)]
    return (
        back.config == model.config
        and structures[0] == structures[1]
        and jax.tree.leaves(others[0]) == jax.tree.leaves(others[1])
    )


def _restored(config: Any, arrays: Arrays) -> Any:
    if isinstance(config, dict) and "module" in config:
        return rebuild(config["module"], arrays)
    model_config = _config(config)
    if "clock.mix" in arrays:
        raise ValueError('gaps="mixed" was one learned clock per model until version 0.15; train the model again')
    _check_sizes(model_config, arrays)
    try:
        skeleton = _skeleton(model_config, repr(model_config), jax.config.jax_enable_x64)  # type: ignore[attr-defined]
    except Exception as error:  # whatever the constructors of a user's classes raise
        raise ValueError(f"the model cannot be built: {' '.join(str(error).split())[:200]}") from None
    return fill(skeleton, arrays)


@lru_cache(maxsize=8)
def _skeleton(config: ModelConfig, text: str, x64: bool) -> S7Model:
    """The model with shapes in place of arrays.

    `text` is the configuration in words: it distinguishes 1, 1.0 and True, which are the same key of a cache.
    """
    return eqx.filter_eval_shape(lambda: S7Model(config, key=jax.random.key(0)))


def _config(data: Any) -> ModelConfig:
    if not isinstance(data, dict) or data.get("kind") != "ModelConfig":
        raise ValueError("the configuration is not that of a model")
    try:
        # Models had no setting for gaps at first: all states read them.
        return build(ModelConfig, {"gaps": "read"} | _with_step_bounds(data), "config")
    except (TypeError, RecursionError) as error:
        raise ValueError(f"config: {error}") from None


def _with_step_bounds(data: Any) -> Any:
    """A configuration in which `steps`, a range of step sizes in files of format 1, is dt_min and dt_max."""
    if isinstance(data, list):
        return [_with_step_bounds(item) for item in data]
    if not isinstance(data, dict):
        return data
    table = {name: _with_step_bounds(value) for name, value in data.items()}
    steps, kind = table.get("steps"), str(table.get("kind"))
    known = Transition.registry.classes | LayerKind.registry.classes
    if isinstance(steps, list) and len(steps) == 2 and "dt_min" in getattr(known.get(kind), "__dataclass_fields__", {}):
        table["dt_min"], table["dt_max"] = table.pop("steps")
    return table


def _check_sizes(config: ModelConfig, arrays: Arrays) -> None:
    """Refuse sizes that the arrays in the file do not bear out, before anything of that size is made."""
    blocks = len({name.split(".")[1] for name in arrays if name.startswith("blocks.")})
    if config.depth != blocks:
        raise ValueError(f"the configuration has {config.depth} blocks, but the arrays are of {blocks}")
    largest = max((max(array.shape, default=1) for array in arrays.values()), default=0)
    widths = [config.width, *(stage.width for stage in config.stages if stage.width is not None)]
    for name, size in [("width", max(widths)), ("state", config.state if config.layer is None else 1)]:
        if size > largest:
            raise ValueError(f"the configuration has {name}={size}, but no array is that large")
    total = max(_HARMLESS, sum(array.size for array in arrays.values()))
    for size in _integers(to_json(replace(config, classes=()))):
        if size > total:
            raise ValueError(f"the configuration has a size of {size}, but the arrays hold {total} numbers at most")


def _integers(data: Any) -> Iterator[int]:
    if isinstance(data, dict | list):
        for item in data.values() if isinstance(data, dict) else data:
            yield from _integers(item)
    elif isinstance(data, int):
        yield data


def _classes(config: Any) -> Iterator[type]:
    """The classes of a configuration and of everything in it."""
    if is_dataclass(config):
        yield type(config)
        for field in fields(config):
            yield from _classes(getattr(config, field.name))
    elif isinstance(config, tuple):
        for item in config:
            yield from _classes(item)


def to_json(config: Any) -> Any:
    """A configuration as plain JSON values; a dataclass becomes an object with its name under "kind"."""
    if is_dataclass(config):
        values = {field.name: to_json(getattr(config, field.name)) for field in fields(config)}
        return {"kind": kind_of(config)} | values
    if isinstance(config, tuple):
        return [to_json(item) for item in config]
    return config.item() if isinstance(config, np.generic) else config


def named_arrays(tree: Any) -> Arrays:
    """The arrays of a tree by their path in it, in the types that files hold."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))
    return {leaf_name(path): to_stored(np.array(leaf, order="C")) for path, leaf in leaves}


def leaf_name(path: tuple) -> str:
    """A path as files write it, such as blocks.0.layer.maps.W_B, whatever containers it leads through."""
    return ".".join(str(getattr(key, "name", getattr(key, "key", getattr(key, "idx", key)))) for key in path)


def _find(path: Path) -> Path:
    if not path.exists() and hub.is_name(str(path)):
        path = hub.find_model(str(path))
    if not path.is_dir():
        return path
    for name in NAMES:
        if (path / name).is_file():
            return path / name
    raise FileNotFoundError(f"{path}: no model in this folder; expected one of {', '.join(NAMES)}")


def fill(skeleton: Any, arrays: Arrays, path: Path | None = None) -> Any:
    """A tree with its arrays replaced by those of a file. The names, shapes and types must agree exactly."""
    where = "" if path is None else f"{path}: "
    is_array = lambda leaf: eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)  # noqa: E731
    places = jax.tree_util.tree_flatten_with_path(eqx.filter(skeleton, is_array))[0]
    wanted = {leaf_name(place): leaf for place, leaf in places}
    missing = [name for name in wanted if name not in arrays]
    unknown = [name for name in arrays if name not in wanted]
    if missing or unknown:
        parts = [f"{what}: {', '.join(names)}" for what, names in (("missing", missing), ("unknown", unknown)) if names]
        raise ValueError(f"{where}the arrays are not those of the configuration; {'; '.join(parts)}")
    for name, leaf in wanted.items():
        shape, dtype = _stored_as(leaf)
        if arrays[name].shape != shape or widened(arrays[name], dtype).dtype != dtype:
            have = f"{arrays[name].dtype}{list(arrays[name].shape)}"
            raise ValueError(f"{where}{name} is {have}, expected {dtype}{list(shape)}")

    def put(place, leaf):
        if not is_array(leaf):
            return leaf
        return jnp.asarray(from_stored(arrays[leaf_name(place)], np.dtype(leaf.dtype)), leaf.dtype)

    return jax.tree_util.tree_map_with_path(put, skeleton)


def _stored_as(leaf: Any) -> tuple[tuple[int, ...], np.dtype]:
    one = to_stored(np.zeros(1, leaf.dtype))
    return (*leaf.shape, *one.shape[1:]), one.dtype
