"""The record of a training run: its configuration, one entry per epoch, and its result. JAX is not imported.

A run folder holds:

    config.toml            all settings, written before training starts
    metrics.jsonl          one JSON object per epoch
    result.json            written when the run is finished
    last.safetensors       the latest checkpoint
    best.safetensors       the model of the best epoch
    initial.safetensors    the model before training
    examples.safetensors   a few sequences with the model's outputs

Every file is replaced atomically. `RunRecord` reads and writes the first three; everything that reads runs (reports,
tables, studies, benchmarks, evaluation) goes through it. Format 1 is that of versions up to 0.6: its training settings
are read under their present names.
"""

import json
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_origin, get_type_hints

from s7 import settings
from s7.settings import Table, convert, to_toml
from s7.storage import write_atomically

FORMAT = 2
CONFIG, METRICS, RESULT = "config.toml", "metrics.jsonl", "result.json"
SECTIONS = ("data", "model", "train")

# Training settings of format 1 and their present names. `train.steps` has kept its name.
RENAMED = {old: new for old, new in settings.RENAMED.items() if old != "steps"}


@dataclass(frozen=True)
class Epoch:
    """One line of metrics.jsonl. `train` and `valid` map metric names to values; `best` marks a new best epoch.

    `seconds` and `cpu_seconds` are the training time and the processor time of all threads, from the start.
    """

    epoch: int
    train: dict[str, float]
    valid: dict[str, float]
    step: int = 0
    seconds: float = 0.0
    learning_rate: float | None = None
    best: bool = False
    cpu_seconds: float = 0.0

    @classmethod
    def from_json(cls, line: Any) -> "Epoch":
        """Read a line that was parsed as JSON; raises ValueError if it is not an epoch."""
        if not isinstance(line, dict) or not isinstance(line.get("epoch"), int):
            raise ValueError("epoch is missing or not a whole number")
        for split in ("train", "valid"):
            if not isinstance(line.get(split), dict):
                raise ValueError(f"{split} is missing or not an object")
        line = {RENAMED.get(name, name): value for name, value in line.items()}
        return cls(**{name: line[name] for name in _names(cls) if name in line})

    def to_json(self) -> dict[str, Any]:
        """The line as a JSON object."""
        return asdict(self)


@dataclass(frozen=True)
class Result:
    """The content of result.json. Runs on arrays have no task; attributes that a file lacks have their defaults.

    Attributes:
        valid: metrics of the best epoch on the validation data.
        test: metrics of the best epoch on the test data; empty if they were not used.
        better: "min" if a smaller `metric` is better, else "max".
        set: settings that differ from the preset, in the form that `--set` takes.
        init: the trained model that the run started from; empty for new parameters.
        gaps: Whether the model uses the time gaps: "used", "not used", or "none" if the data have no gaps.
        baselines: metrics reached without a model, such as "most frequent class".
        confusion: counts with true classes as rows and predicted classes as columns.
        extra: entries of the file that are not attributes.
    """

    task: str = ""
    title: str = ""
    model: str = ""
    variant: str = ""
    preset: str = ""
    protocol: str = ""
    protocol_note: str = ""
    set: tuple[str, ...] = ()
    init: str = ""
    gaps: str = ""
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    seed: int = 0
    parameters: int | None = None
    epochs: int | None = None
    steps: int | None = None
    steps_per_epoch: int | None = None
    best_epoch: int | None = None
    stopped: str = ""
    seconds: float | None = None
    steps_per_second: float | None = None
    waits_for_data: float | None = None
    peak_memory_mb: int | float | None = None
    objective: str = ""
    metric: str = ""
    better: Literal["min", "max"] = "min"
    valid: dict[str, float] = field(default_factory=dict)
    test: dict[str, float] = field(default_factory=dict)
    data_sha256: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    machine: str = ""
    processes: int | None = None
    classes: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, table: Any) -> "Result":
        """Read a parsed result.json; raises ValueError if an entry has the wrong type."""
        if not isinstance(table, dict):
            raise ValueError("not a JSON object")
        version = table.get("format", 1)
        if version not in (1, FORMAT):
            raise ValueError(f"run format {version!r}; this version of s7 reads formats 1 and {FORMAT}")
        known = [name for name in _names(cls) if name != "extra"]
        values = {name: _checked(name, table[name]) for name in known if table.get(name) is not None}
        if version == 1 and "set" in values:
            values["set"] = tuple(_renamed_assignment(one) for one in values["set"])
        extra = {name: value for name, value in table.items() if name not in known and name != "format"}
        return cls(**values, extra=extra)

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object. Attributes without a value are omitted, as is `confusion` in regression."""
        values = {name: getattr(self, name) for name in _names(type(self)) if name != "extra"}
        optional = ("classes", "confusion", "stopped")
        kept = {name: value for name, value in values.items() if value is not None and (value or name not in optional)}
        return {"format": FORMAT} | _as_lists(self.extra | kept)


@dataclass(frozen=True)
class RunRecord:
    """A run: `config` is the content of config.toml; `result` is None until the run is finished.

    Examples:
        record = RunRecord.read(Path("runs/walker2d-s7-ours-strict-0"))
        record.task, record.seed, record.best.valid, record.command
    """

    config: Table
    history: tuple[Epoch, ...] = ()
    result: Result | None = None

    @classmethod
    def read(cls, folder: Path) -> "RunRecord":
        """Read a run folder. Files that are not there yet are taken as empty; at least one must exist."""
        if not any((folder / name).is_file() for name in (CONFIG, METRICS, RESULT)):
            known = ", ".join((CONFIG, METRICS, RESULT))
            what = f"not a run's folder (it has none of {known})" if folder.is_dir() else "no such folder"
            raise FileNotFoundError(f"{folder}: {what}; give a folder that `s7 train` wrote")
        config = _read_config(folder / CONFIG) if (folder / CONFIG).is_file() else {}
        return cls(config, _read_history(folder / METRICS), _read_result(folder / RESULT))

    def write(self, folder: Path) -> None:
        """Write config.toml, metrics.jsonl and, for a finished run, result.json."""
        self.write_config(folder)
        self.write_history(folder)
        self.write_result(folder)

    def write_config(self, folder: Path) -> None:
        """Write config.toml alone."""
        write_atomically(folder / CONFIG, to_toml({"format": FORMAT} | self.config).encode())

    def write_history(self, folder: Path) -> None:
        """Write metrics.jsonl alone."""
        lines = "".join(json.dumps(epoch.to_json()) + "\n" for epoch in self.history)
        write_atomically(folder / METRICS, lines.encode())

    def write_result(self, folder: Path) -> None:
        """Write result.json alone, if the run is finished."""
        if self.result is not None:
            write_atomically(folder / RESULT, (json.dumps(self.result.to_json(), indent=2) + "\n").encode())

    @property
    def finished(self) -> bool:
        """Whether the run has a result."""
        return self.result is not None

    @property
    def task(self) -> str:
        """The task's name; empty for a run on arrays."""
        return self._text("task")

    @property
    def title(self) -> str:
        """The task's title; empty if unknown."""
        return self.result.title if self.result else ""

    @property
    def model(self) -> str:
        """The architecture's name, such as "s7" or "lstm"."""
        return (self.result.model if self.result else "") or str(self.section("model").get("kind", ""))

    @property
    def preset(self) -> str:
        """The preset's name."""
        return self._text("preset")

    @property
    def protocol(self) -> str:
        """The protocol's name."""
        return self._text("protocol")

    @property
    def variant(self) -> str:
        """The name of the variant; empty for the preset as it is."""
        return self._text("variant")

    @property
    def seed(self) -> int:
        """The random seed."""
        return self.result.seed if self.result else int(self.config.get("seed", 0))

    @property
    def minutes(self) -> float | None:
        """The training time that was asked for, if any."""
        return self.config.get("minutes")

    @property
    def tests(self) -> bool:
        """Whether the test data are evaluated."""
        return bool(self.config.get("test", True))

    @property
    def changes(self) -> tuple[str, ...]:
        """The settings that differ from the preset, in the form that `--set` takes."""
        return self.result.set if self.result else tuple(self.config.get("set", ()))

    @property
    def metric(self) -> str:
        """The metric that selects the best epoch."""
        if self.result is not None and self.result.metric:
            return self.result.metric
        measured = self.history[-1].valid if self.history else {}
        return next((name for name in ("accuracy", "mse", "rmse") if name in measured), "loss")

    @property
    def better(self) -> str:
        """Whether a smaller ("min") or larger ("max") metric is better."""
        if self.result is not None and self.result.metric:
            return self.result.better
        return "max" if self.metric == "accuracy" else "min"

    @property
    def best(self) -> Epoch | None:
        """The best epoch; None before the first epoch is finished."""
        number = self.result.best_epoch if self.result else None
        marked = [epoch for epoch in self.history if (epoch.best if number is None else epoch.epoch == number)]
        return marked[-1] if marked else (self.history[-1] if self.history else None)

    @property
    def command(self) -> str | None:
        """The command line that repeats the run; None if the run was not made by `s7 train`.

        The measured number of steps stands in for `--minutes`, which depends on the machine's speed.
        """
        recorded = self.result is not None or "set" in self.config
        if "task" not in self.config or not recorded:
            return None
        words = ["s7", "train", self.task]
        named = {"--model": "" if self.model == "s7" else self.model, "--preset": self.preset}
        named |= {
            "--protocol": self.protocol,
            "--seed": str(self.seed),
            "--variant": self.variant,
            "--init": self._text("init"),
        }
        for option, value in named.items():
            words += [option, value] if value else []
        if not self.tests:
            words.append("--no-test")
        if self.minutes is not None and not any(change.startswith("train.steps=") for change in self.changes):
            words += ["--minutes", f"{self.minutes:g}"]
        return shlex.join([*words, "--set", *self.changes] if self.changes else words)

    def section(self, name: str) -> Table:
        """A section of the configuration: "data", "model" or "train"."""
        return self.config.get(name, {})

    def value(self, split: str, metric: str) -> float | None:
        """A metric of the result on "valid" or "test"; for an unfinished run, of the best epoch so far."""
        if self.result is not None:
            values = {"valid": self.result.valid, "test": self.result.test}[split]
        else:
            values = self.best.valid if split == "valid" and self.best else {}
        return None if values.get(metric) is None else float(values[metric])

    def with_result(self, result: Mapping[str, Any]) -> "RunRecord":
        """The finished record, given result.json as a dictionary."""
        return replace(self, result=Result.from_json(dict(result)))

    def _text(self, name: str) -> str:
        value = getattr(self.result, name, "") or self.config.get(name, "")
        return value if isinstance(value, str) else ""


def read_result(path: Path) -> Result:
    """Read one result.json, wherever it was copied to."""
    try:
        return Result.from_json(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise ValueError(f"{path}: not a result ({error}); remove it, and the run counts as unfinished") from None


def _read_result(path: Path) -> Result | None:
    return read_result(path) if path.is_file() else None


def _read_config(path: Path) -> Table:
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not TOML ({error})") from None
    version = config.pop("format", None)
    if version == 1:
        train = {RENAMED.get(name, name): value for name, value in config.get("train", {}).items()}
        return config | ({"train": train} if train else {})
    if version != FORMAT:
        raise ValueError(f"{path}: run format {version!r}; this version of s7 reads formats 1 and {FORMAT}")
    return config


def _read_history(path: Path) -> tuple[Epoch, ...]:
    if not path.is_file():
        return ()
    history = []
    for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            history.append(Epoch.from_json(json.loads(text)))
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number}: not an epoch; each line is a JSON object with epoch, train and valid ({error})"
            ) from None
    return tuple(history)


def _names(kind: type) -> list[str]:
    return [one.name for one in fields(kind)]


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Result)


def _checked(name: str, value: Any) -> Any:
    """A value of result.json as its attribute's annotation says."""
    hint = _hints()[name]
    if get_origin(hint) is not dict:
        return convert(value, hint, name)
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")
    return value


def _renamed_assignment(assignment: str) -> str:
    name, equals, value = assignment.partition("=")
    section, _, setting = name.partition(".")
    return f"{section}.{RENAMED.get(setting, setting)}{equals}{value}" if section == "train" else assignment


def _as_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_lists(item) for name, item in value.items()}
    return [_as_lists(item) for item in value] if isinstance(value, list | tuple) else value
