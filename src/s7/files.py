"""Models and streams on disk: one safetensors file each, with the configuration as JSON in its header.

Arrays are named by their place in the model. A file is written under another name, flushed to the disk and then
renamed, so that it is there whole or not at all. A checksum over names, arrays and configuration makes an altered
file known. Nothing is ever unpickled or evaluated.
"""

import os
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from s7.config import ModelConfig
from s7.model import ModelState, S7Model
from s7.settings import build, kind_of
from s7.storage import read_arrays, write_arrays

# A run's folder holds a model under one of these names; the first that is there is meant.
NAMES = ("best.safetensors", "model.safetensors")


def save(model: S7Model, path: str | os.PathLike) -> Path:
    """Writes a model to a .safetensors file, or into a folder as model.safetensors; returns the file's path."""
    if not isinstance(model, S7Model):
        raise TypeError(f"s7.save writes an S7Model, not a {type(model).__name__}")
    path = Path(path)
    if path.suffix != ".safetensors":
        path = path / "model.safetensors"
    write_arrays(path, "model", named_arrays(model), to_json(model.config))
    return path


def load(path: str | os.PathLike) -> S7Model:
    """The model in a file, or in a run's folder (best.safetensors, else model.safetensors)."""
    path = _find(Path(path))
    arrays, config_json = read_arrays(path, "model")
    config = from_json(config_json, path)
    skeleton = eqx.filter_eval_shape(lambda: S7Model(config, key=jax.random.key(0)))
    return fill(skeleton, arrays, path)


def save_state(state: ModelState, model: S7Model, path: str | os.PathLike) -> Path:
    """Writes the state of a stream, so that it can go on in another process."""
    path = Path(path)
    write_arrays(path, "state", named_arrays(state), to_json(model.config))
    return path


def load_state(model: S7Model, path: str | os.PathLike) -> ModelState:
    """The state of a stream of this model."""
    path = Path(path)
    arrays, config_json = read_arrays(path, "state")
    if from_json(config_json, path) != model.config:
        raise ValueError(f"{path}: the state is of a model with another configuration")
    return fill(eqx.filter_eval_shape(model.init_state), arrays, path)


def to_json(config: Any) -> Any:
    """A configuration as plain JSON values; a dataclass becomes an object with its name under "kind"."""
    if is_dataclass(config):
        values = {field.name: to_json(getattr(config, field.name)) for field in fields(config)}
        return {"kind": kind_of(config)} | values
    if isinstance(config, tuple):
        return [to_json(item) for item in config]
    return config


def from_json(data: Any, path: Path) -> ModelConfig:
    """The configuration that `to_json` wrote."""
    if not isinstance(data, dict) or data.get("kind") != "ModelConfig":
        raise ValueError(f"{path}: the configuration is not a model's")
    try:
        return build(ModelConfig, data, "config")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree by their place in it, as a file holds them."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))
    return {leaf_name(path): _as_real(np.array(leaf, order="C")) for path, leaf in leaves}


def _as_real(array: np.ndarray) -> np.ndarray:
    """Complex numbers as pairs of real ones: safetensors has no complex type of both precisions."""
    return np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array


def _as_stored(leaf: jax.Array | jax.ShapeDtypeStruct) -> jax.Array | jax.ShapeDtypeStruct:
    if not jnp.issubdtype(leaf.dtype, jnp.complexfloating):
        return leaf
    return jax.ShapeDtypeStruct((*leaf.shape, 2), jnp.finfo(leaf.dtype).dtype)


def leaf_name(path: tuple) -> str:
    """blocks.0.layer.maps.W_B, whatever kinds of container the path leads through."""
    return ".".join(str(getattr(key, "name", getattr(key, "key", getattr(key, "idx", key)))) for key in path)


def _find(path: Path) -> Path:
    if not path.is_dir():
        return path
    for name in NAMES:
        if (path / name).is_file():
            return path / name
    raise FileNotFoundError(f"{path}: no model in this folder; expected one of {', '.join(NAMES)}")


def fill(skeleton: Any, arrays: dict[str, np.ndarray], path: Path) -> Any:
    """The skeleton with its arrays from the file; every name must be there, and no other."""
    is_array = lambda leaf: eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)  # noqa: E731
    places = jax.tree_util.tree_flatten_with_path(eqx.filter(skeleton, is_array))[0]
    wanted = {leaf_name(place): leaf for place, leaf in places}
    missing = [name for name in wanted if name not in arrays]
    unknown = [name for name in arrays if name not in wanted]
    if missing or unknown:
        parts = [f"{what}: {', '.join(names)}" for what, names in (("missing", missing), ("unknown", unknown)) if names]
        raise ValueError(f"{path}: the arrays are not those of its configuration; {'; '.join(parts)}")
    for name, leaf in wanted.items():
        stored = _as_stored(leaf)
        if arrays[name].shape != stored.shape or arrays[name].dtype != stored.dtype:
            have, want = (f"{q.dtype}{list(q.shape)}" for q in (arrays[name], stored))
            raise ValueError(f"{path}: {name} is {have}, expected {want}")

    def put(place, leaf):
        if not is_array(leaf):
            return leaf
        array = arrays[leaf_name(place)]
        if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            array = array.view(leaf.dtype)[..., 0]
        return jnp.asarray(array, leaf.dtype)

    return jax.tree_util.tree_map_with_path(put, skeleton)
