"""S7 against an LSTM of the same size, each trained for about the same time, and against no model at all."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

import s7
from examples.fitzhugh_nagumo import Split, splits
from examples.lstm import LSTM
from examples.training import Fit, Forecast, Progress, Recipe, difference_scale, fit, rmse

DATA_SEED = 1234
SIZES = (128, 128, 256)

# Both rates come from a sweep in factors of two on the validation split: twice as much is no better than the spread
# between seeds. The numbers of epochs make the training times about equal and, being fixed, the results repeatable.
S7_RECIPE = Recipe(epochs=64, learning_rate=0.08)
LSTM_RECIPE = Recipe(epochs=50, learning_rate=0.2)
LSTM_WIDTH = 24
S7_SETTINGS: dict[str, Any] = {
    "width": 12,
    "state": 8,
    "depth": 2,
    "form": s7.Factored(rank=8),
    "transition": s7.Stable(tau=(1.0, 50.0)),
}


class Row(NamedTuple):
    """One line of the result."""

    name: str
    parameters: int
    seconds: float
    valid: float
    test: float


class Entry(NamedTuple):
    """A trained model and what it was before training."""

    name: str
    settings: dict[str, Any]
    recipe: Recipe
    initial: Forecast
    fit: Fit


class Comparison(NamedTuple):
    """All that the report shows."""

    seed: int
    rows: list[Row]
    entries: list[Entry]
    test: Split


def compare(seed: int, begin: Callable[[str, int], None], watch: Callable[[Progress], None]) -> Comparison:
    """Trains both models; `begin` hears the name and size of each before, `watch` every epoch."""
    train, valid, test = splits(DATA_SEED, SIZES)
    scale = difference_scale(train)
    key = jax.random.key(seed)
    lstm = LSTM(1, LSTM_WIDTH, 1, key=key)
    # The encoder's bias starts random by default: with one channel, that is what tells the features apart.
    model = s7.S7Model(encoder=s7.LinearEncoder(1), head=s7.PerStep(1), key=key, **S7_SETTINGS)
    candidates: list[tuple[str, dict[str, Any], Recipe, eqx.Module]] = [
        ("LSTM", {"width": LSTM_WIDTH}, LSTM_RECIPE, lstm),
        ("S7", S7_SETTINGS, S7_RECIPE, model),
    ]
    entries = []
    for name, settings, recipe, core in candidates:
        initial = Forecast(core, scale)
        begin(name, initial.parameters)
        fitted = fit(initial, train, valid, recipe, seed=seed, watch=watch)
        entries.append(Entry(name, settings, recipe, initial, fitted))

    # The test split is looked at here, once, when every choice has been made.
    rows = [Row("persistence", 0, 0.0, _persistence(valid), _persistence(test))]
    for entry in entries:
        size = entry.initial.parameters
        rows.append(Row(entry.name, size, entry.fit.seconds, entry.fit.valid, float(rmse(entry.fit.model, test))))
    return Comparison(seed, rows, entries, test)


def _persistence(split: Split) -> float:
    """The RMSE of predicting that nothing changes."""
    return float(np.sqrt(np.mean((split.targets - split.inputs) ** 2)))
