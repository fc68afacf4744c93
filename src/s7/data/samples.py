"""Samples: a data set of sequences with targets, stored one after another in flat arrays."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from s7.data.gaps import require_gaps


@dataclass(frozen=True, eq=False)
class Samples:
    """Sequences stored one after another; sequence n is inputs[offsets[n] : offsets[n + 1]].

    `Samples.of` builds them from arrays or lists, `Samples.from_frame` from a pandas frame. Both check the data.

    Args:
        inputs: The events of all sequences, (E, ...).
        targets: One target per sequence, or per event if `per_step`.
        offsets: Where each sequence starts, and the number of events.
        dt: The time gap before each event, or None for regular time.
        counts: Which events count in the loss and the metrics, or None for all.
        per_step: Whether there is one target per event.
        name: The name of the data set in error messages.
        documents: The number of consecutive sequences that form one sample: 2 for pairs of documents.
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
        """Build samples from arrays (N, L, ...) or from lists of N arrays or data frames (L_n, ...).

        Args:
            inputs: N sequences of events.
            targets: N targets or, per step, N sequences of targets. Numbers, bools or strings.
            dt: N sequences of time gaps, or None for regular time. `s7.gaps` computes gaps from times.
            counts: N sequences of bools: which events count in the loss and the metrics.
            per_step: Whether there is one target per event. By default the shapes decide.
            name: The name of the data set in error messages.
            documents: With 2, inputs are 2 N sequences: pairs of documents with one target each.

        Raises:
            ValueError: A sequence is empty, a value is not finite, a gap is negative, or `dt` holds times instead of
                gaps. The message names the sequence and the event.

        Examples:
            >>> import numpy as np, s7
            >>> samples = s7.Samples.of([np.zeros((5, 2)), np.ones((3, 2))], targets=[0, 1])
            >>> len(samples), samples.lengths.tolist(), samples.event_shape
            (2, [5, 3], (2,))
        """
        inputs = _sequences(inputs, name)
        sizes = np.array([len(sequence) for sequence in inputs])
        if not sizes.all():
            raise ValueError(f"{name}: sequence {int(np.argmin(sizes))} is empty; leave it out")
        targets = _listed(targets)
        if len(targets) * documents != len(inputs):
            each = f", {documents} documents each" if documents > 1 else ""
            raise ValueError(f"{name}: {len(inputs)} sequences but {len(targets)} targets{each}")
        if documents > 1:
            per_step = False
        if per_step is None and len({np.shape(target) for target in targets}) > 1:
            per_step = True  # targets of different lengths cannot be one per sequence
        elif per_step is None:
            per_step = all(np.shape(target)[:1] == (size,) for target, size in zip(targets, sizes, strict=True))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        gaps = None if dt is None else _end_to_end(dt, sizes, f"{name}: dt")
        if gaps is not None:
            require_gaps(gaps, offsets, name)
            with np.errstate(over="ignore"):
                gaps = gaps.astype(np.float32)
        made = cls(
            _end_to_end(inputs, sizes, f"{name}: inputs"),
            _targets(_end_to_end(targets, sizes, f"{name}: targets") if per_step else np.asarray(targets), name),
            offsets,
            gaps,
            None if counts is None else _end_to_end(counts, sizes, f"{name}: counts").astype(bool),
            per_step,
            name,
            documents,
        )
        made.check()
        return made

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        group: str,
        target: str | Sequence[str],
        time: str | None = None,
        features: Sequence[str] | None = None,
        unit: str = "s",
        per_step: bool | None = None,
        name: str = "data",
    ) -> "Samples":
        """Build samples from a pandas frame with one row per event.

        Args:
            frame: The events. Rows of one sequence need not be adjacent.
            group: The column that identifies the sequence. Sequences keep the order in which they first appear.
            target: The column with the target, or several columns.
            time: The column with the time of the event: numbers, datetimes or timedeltas. Events are sorted by time
                within their sequence. None: regular time, in the order of the rows.
            features: The columns that the model reads. By default all columns that are not named otherwise.
            unit: The unit of gaps between datetimes or timedeltas, as in `s7.gaps`.
            per_step: Whether there is one target per event. By default there is if a target varies in a sequence.
            name: The name of the data set in error messages.
        """
        from s7.data.frames import samples_from_frame

        columns = [target] if isinstance(target, str) else list(target)
        return samples_from_frame(frame, group, columns, time, features, unit, per_step, name)

    def __len__(self) -> int:
        return (len(self.offsets) - 1) // self.documents

    @cached_property
    def lengths(self) -> Int[np.ndarray, " N"]:
        """The number of events of each sample; for pairs, of the longer document."""
        return np.diff(self.offsets).reshape(len(self), self.documents).max(1)

    def spans(self, chosen: Int[np.ndarray, " M"]) -> tuple[Int[np.ndarray, " M *D"], Int[np.ndarray, " M *D"]]:
        """The starts and the lengths of the chosen samples; for pairs, of each document."""
        sequences = chosen if self.documents == 1 else chosen[:, None] * self.documents + np.arange(self.documents)
        return self.offsets[sequences], self.offsets[sequences + 1] - self.offsets[sequences]

    @cached_property
    def even(self) -> bool:
        """Whether all sequences have the same length."""
        return bool((np.diff(self.offsets) == self.offsets[1]).all())

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one event."""
        return self.inputs.shape[1:]

    def take(self, chosen: Sequence[int] | Int[np.ndarray, " M"], name: str | None = None) -> "Samples":
        """The samples with these indices, in this order."""
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
        """Raise an error that names the position of the first invalid value."""
        if self.inputs.dtype.kind not in "iufb":
            raise TypeError(f"{self.name}: inputs hold {self.inputs.dtype}, expected numbers")
        for what, array in (("inputs", self.inputs), ("targets", self.targets), ("dt", self.dt)):
            if array is not None and array.dtype.kind == "f":
                hint = "; missing values are not supported: impute them or drop the event" if what == "inputs" else ""
                self.refuse(~np.isfinite(array), what, array, "not finite", hint)
        if self.dt is not None:
            self.refuse(self.dt < 0, "dt", self.dt, "negative", "; sort the events by time, or use s7.gaps(times)")
        if self.counts is not None and not self.counts.any():
            raise ValueError(f"{self.name}: no event counts")

    def require_labels(self, classes: int) -> None:
        """Raise an error unless every target is a whole number from 0 to `classes` - 1."""
        if self.targets.dtype.kind not in "iu":
            raise ValueError(f"{self.name}: labels must be whole numbers, not {self.targets.dtype}")
        bad = (self.targets < 0) | (self.targets >= classes)
        hint = "; number the classes from 0, or pass their names as strings"
        self.refuse(bad, "label", self.targets, f"outside of 0 to {classes - 1}", hint)

    def digest(self) -> str:
        """The SHA-256 of all arrays."""
        digest = hashlib.sha256()
        for array in (self.inputs, self.targets, self.offsets, self.dt, self.counts):
            if array is not None:
                digest.update(f"{array.dtype.str} {array.shape}\n".encode())
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def refuse(self, bad: Bool[np.ndarray, "..."], what: str, array: np.ndarray, why: str, hint: str = "") -> None:
        """Raise an error that names the position of the first bad value of `array`, if there is one."""
        if not bad.any():
            return
        at = np.argwhere(bad)[0]
        if what in ("inputs", "token", "dt") or self.per_step:
            sequence = int(np.searchsorted(self.offsets, at[0], side="right") - 1)
            place = f"sequence {sequence}, event {at[0] - self.offsets[sequence]}"
        else:
            place = f"sequence {at[0]}"
        if bad.ndim > 1 and bad.shape[1:] != (1,):
            place += f", feature {at[1] if len(at) == 2 else tuple(at[1:].tolist())}"
        raise ValueError(f"{self.name}: {what} of {place} is {why} ({array[tuple(at)]}){hint}")


def _sequences(inputs: Any, name: str) -> Any:
    """The inputs as an array or a list of sequences."""
    if hasattr(inputs, "columns"):
        raise TypeError(f"{name}: inputs are one data frame, expected a list of them; see s7.Samples.from_frame")
    if not isinstance(inputs, np.ndarray):
        inputs = list(inputs)
    if len(inputs) == 0:
        raise ValueError(f"{name}: there are no sequences")
    if np.ndim(inputs[0]) == 0:
        raise ValueError(f"{name}: inputs are single numbers, expected sequences: (N, L, ...) or a list of (L, ...)")
    return inputs


def _listed(targets: Any) -> Any:
    """Targets of any kind as an array or a list."""
    if hasattr(targets, "to_numpy"):
        return targets.to_numpy()
    if isinstance(targets, np.ndarray):
        return targets
    targets = list(targets)
    # NumPy would convert all values of a mixed list to strings, including missing values.
    return np.array(targets, object) if any(isinstance(target, str) for target in targets) else targets


def _targets(targets: Shaped[np.ndarray, "..."], name: str) -> Shaped[np.ndarray, "..."]:
    """Targets as numbers, bools or strings; a single number becomes an array of one."""
    if targets.dtype == object:
        values = targets.ravel().tolist()
        kind = str if isinstance(values[0], str) else (bool, int, float, np.number, np.bool_)
        for n, value in enumerate(values):
            if not isinstance(value, kind) or value != value:
                expected = "a string" if kind is str else "a number"
                expected += f" like target 0, {values[0]!r}" if n else " or a string"
                raise ValueError(f"{name}: target {n} is {value!r}, expected {expected}")
        targets = np.array(values).reshape(targets.shape)
    elif targets.dtype.kind == "T":
        targets = targets.astype(str)
    if targets.dtype.kind not in "iufbU":
        raise TypeError(f"{name}: targets hold {targets.dtype}, expected numbers, bools or strings")
    if targets.dtype.kind == "f" and targets.ndim == 1:
        return targets[:, None]
    return targets


def _end_to_end(sequences: Any, sizes: Int[np.ndarray, " N"], what: str) -> np.ndarray:
    """One array of all events, from an array (N, L, ...) without copying, or from a list of arrays."""
    if isinstance(sequences, np.ndarray) and sequences.dtype != object:
        if sequences.ndim < 2 or sequences.shape[0] != len(sizes) or (sequences.shape[1] != sizes).any():
            raise ValueError(f"{what} have shape {sequences.shape}, expected ({len(sizes)}, {sizes[0]}, ...)")
        return sequences.reshape(-1, *sequences.shape[2:])
    if not hasattr(sequences, "__len__"):
        raise TypeError(f"{what}: expected {len(sizes)} sequences, not {sequences!r}")
    if len(sequences) != len(sizes):
        raise ValueError(f"{what}: {len(sequences)} of them for {len(sizes)} sequences")
    arrays = [np.asarray(sequence) for sequence in sequences]
    for n, (array, size) in enumerate(zip(arrays, sizes, strict=True)):
        if array.ndim == 0 or len(array) != size:
            raise ValueError(f"{what} of sequence {n} have shape {array.shape}, expected {size} events")
        if array.shape[1:] != arrays[0].shape[1:]:
            raise ValueError(f"{what} of sequence {n} have shape {array.shape}, the first {arrays[0].shape}")
    return np.concatenate(arrays)
