"""The configuration of a model: frozen settings that are saved in the model file."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import s7.frame_encoder
import s7.patch_encoder  # noqa: F401  (these encoders register themselves, so that files may name them)
from s7.block import BlockConfig
from s7.encoders import Encoder
from s7.heads import Head
from s7.pooling import Pool
from s7.ranges import Range, searched
from s7.settings import Table, build, unknown_setting

Gaps = Literal["read", "ignored", "mixed"]


@dataclass(frozen=True)
class Stage:
    """A stage of a model: blocks of the same width, of which the first pools events.

    Args:
        depth: The number of blocks.
        stride: The number of events that the first block pools into one.
        width: The width of the stage; None for the width of the previous stage.
        pool: The skip connection of the first block if it pools: "mean" over the window, "time" for the mean weighted
            by the gaps, or "last" for the last event.
    """

    depth: int = searched(1, Range(1, 8))
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
    """The settings of a model, in addition to those of its blocks (`BlockConfig`).

    Settings of blocks are fields here, so that keywords, TOML and files are flat. Blocks hold only `config.block`.

    Args:
        encoder: Maps inputs to vectors.
        head: Maps the signal of the last block to outputs.
        width: The number of features between blocks.
        state: The number of states of each layer.
        stages: The stages of blocks.
        dt: The gap to use in calls without gaps, in the same unit as the gaps of other calls. None for regular time.
        gaps: "mixed" if every second state of S7 layers reads the gaps and the others count events, "read" if all
            states read them, as in the paper, or "ignored" to treat all sequences as regular. Other layers read the
            gaps in both cases, if they can.
        time_unit: The divisor of all gaps, so that time constants do not depend on the unit of the gaps. None if it is
            not known yet: gaps are then used as given, and training sets it to the mean gap of the training data.
        classes: The labels of a classifier, one per output: strings, bools or whole numbers. Empty for regression.
        dtype: "float32" or "float64".
    """

    encoder: Encoder
    head: Head
    width: int = searched(64, Range(16, 128, step=8))
    # The paper's P is 2 to 64. Every choice of `blocks` divides a multiple of 8.
    state: int = searched(16, Range(8, 64, step=8))
    stages: tuple[Stage, ...] = (Stage(depth=2),)
    dt: float | None = None
    gaps: Gaps = "mixed"
    time_unit: float | None = None
    classes: tuple[str | bool | int, ...] = ()
    dtype: str = "float32"

    def __post_init__(self):
        super().__post_init__()
        for name in ("width", "state"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.layer is None and (self.blocks < 1 or self.state % self.blocks):
            raise ValueError(f"blocks={self.blocks} does not divide state={self.state}")
        if not self.stages:
            raise ValueError("stages is empty; a model has at least one")
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f'dtype={self.dtype!r} is not one of "float32", "float64"')
        if self.gaps not in ("read", "ignored", "mixed"):
            raise ValueError(f'gaps={self.gaps!r} is not one of "read", "ignored", "mixed"')
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
    def block(self) -> BlockConfig:
        """The settings of each block."""
        settings = {field.name: getattr(self, field.name) for field in fields(BlockConfig)}
        if self.gaps == "mixed":
            settings["transition"] = replace(self.transition, counting=True)
        return BlockConfig(**settings)

    @property
    def depth(self) -> int:
        """The number of blocks."""
        return sum(stage.depth for stage in self.stages)

    @property
    def out_width(self) -> int:
        """The width of the last stage."""
        return next((stage.width for stage in reversed(self.stages) if stage.width is not None), self.width)

    @property
    def reads_gaps(self) -> bool:
        """Whether the model uses the time gaps between events."""
        return self.gaps != "ignored" and (self.layer is None or self.layer.reads_gaps)


def build_config(settings: Mapping[str, Any], where: str, given: Mapping[str, Any] | None = None) -> ModelConfig:
    """Build a configuration from settings, which may include `depth`.

    Args:
        settings: Values of the fields of `ModelConfig`, or tables for them.
        where: The name of the settings, which starts error messages.
        given: Values that the settings may not contain.

    Raises:
        ValueError: If a name is unknown or a value does not fit, naming the setting.
    """
    known = [*(field.name for field in fields(ModelConfig) if field.name not in (given or {})), "depth"]
    for name in settings:
        if name not in known:
            raise ValueError(f"{where}.{name}: {unknown_setting(name, known)}")
    return build(ModelConfig, with_stages(settings, where), where, given)


def with_stages(settings: Mapping[str, Any], where: str) -> Table:
    """Settings in which `depth=n`, short for one stage of n blocks, is replaced by `stages`."""
    table = dict(settings)
    if "depth" in table:
        if "stages" in table:
            raise ValueError(f"{where}: give depth or stages, not both")
        table["stages"] = [{"depth": table.pop("depth")}]
    return table
