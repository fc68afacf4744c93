"""What happens inside a model along a sequence: the factors a_k, time constants, and the weight of selection.

τ = −1 / ln |a|                           over one step, or one unit of time where gaps are given
‖W_B[u_k] u_k‖ / ‖B u_k‖                  and so for C (on the state x_k) and D: selected against static
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

# Of a long sequence the beginning is looked at, and of that a stretch in the middle for the weight of selection.
EVENTS, STRETCH = 8192, 1024


class Look(NamedTuple):
    """One layer along a sequence. `factor` and `tau` are at each of its events, `shares` at those `looked_at`."""

    name: str
    factor: np.ndarray
    tau: np.ndarray
    shares: dict[str, np.ndarray]
    looked_at: np.ndarray
    event: np.ndarray


class Models(NamedTuple):
    """A run's models before and after training; `problem` says why there is none."""

    initial: s7.S7Model | None
    best: s7.S7Model | None
    problem: str = ""


def models_of(run: Run) -> Models:
    """The models in a run's folder, as far as they are S7's."""
    found: dict[str, s7.S7Model | None] = {}
    for name in ("initial", "best"):
        path = run.path / f"{name}.safetensors"
        try:
            found[name] = _load(path)
        except ValueError as error:
            return Models(None, None, f"there is no S7 model to look into ({error})")
    if found["best"] is None:
        return Models(None, None, "the folder has no best.safetensors with a trained S7 model")
    return Models(found["initial"], found["best"])


def _load(path: Path) -> s7.S7Model | None:
    return s7.load(path) if path.is_file() else None


def one_sequence(model: s7.S7Model, example: Example) -> Example:
    """The example; of a pair of documents, the first."""
    if model.config.head.documents == 1:
        return example
    return example._replace(inputs=example.inputs[0], dt=None if example.dt is None else example.dt[0])


def look(model: s7.S7Model, example: Example) -> list[Look]:
    """Every layer along the example, each fed with what the blocks below it make of the inputs."""
    inputs, dt = example.inputs[:EVENTS], None if example.dt is None else example.dt[:EVENTS]
    first = max(0, (len(inputs) - STRETCH) // 2)
    # Which event of the sequence each block's own events are: above a pooling block, the last of each window.
    event = np.arange(len(inputs))
    events, picks = [], []
    for block in model.blocks:
        events.append(event)
        ends = np.minimum(np.arange(1, -(-len(event) // block.stride) + 1) * block.stride, len(event)) - 1
        picks.append(ends[(event[ends] >= first) & (event[ends] < first + STRETCH)])
        event = event[ends]
    views = _views(model, jnp.asarray(inputs), None if dt is None else jnp.asarray(dt), tuple(map(jnp.asarray, picks)))
    looks = []
    for n, (block, directions) in enumerate(zip(model.blocks, views, strict=True)):
        for arrow, (factor, tau, shares) in zip("→←", directions, strict=False):
            name = f"block {n + 1}" + (f" {arrow}" if block.backward is not None else "")
            shares = {part: np.asarray(share) for part, share in shares.items()}
            looks.append(Look(name, np.asarray(factor), np.asarray(tau), shares, picks[n], events[n]))
    return looks


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
    if reverse and gaps is not None:  # coming from the end, the gap is that to the next event
        gaps = jnp.concatenate([gaps[1:], jnp.zeros(1, gaps.dtype)])
    units = None if gaps is None else jnp.ones_like(gaps)
    factor, unit = (jnp.abs(layer.transition.discretize(layer.rates, drive.w, q)[0]) for q in (gaps, units))
    x, _ = layer.states(drive, signal.dt, signal.mask, reverse=reverse)
    rows = jnp.concatenate([x.real, x.imag], 1) if layer.transition.complex_state else x
    return factor, -1 / jnp.log(unit), _shares(layer, rows[pick], u[pick])


def _shares(layer: S7Layer, x: Float[Array, "K S"], u: Float[Array, "K H"]) -> dict[str, Float[Array, " K"]]:
    form, maps = layer.form, layer.maps
    direct = maps["D"] * u if maps["D"].ndim == 1 else linear(maps["D"], u)
    followed = None if form.D == "static" else form.output(maps, jnp.zeros_like(x), u) - direct
    parts = {
        "B": (form.select_input(maps, u), linear(maps["B"], u)),
        "C": (form.select_output(maps, x, u), linear(maps["C"], x)),
        "D": (followed, direct),
    }
    tiny = jnp.finfo(u.dtype).tiny
    size = lambda q: jnp.sqrt(jnp.sum(q * q, -1))  # noqa: E731
    return {
        name: size(selected) / jnp.maximum(size(static), tiny)
        for name, (selected, static) in parts.items()
        if selected is not None
    }


def describe(problem: Exception) -> str:
    """Why an example could not be looked at."""
    return f"the example does not fit the model ({str(problem).splitlines()[0]})"


__all__ = ["EVENTS", "STRETCH", "Look", "Models", "describe", "look", "models_of", "one_sequence"]
