"""What came out: for each variant the mean over its seeds, what it cost, and how sure a difference is."""

import math
from dataclasses import asdict, dataclass, replace
from statistics import fmean, stdev
from typing import Any

from s7.publishing.text import metric_mean_std, metric_name, metric_value
from s7.study.study import Study, Variant

# A difference counts as more than noise from so many standard errors on.
SURE = 2.0


@dataclass(frozen=True)
class Score:
    """One variant's runs that are finished. `test` is empty where the test data were left alone."""

    name: str
    model: str
    variant: str
    valid: list[float]
    test: list[float]
    failures: list[str]
    parameters: int | None = None
    epochs: float | None = None
    minutes: float | None = None
    steps_per_second: float | None = None
    peak_memory_mb: float | None = None
    gaps: str = ""

    @property
    def judged(self) -> list[float]:
        """What it is judged by: the test set, or the validation set where there is nothing else."""
        return self.test or self.valid


@dataclass(frozen=True)
class Summary:
    """The scores of a study, in the order of its variants."""

    task: str
    protocol: str
    metric: str
    better: str
    scores: tuple[Score, ...]
    baselines: dict[str, dict[str, float]]

    @classmethod
    def of(cls, study: Study, failures: dict[str, str]) -> "Summary":
        """From the folders of its runs."""
        results: dict[str, list[dict[str, Any]]] = {variant.name: [] for variant in study.variants}
        failed: dict[str, list[str]] = {variant.name: [] for variant in study.variants}
        for trial in study.trials():
            if trial.folder.is_finished:
                results[trial.variant.name].append(trial.folder.result().to_json())
            elif trial.folder.path.name in failures:
                failed[trial.variant.name].append(f"seed {trial.seed}: {failures[trial.folder.path.name]}")
        done = [result for of_one in results.values() for result in of_one]
        metric = str(done[0]["metric"]) if done else ""
        scores = [_score(variant, results[variant.name], failed[variant.name], metric) for variant in study.variants]
        better = str(done[0]["better"]) if done else "min"
        baselines = dict(done[0]["baselines"]) if done else {}
        return cls(study.rules.task, study.rules.protocol, metric, better, tuple(scores), baselines)

    @property
    def split(self) -> str:
        """Where the numbers are from."""
        return "test" if any(score.test for score in self.scores) else "validation"

    def ranked(self) -> list[Score]:
        """The best first, those without a result last."""
        sign = 1 if self.better == "min" else -1
        return sorted(self.scores, key=lambda score: sign * fmean(score.judged) if score.judged else math.inf)

    def table(self) -> str:
        """For people: the best first, what costs what, and what takes no model."""
        heads = ["model", f"{self.split} {metric_name(self.metric)}", "seeds", "parameters", "epochs", "minutes"]
        rows = [[*heads, "steps/s", "memory"]]
        for score in self.ranked():
            costs = [score.epochs, score.minutes, score.steps_per_second]
            told = ["–" if q is None else f"{q:.3g}" for q in costs]
            size = "–" if score.parameters is None else f"{score.parameters:,}"
            memory = "–" if score.peak_memory_mb is None else f"{score.peak_memory_mb:,.0f} MB"
            value = metric_mean_std(self.metric, score.judged) if score.judged else "no result"
            rows.append([score.name, value, str(len(score.judged)), size, *told, memory])
        for name, values in self.baselines.items():
            rows.append([name, metric_value(self.metric, values.get(self.metric)), *["–"] * 6])
        return "\n".join([*aligned(rows), *self.notes()])

    def ablation(self) -> str:
        """For people: each variant beside the first, and whether it differs by more than the seeds do."""
        first = self.scores[0]
        rows = [
            ["variant", f"{self.split} {metric_name(self.metric)}", "seeds", "difference", "beyond noise", "parameters"]
        ]
        for score in self.scores:
            value = metric_mean_std(self.metric, score.judged) if score.judged else "no result"
            size = "–" if score.parameters is None else f"{score.parameters:,}"
            compared = difference_told(self.metric, **self.compared(score))
            rows.append([score.name, value, str(len(score.judged)), *compared, size])
        told = f"difference: to {first.name}; beyond noise: more than {SURE:g} standard errors, of both means"
        return "\n".join([*aligned(rows), *self.notes(), told])

    def compared(self, score: Score) -> dict[str, Any]:
        """How it differs from the first, and whether by more than the seeds do; None where that cannot be known."""
        found = None if score is self.scores[0] else difference(score.judged, self.scores[0].judged)
        by, errors = found or (None, None)
        if by is None or errors is None:
            return {"difference": by, "verdict": None}
        worse = (by > 0) == (self.better == "min")
        return {"difference": by, "verdict": ("worse" if worse else "better") if errors > SURE else "no"}

    def notes(self) -> list[str]:
        """What a reader of the table must know."""
        notes = [f"{score.name}: {failure}" for score in self.scores for failure in score.failures]
        blind = [score.name for score in self.scores if score.gaps == "not used"]
        if blind:
            notes.append(f"no notion of time, so the gaps between events are not used: {', '.join(blind)}")
        return notes

    def record(self) -> dict[str, Any]:
        """For machines."""
        first = self.scores[0]
        rows = []
        for score in self.scores:
            means = {f"{split}_mean": fmean(values) if values else None for split, values in _splits(score)}
            spreads = {f"{split}_std": stdev(values) if len(values) > 1 else None for split, values in _splits(score)}
            rows.append(asdict(score) | means | spreads | self.compared(score))
        head = {"task": self.task, "protocol": self.protocol, "metric": self.metric, "better": self.better}
        return head | {"compared_with": first.name, "scores": rows, "baselines": self.baselines}


def difference(mine: list[float], theirs: list[float]) -> tuple[float, float | None] | None:
    """How much the means differ, and how many standard errors of that difference it is (None: too few runs)."""
    if not mine or not theirs:
        return None
    by = fmean(mine) - fmean(theirs)
    if len(mine) < 2 or len(theirs) < 2:
        return by, None
    error = math.sqrt(stdev(mine) ** 2 / len(mine) + stdev(theirs) ** 2 / len(theirs))
    return by, abs(by) / error if error > 0 else (math.inf if by else 0.0)


def difference_told(metric: str, difference: float | None, verdict: str | None) -> tuple[str, str]:
    """Both for people: by how much, and whether that is worse, better, or no more than noise."""
    if difference is None:
        return "", ""
    told = metric_value(metric, abs(difference))
    sign = "" if told == metric_value(metric, 0.0) else "+" if difference > 0 else "−"
    return sign + told, verdict or "–"


def aligned(rows: list[list[str]]) -> list[str]:
    """Rows of text in columns, the first to the left, the others to the right."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = []
    for row in rows:
        rest = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *rest]).rstrip())
    return lines


def _splits(score: Score) -> list[tuple[str, list[float]]]:
    return [("valid", score.valid), ("test", score.test)]


def _score(variant: Variant, results: list[dict[str, Any]], failures: list[str], metric: str) -> Score:
    valid, test = ([r[split][metric] for r in results if metric in r[split]] for split in ("valid", "test"))
    score = Score(variant.name, variant.model, variant.variant, valid, test, failures)
    if not results:
        return score
    return replace(
        score,
        parameters=results[0]["parameters"],
        epochs=fmean(r["steps"] / r["steps_per_epoch"] for r in results),
        minutes=fmean(r["seconds"] / 60 for r in results),
        steps_per_second=fmean(r["steps_per_second"] for r in results),
        peak_memory_mb=max(r["peak_memory_mb"] for r in results),
        gaps=results[0]["gaps"],
    )
