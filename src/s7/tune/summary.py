"""The summary of a search: all trials, the best one and the importance of settings. JAX and Optuna are not imported.

`tune.json` in the folder of a search is this summary, of the trials of all workers. `best.toml` is the best trial as a
preset.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from s7.publishing.text import count, metric_name, metric_value, number, table
from s7.storage import write_atomically

FILE, PRESET = "tune.json", "best.toml"
FORMAT = 1
# Trials in the table of a terminal.
SHOWN = 5


@dataclass(frozen=True)
class TrialRecord:
    """One trial.

    Attributes:
        outcome: "finished", "pruned", "diverged", "invalid", "failed", "requeued" or "running".
        value: The validation metric; that of the last rung for pruned trials; None without one.
        values: The searched settings.
        rungs: The validation metric by the fraction of the budget.
        seconds: Wall-clock time, with reading data and compiling.
        reason: Why it did not finish.
        preset: Whether it has the settings of the preset.
    """

    number: int
    outcome: str
    value: float | None = None
    values: dict[str, Any] = field(default_factory=dict)
    rungs: dict[str, float] = field(default_factory=dict)
    seconds: float | None = None
    reason: str = ""
    folder: str = ""
    machine: str = ""
    preset: bool = False


@dataclass(frozen=True)
class Summary:
    """The trials of a search. `config` is what its workers agreed on, `better` is "min" or "max"."""

    config: Mapping[str, Any]
    metric: str
    better: str
    trials: tuple[TrialRecord, ...]
    importance: Mapping[str, float]

    @classmethod
    def of(cls, search: Any) -> "Summary":
        """The present state of a `Search`."""
        metric, better = search.metric()
        sign = 1 if better == "min" else -1
        trials = tuple(_record(trial, sign) for trial in search.trials() if trial.state.name != "WAITING")
        return cls(search.config.record(), metric, better, trials, search.importance())

    @classmethod
    def read(cls, folder: Path) -> "Summary":
        """Read the summary in the folder of a search."""
        path = folder / FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content.pop("format") != FORMAT:
                raise ValueError("another version wrote it")
            content["trials"] = tuple(TrialRecord(**trial) for trial in content["trials"])
            names = ("config", "metric", "better", "trials", "importance")
            return cls(**{name: content[name] for name in names})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: not the summary of a search ({error})") from None

    def write(self, folder: Path) -> None:
        """Write the summary to the folder of a search."""
        write_atomically(folder / FILE, json.dumps(self.record(), indent=1).encode())

    def record(self) -> dict[str, Any]:
        """The summary as JSON."""
        best = self.best
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in ("config", "metric", "better", "importance")},
            "best": None if best is None else best.number,
            "trials": [asdict(trial) for trial in self.trials],
        }

    def finished(self) -> list[TrialRecord]:
        """The finished trials, best first."""
        done = [trial for trial in self.trials if trial.outcome == "finished" and trial.value is not None]
        return sorted(done, key=lambda trial: trial.value * (1 if self.better == "min" else -1))  # type: ignore[operator]

    @property
    def best(self) -> TrialRecord | None:
        """The best finished trial."""
        return next(iter(self.finished()), None)

    @property
    def preset(self) -> TrialRecord | None:
        """The finished trial with the settings of the preset."""
        return next((trial for trial in self.finished() if trial.preset), None)

    def counts(self) -> str:
        """How many trials there are, by outcome."""
        names = [trial.outcome for trial in self.trials if trial.outcome != "requeued"]
        parts = [f"{names.count(name)} {name}" for name in dict.fromkeys(sorted(names, key=_OUTCOMES.index))]
        return f"{count(len(names), 'trial')}: {', '.join(parts)}" if names else "no trials"

    def text(self) -> str:
        """The summary for a terminal."""
        best = self.best
        if best is None:
            reasons = [f"trial {trial.number}: {trial.reason}" for trial in self.trials if trial.reason]
            return "\n".join([f"{self.counts()}; none has a result yet", *reasons[-3:]])
        top = self.finished()[:SHOWN]
        if self.preset is not None and self.preset not in top:
            top.append(self.preset)
        names = list(self.config["space"])
        short = shortened(names)
        heads = ["trial", f"valid {metric_name(self.metric)}", *(short[name] for name in names)]
        rows = [
            [
                _label(trial),
                metric_value(self.metric, trial.value),
                *(setting(trial.values.get(name)) for name in names),
            ]
            for trial in top
        ]
        lines = [self.counts(), "", table(heads, rows)]
        if self.importance:
            lines += ["", "importance: " + ", ".join(f"{short[k]} {share:.0%}" for k, share in self.importance.items())]
        return "\n".join(lines)


def is_search(folder: Path) -> bool:
    """Whether a folder is that of a search."""
    return (folder / FILE).exists()


_OUTCOMES = ("finished", "pruned", "diverged", "invalid", "failed", "running", "requeued")
_STATES = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "requeued", "RUNNING": "running"}


def shortened(names: list[str]) -> dict[str, str]:
    """The last words of dotted names, as many as tell them apart; an index stays with the name before it."""
    short = {name: _ending(name, 1) for name in names}
    for name in names:
        if list(short.values()).count(_ending(name, 1)) > 1:
            short[name] = _ending(name, 2)
    return short


def setting(value: Any) -> str:
    """A setting as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return number(value) if isinstance(value, int | float) else "–" if value is None else str(value)


def _ending(name: str, words: int) -> str:
    parts = name.split(".")
    least = words + (1 if parts[-1].isdecimal() else 0)
    return ".".join(parts[-least:])


def _label(trial: TrialRecord) -> str:
    return f"{trial.number} (preset)" if trial.preset else str(trial.number)


def _record(trial: Any, sign: int) -> TrialRecord:
    """The record of an Optuna trial. `sign` undoes the negation of its score."""
    attributes = trial.user_attrs
    outcome = attributes.get("outcome", "") if trial.state.is_finished() else "running"
    rungs = {f"{percent / 100:g}": sign * score for percent, score in sorted(trial.intermediate_values.items())}
    value = sign * trial.value if trial.state.name == "COMPLETE" else next(reversed(rungs.values()), None)
    return TrialRecord(
        trial.number,
        outcome or _STATES[trial.state.name],
        value,
        trial.params,
        rungs,
        attributes.get("seconds"),
        attributes.get("reason", ""),
        attributes.get("folder", ""),
        (attributes.get("owner") or [""])[0].partition(" ")[0],
        bool(attributes.get("preset")),
    )
