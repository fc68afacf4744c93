"""The inputs of a report, from a run folder: the record, and a few sequences with the model's outputs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from s7.records import Epoch, Result, RunRecord

WITHOUT = "remove the file to make the report without examples"


class Example(NamedTuple):
    """A sequence and the model's outputs for it."""

    inputs: np.ndarray
    dt: np.ndarray | None
    targets: np.ndarray
    outputs: np.ndarray

    @property
    def length(self) -> int:
        """The number of events."""
        return self.inputs.shape[0]

    @property
    def per_step(self) -> bool:
        """Whether there are outputs along the sequence, rather than one for all of it."""
        return self.outputs.ndim == 2

    @property
    def is_labelled(self) -> bool:
        """Whether the targets are classes."""
        return np.issubdtype(self.targets.dtype, np.integer)


class Group(NamedTuple):
    """The properties that runs of a group share. They differ only in their seeds."""

    task: str
    model: str
    preset: str
    protocol: str
    variant: str


@dataclass(frozen=True)
class Run:
    """A run folder. `split` is the split that the examples are from; `about` says what they are."""

    path: Path
    record: RunRecord
    examples: tuple[Example, ...] = ()
    columns: tuple[str, ...] = ()
    about: str = ""
    split: str = "test"

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """The history, one entry per epoch."""
        return self.record.history

    @property
    def result(self) -> Result:
        """The result; of an unfinished run an empty one."""
        return self.record.result or Result()

    @property
    def group(self) -> Group:
        """The properties that the run shares with runs of other seeds."""
        return Group(*(getattr(self.record, name) for name in Group._fields))

    @property
    def title(self) -> str:
        """The title of the task, or the name of the folder."""
        return self.record.title or self.record.task or self.path.name

    @property
    def metric(self) -> str:
        """The metric that selects the best epoch."""
        return self.record.metric

    @property
    def gaussian(self) -> bool:
        """Whether the model predicts a variance too."""
        return self.result.objective == "GaussianNLL"

    @property
    def seconds(self) -> float | None:
        """The training time so far."""
        if self.result.seconds is not None:
            return self.result.seconds
        return self.epochs[-1].seconds if self.epochs else None

    def value(self, split: str, name: str) -> float | None:
        """A metric of the result; of the best epoch so far, if the run is unfinished."""
        return self.record.value(split, name)

    def history(self, split: str, name: str) -> np.ndarray:
        """A metric over the epochs, NaN where an epoch does not have it."""
        return np.array([float(getattr(epoch, split).get(name, np.nan)) for epoch in self.epochs])


def read(folder: Path) -> Run:
    """Read a run folder."""
    examples, about = read_examples(folder / "examples.safetensors")
    columns = tuple(map(str, about.get("columns") or ()))
    split = "validation" if about.get("split") == "valid" else "test"
    return Run(folder, RunRecord.read(folder), examples, columns, str(about.get("about") or ""), split)


def read_examples(path: Path) -> tuple[tuple[Example, ...], dict[str, Any]]:
    """The example sequences of a run, and the description stored with them."""
    if not path.is_file():
        return (), {}
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dictionary)
            about = json.loads((file.metadata() or {}).get("s7", "{}"))
    except (SafetensorError, ValueError) as error:
        raise ValueError(
            f"{path}: truncated or not a safetensors file ({error}); remove it to make the report without examples"
        ) from None
    numbers = sorted({int(name.partition(".")[0]) for name in arrays if name.partition(".")[0].isdigit()})
    examples = []
    for n in numbers:
        missing = [name for name in ("inputs", "targets", "outputs") if f"{n}.{name}" not in arrays]
        if missing:
            raise ValueError(
                f"{path}: sequence {n} has no {', '.join(missing)}; remove the file to make the report without examples"
            )
        parts = (arrays[f"{n}.{name}"] for name in ("targets", "outputs"))
        examples.append(Example(arrays[f"{n}.inputs"], arrays.get(f"{n}.dt"), *parts))
    return tuple(examples), about
