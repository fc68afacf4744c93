"""A search of one setting on validation data, the same for every variant of a study, before the study is run.

Each variant is trained once with each value, with seed 0 and a share of the budget, without the test data. The value
with the best validation metric is used in the study.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from s7.settings import Table, from_assignments, merge
from s7.storage import write_atomically
from s7.study.study import Study, Variant

FOLDER, RECORD = "search", "search.json"


@dataclass(frozen=True)
class Search:
    """The values of a setting to try.

    Attributes:
        setting: The setting, such as "train.learning_rate".
        values: The values to try, in increasing order.
        share: The budget of each trial, as a part of the budget of a run.
    """

    setting: str
    values: tuple[float, ...]
    share: float = 0.25

    def __post_init__(self):
        if len(set(self.values)) < 2:
            raise ValueError(f"search of {self.setting}: give at least two different values, separated by commas")
        if not 0 < self.share <= 1:
            raise ValueError(f"search of {self.setting}: a share of {self.share:g} is not above 0 and at most 1")

    @classmethod
    def parse(cls, text: str, share: float) -> "Search":
        """Read "learning_rate=1e-3,3e-3". A name without a section is one of `train`."""
        name, equals, values = text.partition("=")
        try:
            numbers = tuple(sorted(_number(value) for value in values.split(",")))
        except ValueError:
            numbers = ()
        if not (name and equals and numbers):
            raise ValueError(f"--search {text}: expected a setting and numbers, such as learning_rate=1e-3,3e-3,1e-2")
        return cls(name if "." in name else f"train.{name}", numbers, share)

    def record(self) -> Table:
        """The search as study.json stores it."""
        return {"setting": self.setting, "values": list(self.values), "share": self.share}

    def change(self, value: float) -> Table:
        """The settings with this value."""
        return from_assignments([f"{self.setting}={value!r}"])

    def study(self, study: Study) -> Study:
        """The trials of the search, as a study of its own below the folder of the study."""
        config = study.config
        if config.minutes is not None:
            config = replace(config, minutes=config.minutes * self.share)
        variants = [
            Variant(variant.model, self._label(variant, value), self._settings(study, variant, value))
            for variant in study.variants
            for value in self.values
        ]
        return Study(replace(config, test=False), tuple(variants), 1, study.out / FOLDER)

    def _label(self, variant: Variant, value: float) -> str:
        return f"{variant.name} {self.setting.rpartition('.')[2]}={value:g}"

    def _settings(self, study: Study, variant: Variant, value: float) -> Table:
        changed = merge(variant.settings, self.change(value))
        if study.config.minutes is not None:
            return changed
        training = study.job(variant, 0).training()
        name = "epochs" if training.steps is None else "steps"
        budget = max(1, round(self.share * getattr(training, name)))
        return merge(changed, {"train": {name: budget}})


@dataclass(frozen=True)
class Searched:
    """The outcome of a search for one variant.

    Attributes:
        setting: The setting.
        chosen: The value with the best validation metric; None if no trial finished.
        tried: The validation metric with each value; None where the trial failed.
    """

    setting: str
    chosen: float | None
    tried: dict[str, float | None] = field(default_factory=dict)

    @property
    def at_the_edge(self) -> bool:
        """Whether the chosen value is the smallest or the largest, so that one outside the range may be better."""
        values = [float(value) for value in self.tried]
        return self.chosen in (min(values), max(values))


def _number(text: str) -> float:
    """A number, whole if it is written so: settings such as the width do not accept 16.0."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def outcomes(search: Search, study: Study) -> dict[str, Searched]:
    """The outcome for each variant, by its name, from the finished trials of `search.study(study)`."""
    finished = {trial.variant.name: trial.folder for trial in search.study(study).trials() if trial.folder.is_finished}
    found = {}
    for variant in study.variants:
        tried: dict[str, float | None] = {}
        best, chosen = math.inf, None
        for value in search.values:
            folder = finished.get(search._label(variant, value))
            result = None if folder is None else folder.result()
            metric = None if result is None else result.valid.get(result.metric)
            tried[f"{value:g}"] = metric
            if result is not None and metric is not None:
                rank = metric if result.better == "min" else -metric
                if rank < best:
                    best, chosen = rank, value
        found[variant.name] = Searched(search.setting, chosen, tried)
    return found


def applied(search: Search, study: Study, found: Mapping[str, Searched]) -> Study:
    """The study in which each variant has the value that was chosen for it; without one, that of its preset."""

    def change(variant: Variant) -> Variant:
        value = found[variant.name].chosen
        return variant if value is None else replace(variant, settings=merge(variant.settings, search.change(value)))

    return replace(study, variants=tuple(change(variant) for variant in study.variants))


def write(search: Search, found: Mapping[str, Searched], out: Path) -> None:
    """Write search.json: the search, and the outcome for each variant."""
    record = search.record() | {"outcomes": {name: asdict(one) for name, one in found.items()}}
    write_atomically(out / RECORD, json.dumps(record, indent=1).encode())
