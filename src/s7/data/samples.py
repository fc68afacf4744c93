"""Sequences with their targets, laid end to end: what training, validation and testing read."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped


@dataclass(frozen=True, eq=False)
class Samples:
    """Sequences one after another; sequence n is inputs[offsets[n] : offsets[n + 1]].

    Targets are one per sequence, or, where `per_step`, one per event. `dt` is the gap before each event, None in
    regular time. `counts` says which events count in loss and metric, None: all. With `documents=2` a sample is two
    sequences, one after the other, with one target. `Samples.of` makes them from arrays or lists and checks them.
    """

    inputs: Shaped[np.ndarray, "E ..."]
    targets: Shaped[np.ndarray, "..."]
    offsets: Int[np.ndarray, " M"]
    dt: Float[np.ndarray, " E"] | None = None
    counts: Bool[np.ndarray, " E"] | None = None
    per_step: bool = False
    name: str = "data"
    documents: int = 1

    @classmethod
    def of(
        cls,
        inputs: Any,
        targets: Any,
        dt: Any = None,
        counts: Any = None,
        *,
        per_step: bool | None = None,
        name: str = "data",
        documents: int = 1,
    ) -> "Samples":
        """From arrays (N, L, ...) or lists of N arrays (L_n, ...), for each of the four.

        Whether targets are per step is seen from their shapes, or said. Pairs of documents are 2 N sequences with N
        targets. Anything that cannot be trained on, a NaN or
        an empty sequence or time that runs backwards, is an error that names where it is.
        """
        if len(inputs) == 0:
            raise ValueError(f"{name}: there are no sequences")
        if np.ndim(inputs[0]) == 0:
            raise ValueError(
                f"{name}: inputs are single numbers, expected sequences: (N, L, ...) or a list of (L, ...)"
            )
        sizes = np.array([len(sequence) for sequence in inputs])
        if not sizes.all():
            raise ValueError(f"{name}: sequence {int(np.argmin(sizes))} is empty; leave it out")
        if len(targets) * documents != len(inputs):
            each = f", {documents} documents each" if documents > 1 else ""
            raise ValueError(f"{name}: {len(inputs)} sequences but {len(targets)} targets{each}")
        if documents > 1:
            per_step = False
        if per_step is None and len({np.shape(target) for target in targets}) > 1:
            per_step = True  # what differs in length can be nothing else
        elif per_step is None:
            per_step = all(np.shape(target)[:1] == (size,) for target, size in zip(targets, sizes, strict=True))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        answers = _laid_out(targets, sizes, f"{name}: targets") if per_step else np.asarray(targets)
        if answers.dtype.kind == "f" and answers.ndim == 1:
            answers = answers[:, None]  # a target of one number
        made = cls(
            _laid_out(inputs, sizes, f"{name}: inputs"),
            answers,
            offsets,
            None if dt is None else _laid_out(dt, sizes, f"{name}: dt").astype(np.float32),
            None if counts is None else _laid_out(counts, sizes, f"{name}: counts").astype(bool),
            per_step,
            name,
            documents,
        )
        made.check()
        return made

    def __len__(self) -> int:
        return (len(self.offsets) - 1) // self.documents

    @cached_property
    def lengths(self) -> Int[np.ndarray, " N"]:
        """Events of each sequence; of the longer document."""
        return np.diff(self.offsets).reshape(len(self), self.documents).max(1)

    def spans(self, chosen: Int[np.ndarray, " M"]) -> tuple[Int[np.ndarray, "M *D"], Int[np.ndarray, "M *D"]]:
        """Where the chosen samples start and how long they are; for pairs, of each document."""
        sequences = chosen if self.documents == 1 else chosen[:, None] * self.documents + np.arange(self.documents)
        return self.offsets[sequences], self.offsets[sequences + 1] - self.offsets[sequences]

    @cached_property
    def even(self) -> bool:
        """Whether all sequences have the same length."""
        return bool((np.diff(self.offsets) == self.offsets[1]).all())

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of what comes in at one event."""
        return self.inputs.shape[1:]

    def take(self, chosen: Sequence[int] | Int[np.ndarray, " M"], name: str | None = None) -> "Samples":
        """The chosen sequences, in that order."""
        chosen = np.asarray(chosen, int)
        starts, sizes = (q.ravel() for q in self.spans(chosen))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], sizes)
        return Samples(
            self.inputs[places],
            self.targets[places if self.per_step else chosen],
            offsets,
            None if self.dt is None else self.dt[places],
            None if self.counts is None else self.counts[places],
            self.per_step,
            self.name if name is None else name,
            self.documents,
        )

    def check(self) -> None:
        """Raises an error that names the first number that cannot be trained on."""
        for what, array in (("inputs", self.inputs), ("targets", self.targets), ("dt", self.dt)):
            if array is not None and array.dtype.kind == "f":
                self._refuse(~np.isfinite(array), what, array, "is not finite")
        if self.dt is not None:
            self._refuse(self.dt < 0, "dt", self.dt, "is negative: events must be in the order of time")
        if self.counts is not None and not self.counts.any():
            raise ValueError(f"{self.name}: no event counts")

    def require_labels(self, classes: int) -> None:
        """Raises an error unless every target is a whole number from 0 to `classes` - 1."""
        if self.targets.dtype.kind not in "iu":
            raise ValueError(f"{self.name}: labels must be whole numbers, not {self.targets.dtype}")
        bad = (self.targets < 0) | (self.targets >= classes)
        self._refuse(bad, "label", self.targets, f"is outside of 0 to {classes - 1}")

    def digest(self) -> str:
        """The SHA-256 of all that is in here."""
        digest = hashlib.sha256()
        for array in (self.inputs, self.targets, self.offsets, self.dt, self.counts):
            if array is not None:
                digest.update(f"{array.dtype.str} {array.shape}\n".encode())
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def _refuse(self, bad: np.ndarray, what: str, array: np.ndarray, why: str) -> None:
        if not bad.any():
            return
        at = np.argwhere(bad)[0]
        value = array[tuple(at)]
        if what in ("inputs", "dt") or self.per_step:
            sequence = int(np.searchsorted(self.offsets, at[0], side="right") - 1)
            place = f"sequence {sequence}, event {at[0] - self.offsets[sequence]}"
        else:
            place = f"sequence {at[0]}"
        raise ValueError(f"{self.name}: {what} of {place} {why} ({value})")


def _laid_out(sequences: Any, sizes: Int[np.ndarray, " N"], what: str) -> np.ndarray:
    """One array of all events, from an array (N, L, ...) without copying, or from a list of arrays."""
    if isinstance(sequences, np.ndarray) and sequences.dtype != object:
        if sequences.ndim < 2 or sequences.shape[0] != len(sizes) or (sequences.shape[1] != sizes).any():
            raise ValueError(f"{what} have shape {sequences.shape}, expected ({len(sizes)}, {sizes[0]}, ...)")
        return sequences.reshape(-1, *sequences.shape[2:])
    if len(sequences) != len(sizes):
        raise ValueError(f"{what}: {len(sequences)} of them for {len(sizes)} sequences")
    arrays = [np.asarray(sequence) for sequence in sequences]
    for n, (array, size) in enumerate(zip(arrays, sizes, strict=True)):
        if array.ndim == 0 or len(array) != size:
            raise ValueError(f"{what} of sequence {n} have shape {array.shape}, expected {size} events")
        if array.shape[1:] != arrays[0].shape[1:]:
            raise ValueError(f"{what} of sequence {n} have shape {array.shape}, the first {arrays[0].shape}")
    return np.concatenate(arrays)
