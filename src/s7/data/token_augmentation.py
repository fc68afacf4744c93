"""Augmentation of texts and other sequences of tokens: leave out parts of them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from s7.data.loader import Augmentation
from s7.data.samples import Samples


@dataclass(frozen=True, kw_only=True)
class TokenAugmentation(Augmentation):
    """Random omissions from sequences of tokens. By default both are off.

    Args:
        window: The smallest fraction of a sequence that is kept, a random contiguous part; 1 keeps all.
        drop: The largest fraction of the tokens that is left out in spans. Spans may overlap, so fewer can be missing.
        span: The number of tokens in a span: 1 for single tokens, about 6 for words of a text in bytes.
    """

    window: float = 1.0
    drop: float = 0.0
    span: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.window <= 1:
            raise ValueError(f"window={self.window} must be a fraction above 0, at most 1")
        if not 0 <= self.drop < 1:
            raise ValueError(f"drop={self.drop} must be a fraction from 0 to below 1")
        if self.span < 1:
            raise ValueError(f"span={self.span} must be at least 1")

    def longest(self, lengths: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """The lengths themselves: nothing makes a sequence longer."""
        return lengths

    def __call__(self, samples: Samples, chosen: Int[np.ndarray, " M"], seed: int, epoch: int) -> Samples:
        """The chosen sequences, each changed as a function of (seed, epoch, index)."""
        if samples.inputs.dtype.kind not in "iu" or samples.inputs.ndim != 1:
            raise ValueError(f"{samples.name}: inputs are not tokens; train without this augmentation")
        if samples.per_step or samples.counts is not None or samples.documents != 1 or samples.dt is not None:
            raise ValueError(f"{samples.name}: only tokens in regular time with one target per sequence are augmented")
        parts = []
        for sample in chosen.tolist():
            tokens = samples.inputs[slice(*samples.offsets[sample : sample + 2].tolist())]
            parts.append(tokens[self.kept(len(tokens), np.random.default_rng([seed, epoch, sample]))])
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        return Samples(np.concatenate(parts), samples.targets[chosen], offsets, name=samples.name)

    def kept(self, length: int, rng: np.random.Generator) -> Bool[np.ndarray, " L"]:
        """Which tokens of a sequence are kept, at least one."""
        size = max(1, round(rng.uniform(self.window, 1) * length))
        start = int(rng.integers(length - size, endpoint=True))
        spans = int(rng.uniform(0, self.drop) * size / self.span)
        starts = start + rng.integers(size, size=spans)
        # +1 where a span starts and -1 where it ends: the sum is positive inside of spans.
        edges = np.bincount(starts, minlength=length + 1) - np.bincount(
            np.minimum(starts + self.span, length), minlength=length + 1
        )
        kept = np.cumsum(edges)[:length] == 0
        kept[:start] = kept[start + size :] = False
        if not kept.any():
            kept[start] = True
        return kept
