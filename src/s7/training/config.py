"""Settings of training."""

from dataclasses import dataclass
from typing import Literal

from s7.data.batching import Batching, Buckets, Packing, Segments
from s7.ranges import Range, searched


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of training.

    Attributes:
        epochs: passes over the training data.
        steps: batches to train on, in place of `epochs`; training may end within an epoch.
        batch_size: sequences in a batch (rows, if packed).
        accumulate: batches whose mean gradient makes one update.
        learning_rate, weight_decay: of every parameter, unless its group has its own (see optimizer.py).
        ssm_learning_rate, ssm_weight_decay: of the parameters that set the dynamics of the state.
        selective_learning_rate, selective_weight_decay: of the maps that make the dynamics depend on the input.
        warmup: the fraction of all updates during which the learning rate rises.
        clip_norm: upper bound of the gradient's norm; 0 means none.
        buckets: the number of lengths that batches are padded to.
        pack: pack sequences end to end into rows of this many events instead (0: as many as the longest has).
        truncate: cut sequences into segments of this many events, with an update after each. The state is carried to
            the next segment; gradients are not. For sequences that are too long for memory.
        sequence_shards: divide each sequence over this many processes, for sequences that are too long for the memory
            of one. The number of processes is a multiple of it.
        remat: what is computed again in the backward pass to save memory: "none", or the "blocks" of the model. Of
            these only the inputs are then kept.
        precision: the type in which `remat` keeps the inputs of blocks. Blocks compute in the type of the model, and
            parameters, their gradients and the optimizer have that type, too.
        save_every: minutes between checkpoints; one is also written after each epoch.
        average: decay of a moving average of the parameters, such as 0.99, which is validated and returned in their
            place; 0 means none.
        keep: the model to return: that of the "best" epoch, or the "last" one, if there are too few validation data.
    """

    epochs: int = 20
    steps: int | None = None
    batch_size: int = searched(16, Range(4, 256, log=True))
    accumulate: int = 1
    # The paper's values of the SSM learning rate are 9e-5 to 7e-3; the factor to the others is not printed.
    learning_rate: float = searched(2e-3, Range(1e-4, 3e-2, log=True))
    ssm_learning_rate: float | None = searched(None, Range(8e-5, 8e-3, log=True))
    selective_learning_rate: float | None = None
    weight_decay: float = searched(0.01, Range(0.0, 0.1))
    ssm_weight_decay: float = 0.0
    selective_weight_decay: float | None = None
    warmup: float = 0.05
    clip_norm: float = 1.0
    buckets: int = 4
    pack: int | None = None
    truncate: int | None = None
    sequence_shards: int = 1
    remat: Literal["none", "blocks"] = "none"
    precision: Literal["float32", "bfloat16"] = "float32"
    save_every: float = 10.0
    average: float = 0.0
    keep: Literal["best", "last"] = "best"

    def __post_init__(self):
        for name in ("epochs", "batch_size", "accumulate", "buckets", "sequence_shards"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps={self.steps} must be at least 1")
        for name in (
            *("learning_rate", "ssm_learning_rate", "selective_learning_rate"),
            *("weight_decay", "ssm_weight_decay", "selective_weight_decay"),
            *("clip_norm", "save_every"),
        ):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"{name}={value} must be finite and not negative")
        if not 0 <= self.warmup <= 1:
            raise ValueError(f"warmup={self.warmup} is a fraction of all updates, from 0 to 1")
        if not 0 <= self.average < 1:
            raise ValueError(f"average={self.average} must be at least 0 and below 1")
        for name, choices in (
            ("keep", ("best", "last")),
            ("remat", ("none", "blocks")),
            ("precision", ("float32", "bfloat16")),
        ):
            if getattr(self, name) not in choices:
                among = ", ".join(f'"{choice}"' for choice in choices)
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {among}")
        if self.precision != "float32" and self.remat == "none":
            raise ValueError(
                f"precision={self.precision!r} is the type of what remat='blocks' keeps; set both or neither"
            )
        if self.pack is not None and self.pack < 0:
            raise ValueError(f"pack={self.pack} must not be negative")
        if self.truncate is not None and self.truncate < 1:
            raise ValueError(f"truncate={self.truncate} must be at least 1")
        if self.truncate is not None and self.pack is not None:
            raise ValueError(f"truncate={self.truncate} and pack={self.pack}: omit one of them")
        if self.truncate is not None and self.sequence_shards > 1:
            raise ValueError(f"truncate={self.truncate} and sequence_shards={self.sequence_shards}: omit one of them")

    def batches(self, per_epoch: int) -> int:
        """How many batches are trained on in all, given how many an epoch has."""
        return self.epochs * per_epoch if self.steps is None else self.steps

    @property
    def rates(self) -> dict[str, float]:
        """The peak learning rate of each group."""
        own = {"ssm": self.ssm_learning_rate, "selective": self.selective_learning_rate, "rest": None}
        return {name: self.learning_rate if rate is None else rate for name, rate in own.items()}

    @property
    def decays(self) -> dict[str, float]:
        """The weight decay of each group."""
        own = {"ssm": self.ssm_weight_decay, "selective": self.selective_weight_decay, "rest": None}
        return {name: self.weight_decay if decay is None else decay for name, decay in own.items()}

    def batching(self, stride: int) -> Batching:
        """How batches are made for a model that pools by `stride`."""
        multiple = 1 if self.sequence_shards == 1 else self.sequence_shards * stride
        if self.pack is not None:
            return Packing(self.batch_size, self.pack, stride, multiple=multiple)
        if self.truncate is not None:
            return Segments(self.batch_size, self.buckets, self.truncate)
        return Buckets(self.batch_size, self.buckets, multiple=multiple)
