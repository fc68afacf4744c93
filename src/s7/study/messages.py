"""Messages between a study and the processes of its trials: a specification as JSON, and events as JSON lines."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from s7.settings import Table
from s7.storage import write_atomically


@dataclass(frozen=True)
class TrialSpec:
    """The specification of a trial, which its process reads.

    Attributes:
        folder: The run folder. A run that was begun there is resumed.
        settings: Settings over those of the preset, in the sections data, model and train.
        minutes: Training time; None for the epochs or steps of the settings.
        test: Whether to evaluate on the test data at the end.
        variant: The label of the variant; empty for a model as it is.
        data: The data folder; None for the default.
        rungs: Fractions of the training after which the model is validated and the result is sent.
    """

    task: str
    folder: str
    model: str = "s7"
    preset: str = "ours"
    protocol: str = "strict"
    seed: int = 0
    settings: Table = field(default_factory=dict)
    minutes: float | None = None
    test: bool = True
    variant: str = ""
    data: str | None = None
    rungs: tuple[float, ...] = ()

    def write(self, path: Path) -> None:
        """Write the specification as JSON."""
        write_atomically(path, json.dumps(asdict(self), indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> "TrialSpec":
        """Read a specification that `write` wrote."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            return cls(**values | {"rungs": tuple(values.get("rungs", ()))})
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: not the specification of a trial ({error})") from None


class Event:
    """A message from a trial to its study: one JSON object per line, with the event's name under "event"."""

    name: ClassVar[str]

    def to_line(self) -> str:
        """The event as a line of JSON."""
        return json.dumps({"event": self.name} | _values(self)) + "\n"


@dataclass(frozen=True)
class Started(Event):
    """The process has started and starts or resumes its run."""

    name = "started"
    resumed: bool


@dataclass(frozen=True)
class EpochDone(Event):
    """An epoch is finished. `valid` maps metric names to values; `best` marks the best epoch so far."""

    name = "epoch"
    epoch: int
    epochs: int
    valid: dict[str, float]
    best: bool


@dataclass(frozen=True)
class Rung(Event):
    """The model was validated after a fraction of its training: at `step`, after `seconds` of training.

    `better` is "min" if a smaller value of the metric is better, else "max".
    """

    name = "rung"
    fraction: float
    step: int
    seconds: float
    metric: str
    value: float
    better: str


@dataclass(frozen=True)
class Finished(Event):
    """The run is finished. `test` is empty if the test data were not used."""

    name = "finished"
    valid: dict[str, float]
    test: dict[str, float]


@dataclass(frozen=True)
class Stopped(Event):
    """The run was asked to stop and saved its state."""

    name = "stopped"


@dataclass(frozen=True)
class Failed(Event):
    """The run failed. `message` is one line; `diverged` marks a value that was not finite."""

    name = "failed"
    message: str
    diverged: bool = False


EVENTS: dict[str, type[Event]] = {event.name: event for event in (Started, EpochDone, Rung, Finished, Stopped, Failed)}


def read_event(line: bytes | str) -> Event | None:
    """The event of a line; None for an incomplete line of a killed process."""
    try:
        values = json.loads(line)
        return EVENTS[values.pop("event")](**values)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _values(event: Any) -> dict[str, Any]:
    return {one.name: getattr(event, one.name) for one in fields(event)}
