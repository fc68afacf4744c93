"""The layers of a model along a sequence: the factors a_k, the time constants, and how much selectivity contributes.

τ = −1 / ln |a|              over one step, or one unit of time where gaps are given
‖W_B[u_k] u_k‖ / ‖B u_k‖     and the same for C (on the state x_k) and D: selective over static contribution
"""

from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import s7
from s7.contractions import linear
from s7.layer import S7Layer
from s7.report.run import Example, Run
from s7.signal import Signal

# Events that are computed, from the start of a sequence, and those in the middle of them that are drawn one by one.
EVENTS, DETAIL = 8192, 1024


class LayerView(NamedTuple):
    """One layer along a sequence of K of its own events, of which `detail` are drawn one by one.

    Attributes:
        factor: |a_k|, (K, P).
        tau: time constants in steps, or in the unit of the gaps, (K, P).
        selective: for each selective matrix, the ratio of its selective to its static contribution at `detail`.
        detail: indices among the K events.
        event: for each of the K events its index in the sequence; above a pooling block K is smaller than L.
    """

    name: str
    factor: np.ndarray
    tau: np.ndarray
    selective: dict[str, np.ndarray]
    detail: np.ndarray
    event: np.ndarray


class Models(NamedTuple):
    """The models before and after training; `problem` says why there is none."""

    initial: s7.S7Model | None
    best: s7.S7Model | None
    problem: str = ""


def models_of(run: Run) -> Models:
    """Load the models of a run, if they are S7 models."""
    found: dict[str, s7.S7Model | None] = {}
    for name in ("initial", "best"):
        path = run.path / f"{name}.safetensors"
        try:
            found[name] = _load(path)
        except ValueError as error:
            return Models(None, None, f"the model cannot be loaded ({error})")
    if found["best"] is None:
        return Models(None, None, "the folder has no best.safetensors")
    return Models(found["initial"], found["best"])


def _load(path: Path) -> s7.S7Model | None:
    return s7.load(path) if path.is_file() else None


def one_sequence(model: s7.S7Model, example: Example) -> Example:
    """The example; the first document of a pair."""
    if model.config.head.documents == 1:
        return example
    return example._replace(inputs=example.inputs[0], dt=None if example.dt is None else example.dt[0])


def layer_views(model: s7.S7Model, example: Example) -> list[LayerView]:
    """Run the model on an example and view every layer on the way."""
    inputs, dt = example.inputs[:EVENTS], None if example.dt is None else example.dt[:EVENTS]
    unit = 1.0 if dt is None else model.config.time_unit or 1.0
    first = max(0, (len(inputs) - DETAIL) // 2)
    # An event above a pooling block is the last of its window.
    event = np.arange(len(inputs))
    events, picks = [], []
    for block in model.blocks:
        events.append(event)
        ends = np.minimum(np.arange(1, -(-len(event) // block.stride) + 1) * block.stride, len(event)) - 1
        picks.append(ends[(event[ends] >= first) & (event[ends] < first + DETAIL)])
        event = event[ends]
    views = _views(model, jnp.asarray(inputs), None if dt is None else jnp.asarray(dt), tuple(map(jnp.asarray, picks)))
    layers = []
    for n, (block, directions) in enumerate(zip(model.blocks, views, strict=True)):
        for arrow, (factor, tau, ratios) in zip("→←", directions, strict=False):
            name = f"block {n + 1}" + (f" {arrow}" if block.backward is not None else "")
            selective = {part: np.asarray(ratio) for part, ratio in ratios.items()}
            tau = np.asarray(tau) * unit
            layers.append(LayerView(name, np.asarray(factor), tau, selective, picks[n], events[n]))
    return layers


@eqx.filter_jit
def _views(model: s7.S7Model, inputs: Array, dt: Array | None, picks: tuple[Array, ...]) -> list[list[Any]]:
    signal = model.encode(inputs, dt, None)
    views = []
    for block, pick in zip(model.blocks, picks, strict=True):
        u = signal.values
        if block.config.norm_place == "before":
            u = block.norm.prepare(u, signal.mask, None)[0](u)
        layers = [layer for layer in (block.layer, block.backward) if isinstance(layer, S7Layer)]
        views.append([_view(layer, u, signal, pick, reverse=n == 1) for n, layer in enumerate(layers)])
        signal, _, _ = block(signal)
    return views


def _view(layer: S7Layer, u: Float[Array, "L H"], signal: Signal, pick: Array, *, reverse: bool) -> Any:
    drive = layer.drive(u)
    gaps = signal.dt
    if reverse and gaps is not None:  # backward in time, the gap is that to the next event
        gaps = jnp.concatenate([gaps[1:], jnp.zeros(1, gaps.dtype)])
    units = None if gaps is None else jnp.ones_like(gaps)
    factor, unit = (jnp.abs(layer.transition.factors(layer.rates, drive.w, q)[0]) for q in (gaps, units))
    x, _ = layer.states(drive, signal.dt, signal.mask, reverse=reverse)
    rows = jnp.concatenate([x.real, x.imag], 1) if layer.transition.complex_state else x
    return factor, -1 / jnp.log(unit), _ratios(layer, rows[pick], u[pick])


def _ratios(layer: S7Layer, x: Float[Array, "K S"], u: Float[Array, "K H"]) -> dict[str, Float[Array, " K"]]:
    form, maps = layer.form, layer.maps
    direct = maps["D"] * u if maps["D"].ndim == 1 else linear(maps["D"], u)
    selected_D = None if form.D == "static" else form.output(maps, jnp.zeros_like(x), u) - direct
    parts = {
        "B": (form.select_input(maps, u), linear(maps["B"], u)),
        "C": (form.select_output(maps, x, u), linear(maps["C"], x)),
        "D": (selected_D, direct),
    }
    tiny = jnp.finfo(u.dtype).tiny
    size = lambda q: jnp.sqrt(jnp.sum(q * q, -1))  # noqa: E731
    return {
        name: size(selected) / jnp.maximum(size(static), tiny)
        for name, (selected, static) in parts.items()
        if selected is not None
    }
