"""Class labels: strings, bools, integers and one-hot rows become class indices."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Shaped

from s7.data.samples import Samples

Label = str | bool | int


def flat_labels(samples: Samples) -> Samples:
    """Returns the samples with labels of shape (N, 1) as (N,); other targets are left alone."""
    targets = samples.targets
    if targets.dtype.kind in "iubU" and targets.ndim == 2 and targets.shape[1] == 1:
        return replace(samples, targets=targets[:, 0])
    return samples


def are_one_hot(samples: Samples, classes: int) -> bool:
    """Whether every target is a row of `classes` numbers, one of them 1 and the others 0."""
    return classes > 1 and samples.targets.shape[1:] == (classes,) and bool(_one_hot(samples.targets).all())


def from_one_hot(samples: Samples, classes: int) -> Samples:
    """Returns the samples with class indices in place of one-hot rows."""
    targets = samples.targets
    if targets.shape[1:] != (classes,):
        raise ValueError(f"{samples.name}: a target has shape {targets.shape[1:]}, expected one-hot rows of {classes}")
    samples.refuse(~_one_hot(targets), "target", targets.argmax(1), "not a one-hot row, as those of train are")
    return replace(samples, targets=targets.argmax(1).astype(np.int32))


def classes_of(samples: Samples) -> tuple[Label, ...]:
    """Returns the sorted labels of bool or string targets; bools are always two classes."""
    if samples.targets.dtype.kind == "b":
        return (False, True)
    return tuple(np.unique(samples.targets).tolist())


def are_indices(classes: Sequence[Label]) -> bool:
    """Whether the labels are the integers 0, 1, 2, ..., so that a label is its own index."""
    return all(type(label) is int and label == n for n, label in enumerate(classes))


def encode(samples: Samples, classes: Sequence[Label]) -> Samples:
    """Returns the samples with class indices in place of labels.

    Integers are looked up among integer classes. Where classes are strings or bools, integers are indices already.
    """
    targets = samples.targets
    if targets.dtype.kind not in "bU" and (are_indices(classes) or any(type(label) is not int for label in classes)):
        samples.require_labels(len(classes))
        return samples
    index = {(label, type(label)): n for n, label in enumerate(classes)}
    found, places = np.unique(targets, return_inverse=True)
    codes = np.array([index.get((label, type(label)), -1) for label in found.tolist()], np.int32)
    codes = codes[places.reshape(targets.shape)]
    samples.refuse(codes < 0, "label", targets, "not a known class", f"; the classes are {shown(classes)}")
    return replace(samples, targets=codes)


def shown(classes: Sequence[Label]) -> str:
    """Returns the first few labels, for messages."""
    return ", ".join(map(str, classes[:8])) + (", …" if len(classes) > 8 else "")


def _one_hot(targets: Shaped[np.ndarray, "N K"]) -> Bool[np.ndarray, " N"]:
    return ((targets == 0) | (targets == 1)).all(1) & ((targets == 1).sum(1) == 1)
