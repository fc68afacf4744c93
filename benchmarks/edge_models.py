"""The models of all presets with new parameters, built without the data of their tasks."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax

import s7
from s7.config import build_config
from s7.export.edge import random_events
from s7.presets import NAMES, preset, tasks_with

# What the data of a task determine: the sizes of inputs or the number of tokens, and the head.
PARTS: dict[str, tuple[Any, s7.Head]] = {
    "dvs-gesture": (s7.EventEncoder((128, 128)), s7.TimeMean(11)),
    "eigenworms": (s7.LinearEncoder(6), s7.Mean(5)),
    "fitzhugh-nagumo": (s7.LinearEncoder(1), s7.PerStep(1)),
    "human-activity": (s7.LinearEncoder(12), s7.PerStep(7)),
    "image": (s7.LinearEncoder(4), s7.Mean(10)),
    "irregular-time": (s7.LinearEncoder(1), s7.Last(2)),
    "listops": (s7.TokenEncoder(15), s7.Mean(10)),
    "nmnist": (s7.EventEncoder((34, 34)), s7.Mean(10)),
    "path-x": (s7.LinearEncoder(1), s7.Mean(2)),
    "pathfinder": (s7.LinearEncoder(1), s7.Mean(2)),
    "pendulum": (s7.ImageEncoder((24, 24, 1), scale=255.0), s7.PerStep(4)),
    "retrieval": (s7.TokenEncoder(256), s7.Retrieval()),
    "shd": (s7.TokenEncoder(700), s7.Mean(20)),
    "spoken-digits": (s7.TokenEncoder(700), s7.Mean(10)),
    "ssc": (s7.TokenEncoder(700), s7.Mean(35)),
    "text": (s7.TokenEncoder(256), s7.Mean(2)),
    "walker2d": (s7.LinearEncoder(17), s7.PerStep(17)),
}
# Updates of the running statistics of batch norms; the first ones then weigh less than 1 %.
_UPDATES = 100
# Events in an update: many more than the longest time constant.
_EVENTS = 8192


def preset_names() -> Iterator[tuple[str, str]]:
    """Every task and preset."""
    for name in NAMES:
        for task in tasks_with(name):
            yield task, name


def preset_model(task: str, name: str, timed: bool = True, norm: str | None = None) -> s7.S7Model:
    """The model of a preset, with batch norms that have seen random events with gaps or, unless `timed`, without.

    Args:
        task: The name of the task.
        name: The name of the preset.
        timed: Whether events have gaps.
        norm: The norm in place of that of the preset.
    """
    encoder, head = PARTS[task]
    settings = preset(task, name)["model"] | ({"norm": norm} if norm else {})
    config = build_config({"encoder": encoder, "head": head} | settings, "model")
    return _settled(s7.S7Model(config, key=jax.random.key(0)), timed)


def _settled(model: s7.S7Model, timed: bool) -> s7.S7Model:
    if all(moments is None for moments in model.moments) or model.config.head.documents > 1:
        return model
    events, gaps = random_events(model, _EVENTS, seed=2)
    batch = events[None], gaps[None] if timed else None

    @eqx.filter_jit
    def update(model: s7.S7Model) -> Any:
        run = lambda events, gaps: model.training(events, gaps, key=None, batch_axis="batch")[1]  # noqa: E731
        return jax.vmap(run, axis_name="batch", out_axes=None)(*batch)

    for _ in range(_UPDATES):
        model = model.with_moments(update(model))
    return model
