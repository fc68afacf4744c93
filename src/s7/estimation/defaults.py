"""Settings derived from the data: their length, channels, number, irregularity and classes."""

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from s7.data.series_augmentation import SeriesAugmentation
from s7.encoders import LinearEncoder
from s7.forms import Factored
from s7.heads import Head, Mean, PerStep
from s7.model import S7Model
from s7.patch_encoder import PatchEncoder
from s7.series.collection import Collection
from s7.series.preparation import Preparation
from s7.transitions import Stable

# With fewer series than this, random states alone are fitted by default: in seconds rather than minutes.
ENOUGH_TO_TRAIN = 500
MEMBERS = 5
# Events that a model reads of a series, if it is cut into patches.
EVENTS = 96
LARGEST_PATCH = 16


@dataclass(frozen=True)
class Traits:
    """What the settings depend on.

    Attributes:
        samples: The number of series.
        length: The median number of steps.
        channels: The number of channels.
        irregular: Whether there are gaps to be read.
        outputs: The number of classes or of numbers to predict.
        classes: Whether the outputs are classes.
        per_step: Whether there is one answer per step.
        causal: Whether an answer may depend on the past only.
    """

    samples: int
    length: int
    channels: int
    irregular: bool
    outputs: int
    classes: bool
    per_step: bool = False
    causal: bool = False

    @classmethod
    def of(cls, series: Collection, preparation: Preparation, outputs: int, **others: Any) -> "Traits":
        """The traits of training data."""
        length = int(np.median([np.count_nonzero(~np.isnan(part).all(1)) for part in series.values]))
        return cls(len(series), length, len(series.channels), preparation.unit is not None, outputs, **others)


@dataclass(frozen=True)
class Plan:
    """A model to train and how to train it. None in `patch`, `width` and so on stands for the default.

    Attributes:
        patch: Steps that are one event.
        width, state, rank, depth: The sizes of the model.
        dropout: The probability that a value is dropped in training.
        bidirectional: Whether the model also reads series from their end.
        steps: The number of batches to train on.
        batch_size: Series in a batch.
        learning_rate, weight_decay, average: Settings of training.
        jitter, scaling, time_warp, mixup: Settings of the augmentation.
    """

    patch: int = 1
    width: int = 48
    state: int = 16
    rank: int = 16
    depth: int = 3
    dropout: float = 0.1
    bidirectional: bool = True
    steps: int = 1000
    batch_size: int = 16
    learning_rate: float = 4e-3
    weight_decay: float = 0.05
    average: float = 0.99
    jitter: float = 0.03
    scaling: float = 0.1
    time_warp: float = 0.1
    mixup: float = 0.0

    def train_settings(self) -> dict[str, Any]:
        """The settings of `s7.train`."""
        names = ("batch_size", "learning_rate", "weight_decay", "average")
        return {name: getattr(self, name) for name in names}

    def augmentation(self, traits: Traits) -> SeriesAugmentation | None:
        """The augmentation; None for answers per step, whose targets would have to change too."""
        if traits.per_step:
            return None
        patched = traits.irregular and self.patch > 1
        return SeriesAugmentation(
            jitter=self.jitter,
            scaling=self.scaling,
            time_warp=0.0 if patched else self.time_warp,
            mixup=0.0 if traits.irregular else self.mixup,
            channels=traits.channels,
            classes=traits.outputs if traits.classes else 0,
        )

    def model(self, traits: Traits, preparation: Preparation, head: Head, seed: int) -> S7Model:
        """The model before training."""
        features, events = preparation.features, max(4.0, traits.length / self.patch)
        encoder = LinearEncoder(features) if self.patch == 1 else PatchEncoder(self.patch, features)
        return S7Model(
            encoder=encoder,
            head=head,
            width=self.width,
            state=self.state,
            depth=self.depth,
            form=Factored(self.rank),
            transition=Stable(oscillate=True, tau=(1.0, max(2.0, events / 3))),
            bidirectional=self.bidirectional,
            dropout=self.dropout,
            key=jax.random.key(seed),
        )


def plan_for(traits: Traits, **given: Any) -> Plan:
    """The default plan for data with these traits; `given` are settings that override it.

    Small data sets get small models and more passes. Steps have a minimum, because a few passes over a small data set
    are too few updates.
    """
    patch = 1
    if not traits.per_step and traits.length > EVENTS:
        patch = min(LARGEST_PATCH, 2 ** round(math.log2(traits.length / EVENTS)))
    few = traits.samples < 100
    batch_size = 8 if few else 16
    chosen: dict[str, Any] = {
        "patch": patch,
        "width": 32 if few else 48 if traits.samples < 2000 else 64,
        "depth": 2 if few else 3,
        "dropout": 0.2 if traits.samples < 2000 else 0.1,
        "bidirectional": not traits.causal,
        "batch_size": batch_size,
        "steps": int(np.clip(50 * traits.samples / batch_size, 1000, 6000)),
    }
    return Plan(**chosen | {name: value for name, value in given.items() if value is not None})


def members_for(samples: int, *, per_step: bool, minutes: float | None, random_states: bool = True) -> int:
    """The default number of trained models.

    Args:
        samples: The number of series.
        per_step: Whether there is one answer per step, which random states do not have.
        minutes: The time that was given, if any.
        random_states: Whether random states are fitted too.
    """
    alone = random_states and not per_step and minutes is None
    return 0 if alone and samples < ENOUGH_TO_TRAIN else MEMBERS


def head_for(traits: Traits, targets: Any) -> Head:
    """The head: the mean over the series or an answer per step, in the units of the targets."""
    kind = PerStep if traits.per_step else Mean
    if traits.classes:
        return kind(traits.outputs)
    rows = np.concatenate([np.reshape(part, (-1, traits.outputs)) for part in targets]) if traits.per_step else targets
    rows = np.reshape(rows, (-1, traits.outputs)).astype(float)
    spread = rows.std(0)
    return kind(traits.outputs, tuple(rows.mean(0).tolist()), tuple(np.where(spread > 0, spread, 1).tolist()))
