"""What a model is, apart from its parameters: frozen settings that go into its file and come back from it."""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal

from s7.block import BlockConfig
from s7.encoders import Encoder
from s7.heads import Head
from s7.pooling import Pool
from s7.settings import unknown


@dataclass(frozen=True)
class Stage:
    """`depth` blocks, the first of which pools by `stride` and widens to `width` (None: as it was)."""

    depth: int = 1
    stride: int = 1
    width: int | None = None
    pool: Pool = "mean"

    def __post_init__(self):
        for name in ("depth", "stride"):
            if getattr(self, name) < 1:
                raise ValueError(f"Stage: {name}={getattr(self, name)} must be at least 1")
        if self.width is not None and self.width < 1:
            raise ValueError(f"Stage: width={self.width} must be at least 1")


@dataclass(frozen=True, kw_only=True)
class ModelConfig(BlockConfig):
    """All that says what a model is, apart from its parameters. With `gaps` "ignored" all time is regular to it.

    `time_unit` is the time that the model counts as 1: gaps are divided by it, so that time constants do not depend on
    whether gaps come in seconds or in milliseconds. None means that it is not known yet, and gaps are used as given;
    training sets it to the mean gap of the training data. `dt` is the gap assumed where a call gives none, in the
    same unit as the gaps of a call. `classes` are the labels of a classifier, one for
    each output: strings, bools or whole numbers. A model without classes is a regression.
    """

    encoder: Encoder
    head: Head
    width: int = 64
    state: int = 16
    stages: tuple[Stage, ...] = (Stage(depth=2),)
    dt: float | None = None
    gaps: Literal["read", "ignored"] = "read"
    time_unit: float | None = None
    classes: tuple[str | bool | int, ...] = ()
    dtype: str = "float32"

    def __post_init__(self):
        super().__post_init__()
        for name in ("width", "state"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if not self.stages:
            raise ValueError("stages is empty; a model has at least one")
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f'dtype={self.dtype!r} is not one of "float32", "float64"')
        if self.gaps not in ("read", "ignored"):
            raise ValueError(f'gaps={self.gaps!r} is not one of "read", "ignored"')

        if self.time_unit is not None and not 0 < self.time_unit < math.inf:
            raise ValueError(f"time_unit={self.time_unit} must be positive and finite")
        if self.classes and len(self.classes) != self.head.outputs:
            raise ValueError(f"classes has {len(self.classes)} names, the head has {self.head.outputs} outputs")
        for label in self.classes:
            if not isinstance(label, str | bool | int):
                raise ValueError(f"classes: {label!r} is not a string, a bool or a whole number")
        if len(set(self.classes)) != len(self.classes):
            raise ValueError(f"classes={self.classes} names a class twice")

    @property
    def reads_gaps(self) -> bool:
        """Whether the time between events means anything to the model's layers."""
        return self.gaps == "read" and (self.layer is None or self.layer.reads_gaps)


def config_from(settings: dict[str, Any]) -> ModelConfig:
    """The configuration with these settings; `depth=n` is short for one stage of n blocks."""
    if "depth" in settings:
        if "stages" in settings:
            raise ValueError("give S7Model depth or stages, not both")
        settings = {**settings, "stages": (Stage(depth=settings["depth"]),)}
        del settings["depth"]
    known = [field.name for field in fields(ModelConfig)]
    for name in settings:
        if name not in known:
            raise ValueError(f"S7Model has {unknown('setting', name, [*known, 'depth'])}")
    for name in ("encoder", "head"):
        if name not in settings:
            raise ValueError(f"S7Model needs {name}=, for instance s7.LinearEncoder(6) and s7.Mean(outputs=5)")
    return ModelConfig(**settings)
