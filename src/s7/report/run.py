"""A run's folder, read: what was asked, how it went, what came out. Never the data set."""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

# A folder with any of these is a run's.
MARKS = ("config.toml", "metrics.jsonl", "result.json")


class Example(NamedTuple):
    """A test sequence and what the model made of it."""

    inputs: np.ndarray
    dt: np.ndarray | None
    targets: np.ndarray
    outputs: np.ndarray

    @property
    def length(self) -> int:
        """Events of the sequence."""
        return self.inputs.shape[0]

    @property
    def per_step(self) -> bool:
        """Whether there is an answer along the sequence, rather than one for all of it."""
        return self.outputs.ndim == 2

    @property
    def is_labelled(self) -> bool:
        """Whether the targets are classes."""
        return np.issubdtype(self.targets.dtype, np.integer)


class Group(NamedTuple):
    """What runs share that differ in their seeds alone."""

    task: str
    model: str
    preset: str
    protocol: str
    variant: str


@dataclass(frozen=True)
class Run:
    """A run. `result` is empty until it is finished; `split` is where the examples are from."""

    path: Path
    config: dict[str, Any]
    epochs: tuple[dict[str, Any], ...]
    result: dict[str, Any]
    examples: tuple[Example, ...]
    columns: tuple[str, ...]
    about: str
    split: str

    @property
    def finished(self) -> bool:
        """Whether it came to its end."""
        return bool(self.result)

    @property
    def group(self) -> Group:
        """What it shares with other seeds."""
        return Group(*(self._said(name) for name in Group._fields))

    @property
    def seed(self) -> str:
        """As it was given."""
        return self._said("seed")

    @property
    def title(self) -> str:
        """The task in words."""
        return str(self.result.get("title") or self.group.task or self.path.name)

    @property
    def metric(self) -> str:
        """The metric that the best epoch is chosen by."""
        if "metric" in self.result:
            return str(self.result["metric"])
        measured = self.epochs[-1]["valid"] if self.epochs else {}
        return next((name for name in ("accuracy", "mse", "rmse") if name in measured), "loss")

    @property
    def better(self) -> str:
        """Its direction, "min" or "max"."""
        return str(self.result.get("better", "max" if self.metric == "accuracy" else "min"))

    @property
    def gaussian(self) -> bool:
        """Whether the model says how sure it is."""
        return self.result.get("objective") == "GaussianNLL"

    @property
    def best(self) -> dict[str, Any] | None:
        """The line of the best epoch."""
        if not self.epochs:
            return None
        number = self.result.get("best_epoch")
        marked = [line for line in self.epochs if (line.get("best") if number is None else line["epoch"] == number)]
        return marked[-1] if marked else self.epochs[-1]

    def value(self, split: str, name: str) -> float | None:
        """A metric of the result; of the best epoch so far, where the run is unfinished."""
        values = self.result.get(split)
        if values is None and split == "valid" and self.best is not None:
            values = self.best["valid"]
        value = (values or {}).get(name)
        return None if value is None else float(value)

    def history(self, split: str, name: str) -> np.ndarray:
        """A metric over the epochs, NaN where an epoch does not have it."""
        return np.array([float(line[split].get(name, np.nan)) for line in self.epochs])

    def _said(self, name: str) -> str:
        for source in (self.result, self.config):
            value = source.get(name)
            if isinstance(value, dict):  # a table of settings under the same name
                value = value.get("name", value.get("kind"))
            if value is not None:
                return str(value)
        return ""


def read(folder: Path) -> Run:
    """The run in a folder."""
    if not any((folder / name).is_file() for name in MARKS):
        what = f"not a run's folder (it has none of {', '.join(MARKS)})" if folder.is_dir() else "no such folder"
        raise FileNotFoundError(f"{folder}: {what}; give a folder that `s7 train` wrote")
    config = read_config(folder / "config.toml")
    epochs, result = read_metrics(folder / "metrics.jsonl"), read_result(folder / "result.json")
    examples, about = read_examples(folder / "examples.safetensors")
    columns = tuple(map(str, about.get("columns") or ()))
    return Run(folder, config, epochs, result, examples, columns, str(about.get("about") or ""), _split(about))


def read_config(path: Path) -> dict[str, Any]:
    """What was asked; empty where the run was started from Python."""
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not TOML ({error}); train again, or put it right by hand") from None


def read_metrics(path: Path) -> tuple[dict[str, Any], ...]:
    """One entry for each epoch; none where training has not come so far."""
    if not path.is_file():
        return ()
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        fits = isinstance(line, dict) and isinstance(line.get("epoch"), int)
        if not fits or not all(isinstance(line.get(split), dict) for split in ("train", "valid")):
            raise ValueError(
                f"{path}, line {number}: not an epoch; each line is a JSON object with epoch, train and valid "
                "(remove the line, or go on with the run, which writes the file anew)"
            )
        lines.append(line)
    return tuple(lines)


def read_result(path: Path) -> dict[str, Any]:
    """What came out, empty where there is nothing yet."""
    if not path.is_file():
        return {}
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}); remove it, and the run counts as unfinished") from None
    if not isinstance(result, dict):
        raise ValueError(f"{path}: not a JSON object; remove it, and the run counts as unfinished")
    return result


def read_examples(path: Path) -> tuple[tuple[Example, ...], dict[str, Any]]:
    """The sequences, and what is said about them."""
    if not path.is_file():
        return (), {}
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dictionary)
            about = json.loads((file.metadata() or {}).get("s7", "{}"))
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"{path}: truncated or not a safetensors file ({error}); remove it to go without") from None
    numbers = sorted({int(name.partition(".")[0]) for name in arrays if name.partition(".")[0].isdigit()})
    examples = []
    for n in numbers:
        missing = [name for name in ("inputs", "targets", "outputs") if f"{n}.{name}" not in arrays]
        if missing:
            raise ValueError(f"{path}: sequence {n} has no {', '.join(missing)}; remove the file to go without")
        parts = (arrays[f"{n}.{name}"] for name in ("targets", "outputs"))
        examples.append(Example(arrays[f"{n}.inputs"], arrays.get(f"{n}.dt"), *parts))
    return tuple(examples), about


def _split(about: dict[str, Any]) -> str:
    return "validation" if about.get("split") == "valid" else "test"
