"""Models for the C library `libs7`, which runs them without Python: model.safetensors, golden.safetensors, README.md.

model.safetensors holds the model as the streaming engine reads it: `settings` (int64), which say what the model is, and
`weights` (float32), all of them in one array, in the order of `stream_program.py`. golden.safetensors holds inputs and
the outputs that JAX computes for them. The metadata of both have a format, its version, and a CRC-32 of the whole file,
in which the digits of the checksum count as zeros.
"""

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import lax
from jaxtyping import Float, Int64, Shaped

from s7.backend_selection import backend
from s7.data.gaps import SECONDS
from s7.export.readme import edge_readme
from s7.model import S7Model
from s7.storage import tensors, write_atomically
from s7.stream_program import program

VERSION = 1
MODEL, GOLDEN, README = "model.safetensors", "golden.safetensors", "README.md"
EVENTS = 1000
_MOST_NUMBERS = 65_536


def write_edge(model: S7Model, folder: Path, *, unit: str = "ms") -> list[Path]:
    """Write a model for the C library.

    Args:
        model: A causal float32 model of S7 layers, as `s7.Stream` runs it.
        folder: The folder to write to. It is made if needed.
        unit: The unit of the gaps that the model was trained with, as in `s7.gaps`. Only the C library's
            `s7_push_events`, which takes times in microseconds, depends on it.

    Returns:
        The paths of the files.

    Raises:
        ValueError: The streaming engine cannot run this model. The message says which part.
    """
    if unit not in SECONDS:
        raise ValueError(f"unit={unit!r} is not one of {', '.join(SECONDS)}")
    folder = Path(folder)
    settings, weights = program(model)
    _require_finite(weights)
    labels = [str(label) for label in model.config.classes]
    if any("\n" in label for label in labels):
        raise ValueError("the name of a class contains a line break; rename it with model.with_classes")
    about = {"gap_microseconds": repr(round(SECONDS[unit] * 1e9) / 1e3), "classes": "\n".join(labels)}
    files = {
        GOLDEN: _checked("s7-golden", golden(model), {}),
        README: edge_readme(model, unit).encode(),
        MODEL: _checked("s7-edge", {"settings": settings, "weights": weights}, about),
    }
    for name, data in files.items():
        write_atomically(folder / name, data)
    return [folder / name for name in files]


def golden(model: S7Model, count: int | None = None) -> dict[str, np.ndarray]:
    """Inputs for a model and the outputs that JAX computes, to check another implementation.

    Args:
        model: The model.
        count: The number of events; by default as many as fit in a small file, at most 1,000.

    Returns:
        `tokens` (L,) or `inputs` (L, inputs); `gaps` (L,); `at` (M,), numbers of events; and the outputs after as many
        events, `outputs` (M, outputs) with the gaps and `outputs_without_gaps` (M, outputs).
    """
    encoder = model.config.encoder
    numbers = int(np.prod(encoder.event_shape))
    count = max(16, min(EVENTS, _MOST_NUMBERS // numbers)) if count is None else count
    events, gaps = random_events(model, count)
    at = answer_points(count)
    arrays = {"outputs": _outputs(model, events, gaps)[at - 1], "gaps": gaps, "at": at}
    arrays["outputs_without_gaps"] = _outputs(model, events, None)[at - 1]
    if not np.isfinite([arrays["outputs"], arrays["outputs_without_gaps"]]).all():
        raise ValueError("the model's outputs on random inputs are not finite")
    name = "inputs" if encoder.event_shape else "tokens"
    return arrays | {name: events.reshape(count, numbers) if encoder.event_shape else events}


def rounding_error(model: S7Model) -> float:
    """How far the golden outputs, which JAX computes in float32, are from double precision.

    Returns:
        The largest difference, relative to the largest output.
    """
    single = golden(model)
    with jax.enable_x64(True):
        double = golden(in_double(model))
    return max(_relative(single[name], double[name]) for name in ("outputs", "outputs_without_gaps"))


def in_double(model: S7Model) -> S7Model:
    """The model with the same parameters in double precision, which JAX must be allowed to use (`jax_enable_x64`)."""
    double = S7Model(replace(model.config, dtype="float64"), key=jax.random.key(0))
    parameters, rest = eqx.partition(double, eqx.is_inexact_array)
    values = [q.astype("float64") for q in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(parameters), values), rest)


def _relative(outputs: Float[np.ndarray, "M O"], wanted: Float[np.ndarray, "M O"]) -> float:
    return float(np.abs(outputs - wanted).max() / np.abs(wanted).max())


def random_events(
    model: S7Model, count: int, seed: int = 0
) -> tuple[Shaped[np.ndarray, "L ..."], Float[np.ndarray, " L"]]:
    """Random inputs in the range of the model's training data, as far as its settings tell, and random gaps.

    Args:
        model: The model.
        count: The number of events, L.
        seed: The seed of the random numbers.

    Returns:
        The inputs, (L, *event_shape), and the gaps, (L,): exponential with the model's unit of time as their mean, and
        0 for a fifth of the events.
    """
    encoder: Any = model.config.encoder
    random = np.random.default_rng(seed)
    if encoder.event_shape:
        normal = random.standard_normal((count, *encoder.event_shape))
        inputs = (normal * np.asarray(encoder.scale) + np.asarray(getattr(encoder, "mean", 0.0))).astype(np.float32)
    else:
        inputs = random.integers(0, encoder.size, count).astype(np.int32)
    unit = model.config.time_unit or 1.0
    gaps = random.exponential(unit, count) * (random.random(count) < 0.8)
    return inputs, gaps.astype(np.float32)


def answer_points(count: int) -> Int64[np.ndarray, " M"]:
    """Numbers of events, up to `count`, after which answers are compared: few and many, in and between windows."""
    points = [1, 2, 3, 7, *(round(count * part) for part in (0.05, 0.1, 0.25, 0.5, 0.75)), count - 1, count]
    return np.unique([point for point in points if 1 <= point <= count]).astype(np.int64)


def _outputs(model: S7Model, events: np.ndarray, gaps: np.ndarray | None) -> Float[np.ndarray, "L O"]:
    """The output after each event, from `model.step`."""

    @jax.jit
    def run(events, gaps):
        def step(state, event):
            output, state = model.step(event[0], state, event[1])
            return state, output

        return lax.scan(step, model.init_state(), (events, gaps))[1]

    with backend("xla"):
        return np.asarray(run(events, gaps))


def _checked(kind: str, arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """The bytes of a safetensors file with a checksum of all of them."""
    zeros = "0" * 8
    data = tensors(arrays, metadata | {"format": kind, "version": str(VERSION), "crc32": zeros})
    place = data.index(f'"crc32":"{zeros}"'.encode()) + len('"crc32":"')
    return data[:place] + f"{zlib.crc32(data):08x}".encode() + data[place + len(zeros) :]


def _require_finite(weights: Float[np.ndarray, " N"]) -> None:
    if not np.isfinite(weights).all():
        raise ValueError("the model has weights that are not finite")
