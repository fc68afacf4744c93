"""The summary of a study: means over seeds, costs, and the significance of differences."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import fmean, stdev, variance
from typing import Any

from scipy.special import stdtr

from s7.publishing.text import MISSING, metric_mean_std, metric_name, metric_value, table
from s7.records import Result
from s7.study.search import Searched
from s7.study.study import Study, Variant

# A difference is significant if chance alone would make it this large in less than this fraction of all cases.
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Score:
    """The finished runs of one variant.

    Attributes:
        valid: The validation metric of each run.
        test: The test metric of each run; empty if the test data were not used.
        failures: The reasons of failed runs.
        epochs, minutes, steps_per_second: Means over the runs.
        peak_memory_mb: The maximum over the runs.
        gaps: Whether the model uses the time gaps: "used", "not used", or "none" if the data have no gaps.
        search: The outcome of a search on validation data, as a table of `Searched`; None without one.
    """

    name: str
    model: str
    label: str
    valid: list[float]
    test: list[float]
    failures: list[str]
    parameters: int | None = None
    epochs: float | None = None
    minutes: float | None = None
    steps_per_second: float | None = None
    peak_memory_mb: float | None = None
    gaps: str = ""
    search: dict[str, Any] | None = None

    @property
    def values(self) -> list[float]:
        """The metric on the test data, or on the validation data if the test data were not used."""
        return self.test or self.valid

    @classmethod
    def of(cls, variant: Variant, results: Sequence[Result], failures: list[str], metric: str) -> "Score":
        """The score of a variant from the results of its runs."""
        valid = [result.valid[metric] for result in results if metric in result.valid]
        test = [result.test[metric] for result in results if metric in result.test]
        score = cls(variant.name, variant.model, variant.label, valid, test, failures)
        if not results:
            return score
        return replace(
            score,
            parameters=results[0].parameters,
            epochs=_mean([r.steps / r.steps_per_epoch for r in results if r.steps and r.steps_per_epoch]),
            minutes=_mean([r.seconds / 60 for r in results if r.seconds is not None]),
            steps_per_second=_mean([r.steps_per_second for r in results if r.steps_per_second is not None]),
            peak_memory_mb=max((r.peak_memory_mb for r in results if r.peak_memory_mb is not None), default=None),
            gaps=results[0].gaps,
        )


@dataclass(frozen=True)
class Comparison:
    """The difference of a score from the first. Both attributes are None if there are too few runs.

    Attributes:
        difference: The difference of the means.
        verdict: "better", "worse", or "no" if the difference is not significant.
    """

    difference: float | None = None
    verdict: str | None = None

    @property
    def words(self) -> str:
        """The verdict as a cell of its own; empty without one."""
        return "not significant" if self.verdict == "no" else self.verdict or ""


@dataclass(frozen=True)
class Summary:
    """The scores of a study, in the order of its variants.

    Attributes:
        better: "min" if a smaller metric is better, else "max".
        baselines: Metrics that are reached without a model.
    """

    task: str
    protocol: str
    metric: str
    better: str
    scores: tuple[Score, ...]
    baselines: dict[str, dict[str, float]]

    @classmethod
    def of(cls, study: Study, failures: dict[str, str], searched: Mapping[str, Searched] | None = None) -> "Summary":
        """Read the results of a study.

        Args:
            study: The study.
            failures: The reasons that `Runner.run` returned.
            searched: The outcome of a search for each variant, by its name.
        """
        results: dict[str, list[Result]] = {variant.name: [] for variant in study.variants}
        failed: dict[str, list[str]] = {variant.name: [] for variant in study.variants}
        for trial in study.trials():
            if trial.folder.is_finished:
                results[trial.variant.name].append(trial.folder.result())
            elif trial.folder.path.name in failures:
                failed[trial.variant.name].append(f"seed {trial.seed}: {failures[trial.folder.path.name]}")
        first = next((result for group in results.values() for result in group), Result())
        scores = [
            Score.of(variant, results[variant.name], failed[variant.name], first.metric) for variant in study.variants
        ]
        if searched is not None:
            scores = [replace(score, search=asdict(searched[score.name])) for score in scores]
        config = study.config
        return cls(config.task, config.protocol, first.metric, first.better, tuple(scores), dict(first.baselines))

    @classmethod
    def read(cls, path: Path) -> "Summary":
        """Read a comparison.json, the content of which is `record`."""
        table = json.loads(path.read_text(encoding="utf-8"))
        known = {one.name for one in fields(Score)}
        scores = []
        for row in table["scores"]:
            row = {"label": row.get("variant", "")} | row  # the label's name up to 0.6
            scores.append(Score(**{name: value for name, value in row.items() if name in known}))
        values = {name: table[name] for name in ("task", "protocol", "metric", "better", "baselines")}
        return cls(scores=tuple(scores), **values)

    @property
    def split(self) -> str:
        """The data that the metrics belong to."""
        return "test" if any(score.test for score in self.scores) else "validation"

    def ranked(self) -> list[Score]:
        """The scores from best to worst; those without a result come last."""
        sign = 1 if self.better == "min" else -1
        return sorted(self.scores, key=lambda score: sign * fmean(score.values) if score.values else math.inf)

    def table(self) -> str:
        """A table for the terminal, best score first, with the cost of each model.

        If there are several runs of each model, a column says whether it is better or worse than the first one.
        """
        setting, versus = self.searched, self.versus
        heads = ["model", f"{self.split} {metric_name(self.metric)}", "seeds", *([versus] if versus else [])]
        heads += ["parameters", "epochs", "minutes", "steps/s", "memory", *([setting] if setting else [])]
        rows = []
        for score in self.ranked():
            costs = [
                MISSING if cost is None else f"{cost:.3g}"
                for cost in (score.epochs, score.minutes, score.steps_per_second)
            ]
            memory = MISSING if score.peak_memory_mb is None else f"{score.peak_memory_mb:,.0f} MB"
            compared = [self.compared(score).words] if versus else []
            chosen = [chosen_text(score)] if setting else []
            rows.append([*self._cells(score), *compared, _parameters(score), *costs, memory, *chosen])
        for name, values in self.baselines.items():
            rows.append([name, metric_value(self.metric, values.get(self.metric)), *[MISSING] * (len(heads) - 2)])
        return "\n".join([table(heads, rows), *self.notes()])

    @property
    def searched(self) -> str:
        """The name of the setting that was searched, without its section; empty without a search."""
        found = [score.search["setting"] for score in self.scores if score.search]
        return found[0].rpartition(".")[2].replace("_", " ") if found else ""

    @property
    def versus(self) -> str:
        """The head of a column of verdicts, "vs s7"; empty if there are too few runs for any."""
        has_verdicts = any(self.compared(score).verdict for score in self.scores)
        return f"vs {self.scores[0].name}" if has_verdicts else ""

    def ablation(self) -> str:
        """A table for the terminal that compares each variant with the first."""
        heads = ["variant", f"{self.split} {metric_name(self.metric)}", "seeds", "difference", "significant"]
        rows = []
        for score in self.scores:
            compared = comparison_text(self.metric, self.compared(score))
            rows.append([*self._cells(score), *compared, _parameters(score)])
        legend = (
            f"difference: relative to {self.scores[0].name}; "
            f"significant: p < {SIGNIFICANT:g} in Welch's t-test over seeds"
        )
        return "\n".join([table([*heads, "parameters"], rows), *self.notes(), legend])

    def compared(self, score: Score) -> Comparison:
        """How a score differs from the first one."""
        if score is self.scores[0]:
            return Comparison()
        found = difference(score.values, self.scores[0].values)
        if found is None:
            return Comparison()
        by, p = found
        if p is None:
            return Comparison(by)
        worse = (by > 0) == (self.better == "min")
        return Comparison(by, ("worse" if worse else "better") if p < SIGNIFICANT else "no")

    def notes(self) -> list[str]:
        """Remarks below a table: failed runs, and models that ignore time gaps."""
        notes = [f"{score.name}: {failure}" for score in self.scores for failure in score.failures]
        blind = [score.name for score in self.scores if score.gaps == "not used"]
        if blind:
            subject = "This model ignores" if len(blind) == 1 else "These models ignore"
            notes.append(f"{subject} time gaps: {', '.join(blind)}")
        for score in self.scores:
            notes += search_notes(score)
        return notes

    def record(self) -> dict[str, Any]:
        """The content of comparison.json."""
        rows = []
        for score in self.scores:
            row = asdict(score)
            for split, values in (("valid", score.valid), ("test", score.test)):
                row |= {f"{split}_mean": _mean(values), f"{split}_std": stdev(values) if len(values) > 1 else None}
            rows.append(row | asdict(self.compared(score)))
        head = {"task": self.task, "protocol": self.protocol, "metric": self.metric, "better": self.better}
        return head | {"compared_with": self.scores[0].name, "scores": rows, "baselines": self.baselines}

    def _cells(self, score: Score) -> list[str]:
        """The first cells of a row: name, metric, number of runs."""
        value = metric_mean_std(self.metric, score.values) if score.values else "no result"
        return [score.name, value, str(len(score.values))]


def difference(mine: Sequence[float], theirs: Sequence[float]) -> tuple[float, float | None] | None:
    """The difference of two means, and the p-value of Welch's t-test, which allows for unequal variances.

    Returns:
        None without values; None for the p-value if there are fewer than two values on a side.
    """
    if not mine or not theirs:
        return None
    by = fmean(mine) - fmean(theirs)
    if len(mine) < 2 or len(theirs) < 2:
        return by, None
    parts = [variance(values) / len(values) for values in (mine, theirs)]
    if not sum(parts):
        return by, 0.0 if by else 1.0
    # The degrees of freedom of the sum of both variances, by Welch and Satterthwaite.
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (mine, theirs), strict=True)
    )
    return by, 2 * float(stdtr(freedom, -abs(by) / math.sqrt(sum(parts))))


def comparison_text(metric: str, compared: Comparison) -> tuple[str, str]:
    """The cells of a comparison in a table: the signed difference and the verdict."""
    if compared.difference is None:
        return "", ""
    size = metric_value(metric, abs(compared.difference))
    is_zero = size == metric_value(metric, 0.0)
    sign = "" if is_zero else "+" if compared.difference > 0 else "−"
    return sign + size, compared.verdict or MISSING


def chosen_text(score: Score) -> str:
    """The value that a search chose."""
    value = None if score.search is None else score.search["chosen"]
    return MISSING if value is None else f"{value:g}"


def search_notes(score: Score) -> list[str]:
    """What to know about a search: that no trial finished, or that the chosen value is at the edge of the range."""
    if score.search is None:
        return []
    found = Searched(**score.search)
    if found.chosen is None:
        return [f"{score.name}: no trial of the search finished; its {found.setting} is that of the preset"]
    if found.at_the_edge:
        return [f"{score.name}: {found.setting}={found.chosen:g} is at the edge of the range that was searched"]
    return []


def _parameters(score: Score) -> str:
    return MISSING if score.parameters is None else f"{score.parameters:,}"


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
