"""A search: the trials of one search space, in a storage that its workers share.

Optuna's objective is the score of a trial: its validation metric, negated if larger values are better. Each trial has
the attributes that a summary needs: its outcome, reason, folder, worker and time.
"""

import math
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from s7.job import Job
from s7.run_folder import RunFolder
from s7.settings import Table, to_assignments
from s7.study.messages import Rung, TrialSpec
from s7.tune import storages
from s7.tune.liveness import Owner, Watch
from s7.tune.pruning import is_promising
from s7.tune.sampling import sampler
from s7.tune.space import Space
from s7.tune.spending import EARLIER, SECONDS, Spending

JOURNAL = "journal.log"
NAME = "tune"
IDENTITY, METRIC, MINUTES = "s7", "metric", "minutes"
# A trial whose worker was lost this often is not tried again: it may be what ended the workers.
ATTEMPTS = 3
# Finished trials from which the importance of settings is estimated; of fewer, it would be noise.
EXPLAINED = 10


@dataclass(frozen=True)
class Budget:
    """The training of each trial: minutes, epochs, or neither for the epochs of the preset."""

    minutes: float | None = None
    epochs: int | None = None

    def __str__(self) -> str:
        if self.minutes is not None:
            return f"{self.minutes:g} min"
        return "the preset's epochs" if self.epochs is None else f"{self.epochs} epochs"


@dataclass(frozen=True)
class SearchConfig:
    """What all workers of a search must agree on.

    Attributes:
        job: The task, the model and the settings at the centre of the search. It is never tested.
        budget: The budget of each trial; None for that of the search if it exists, else `default_budget`.
        rungs: The fractions of the budget at which trials are compared; empty to run all of them to their end.
    """

    job: Job
    space: Space
    budget: Budget | None = None
    default_budget: Budget = Budget()
    rungs: tuple[float, ...] = ()

    def record(self) -> dict[str, Any]:
        """The configuration as JSON, by which workers recognize their search."""
        job, budget = self.job, self.budget or self.default_budget
        return {
            "task": job.task,
            "model": job.model,
            "preset": job.preset,
            "protocol": job.protocol,
            "seed": job.seed,
            "settings": sorted(to_assignments(job.settings)),
            "space": self.space.record(),
            "budget": str(budget),
            "rungs": list(self.rungs),
        }


@dataclass
class Candidate:
    """A trial that this worker runs: Optuna's trial, the values of the searched settings, and its run folder."""

    trial: Any
    values: dict[str, Any]
    settings: Table
    folder: Path
    reported: set[int] = field(default_factory=set)
    began: float = field(default_factory=time.monotonic)

    @property
    def number(self) -> int:
        """The number of the trial in the search."""
        return self.trial.number

    def record_time(self) -> None:
        """Write how long the trial has been running, which counts as spent."""
        self.trial.set_user_attr(SECONDS, time.monotonic() - self.began)


class Search:
    """A search in its storage. `where` names it in messages; runs are in `out`."""

    def __init__(self, config: SearchConfig, out: Path, study: Any, storage: Any, where: str):
        self.config, self.out, self.where, self._study, self._storage = config, out, where, study, storage
        self._owner = Owner.here()

    @classmethod
    def open(cls, config: SearchConfig, out: Path, url: str | None = None, name: str | None = None) -> "Search":
        """Create a search, or join the one that is there.

        Args:
            out: The folder of the runs and, without a URL, of the journal.
            url: The address of a database.
            name: The name of the search in the database; by default that of the task.

        Raises:
            ValueError: If the search that is there has another configuration.
            OSError: If the storage cannot be used.
        """
        storages.require_optuna()
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        if url is None:
            storage, name, where = storages.journal(out / JOURNAL), NAME, str(out)
        else:
            storage, name = storages.database(url), name or config.job.task
            where = f"search {name!r} in the storage"
        with storages.one_line_errors(where):
            study = optuna.create_study(
                storage=storage, study_name=name, sampler=sampler(config.job.seed), load_if_exists=True
            )
            search = cls(config, out, study, storage, where)
            try:
                search._agree()
            except BaseException:
                search.close()
                raise
        return search

    def _agree(self) -> None:
        """Adopt the budget of an existing search; write the configuration of a new one."""
        theirs = self._study.user_attrs.get(IDENTITY)
        if theirs is None:
            if self._study.get_trials(deepcopy=False):
                raise ValueError(f"{self.where}: its trials were not made by s7 tune; choose another place")
            self._study.set_user_attr(IDENTITY, self.config.record())
            preset = self.config.space.preset_values()
            if preset.keys() == self.config.space.ranges.keys():
                self._study.enqueue_trial(preset, user_attrs={"preset": True}, skip_if_exists=True)
        elif self.config.budget is None and isinstance(theirs.get("budget"), str):
            self.config = replace(self.config, budget=_budget(theirs["budget"]))
        self.check()

    def check(self) -> None:
        """Raise a ValueError if the search in the storage has another configuration than this worker."""
        mine, theirs = self.config.record(), self._study.user_attrs.get(IDENTITY, {})
        for name, value in mine.items():
            if theirs.get(name) != value:
                difference = _difference(name, theirs.get(name), value)
                raise ValueError(f"{self.where}: its trials have {difference}; choose another --out or --name")

    @property
    def budget(self) -> Budget:
        """The budget of each trial."""
        return self.config.budget or self.config.default_budget

    def allow(self, minutes: float) -> None:
        """Set the time of all trials of all workers together; it replaces an earlier one."""
        self._study.set_user_attr(MINUTES, minutes)

    @property
    def minutes(self) -> float | None:
        """The time of all trials of all workers together; None for no limit."""
        return self._study.user_attrs.get(MINUTES)

    def spending(self) -> Spending:
        """The time that all trials have spent, and what is left."""
        minutes = self.minutes
        return Spending(self.trials(), None if minutes is None else 60 * minutes, 60 * (self.budget.minutes or 0))

    def close(self) -> None:
        """Close the connections to a database."""
        engine = getattr(self._storage, "engine", None)
        if engine is not None:
            engine.dispose()

    def trials(self) -> list[Any]:
        """All trials, as Optuna has them."""
        return self._study.get_trials(deepcopy=False)

    def counted(self) -> int:
        """The number of trials that are finished, pruned or running, of all workers."""
        return sum(trial.state.name in ("COMPLETE", "PRUNED", "RUNNING") for trial in self.trials())

    def next(self) -> Candidate:
        """A trial to run: one that was stopped, or a new one."""
        self.check()
        trial = self._study.ask(self.config.space.distributions())
        values = self.tidy(trial.params)
        attributes = trial.user_attrs
        folder = self.out / attributes.get("folder", f"trials/{trial.number:04d}")
        if not _is_free(folder):
            folder = self.out / f"trials/{trial.number:04d}"
        trial.set_user_attr("owner", list(self._owner))
        trial.set_user_attr("folder", folder.relative_to(self.out).as_posix())
        candidate = Candidate(trial, values, self.config.space.settings(self.config.job, values), folder)
        if RunFolder(folder).last.exists():
            for percent, score in attributes.get("rungs", {}).items():
                self._report(candidate, int(percent), score)
        return candidate

    @staticmethod
    def tidy(values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that trials use: numbers with four significant digits, so that presets are readable."""
        return {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in values.items()}

    def spec(self, candidate: Candidate, data: Path | None) -> TrialSpec:
        """The specification of a trial's process. The test data are never used."""
        job, budget = self.config.job, self.budget
        settings = candidate.settings
        if budget.epochs is not None:
            settings = settings | {"train": settings.get("train", {}) | {"epochs": budget.epochs}}
        return TrialSpec(
            job.task,
            str(candidate.folder),
            job.model,
            job.preset,
            job.protocol,
            job.seed,
            settings,
            budget.minutes,
            test=False,
            variant=f"trial {candidate.folder.name}",
            data=None if data is None else str(data),
            rungs=self.config.rungs,
        )

    def beat(self, candidate: Candidate, count: int) -> bool:
        """Show that a trial is alive. Returns False if it no longer belongs to this worker."""
        try:
            candidate.trial.set_user_attr("beat", count)
            candidate.record_time()
        except Exception:
            return not self._is_finished(candidate)
        return True

    def _is_finished(self, candidate: Candidate) -> bool:
        try:
            return self.trials()[candidate.number].state.is_finished()
        except Exception:  # a database that cannot be reached just now
            return False

    def at_rung(self, candidate: Candidate, rung: Rung) -> bool:
        """Record a validation. Returns whether the trial should continue."""
        score = _score(rung.value, rung.better)
        percent = round(100 * rung.fraction)
        self._set_metric(rung.metric, rung.better)
        self._report(candidate, percent, score)
        others = [
            trial.intermediate_values[percent]
            for trial in self.trials()
            if trial.number != candidate.number
            and trial.state.name in ("COMPLETE", "PRUNED", "RUNNING")
            and percent in trial.intermediate_values
        ]
        return is_promising(score, others)

    def _report(self, candidate: Candidate, percent: int, score: float) -> None:
        if percent not in candidate.reported:
            candidate.reported.add(percent)
            candidate.trial.report(score, percent)

    def _set_metric(self, metric: str, better: str) -> None:
        if METRIC not in self._study.user_attrs:
            self._study.set_user_attr(METRIC, {"metric": metric, "better": better})

    def finish(self, candidate: Candidate) -> float:
        """Record the result of a finished run; the value of its validation metric."""
        result = RunFolder(candidate.folder).result()
        value = result.valid[result.metric]
        self._set_metric(result.metric, result.better)
        self._tell(candidate, "finished", "", _score(value, result.better))
        return value

    def end(self, candidate: Candidate, outcome: str, reason: str) -> None:
        """End a trial without a result: "pruned", "diverged", "invalid" (settings that exclude each other) or "failed".

        For Optuna, all of them are pruned, so that the sampler avoids such settings. It would ignore failed trials and
        propose the same settings again and again.
        """
        self._tell(candidate, outcome, reason)

    def _tell(self, candidate: Candidate, outcome: str, reason: str, score: float | None = None) -> None:
        from optuna.trial import TrialState

        trial = candidate.trial
        try:
            candidate.record_time()
            trial.set_user_attr("outcome", outcome)
            trial.set_user_attr("reason", reason)
            self._study.tell(trial, score, TrialState.PRUNED if score is None else None)
        except (RuntimeError, ValueError):
            if not self._is_finished(candidate):  # otherwise another worker took it over
                raise

    def put_back(self, candidate: Candidate, *, lost: bool = False) -> None:
        """Put a trial of this worker back; see `requeue`."""
        with suppress(RuntimeError, ValueError):  # it ended, or another worker took it over
            candidate.record_time()
        self.requeue(candidate.number, lost=lost)

    def requeue(self, number: int, *, lost: bool) -> bool:
        """Put a running trial back, to be resumed by any worker. Returns whether this worker did so.

        Args:
            lost: Whether its worker is gone, rather than stopped on purpose. After a few times, the trial has failed.
        """
        from optuna.trial import TrialState

        old = self.trials()[number]
        attempt = old.user_attrs.get("attempt", 1)
        again = not lost or attempt < ATTEMPTS
        try:
            self._study.tell(number, state=TrialState.FAIL)
        except (RuntimeError, ValueError):  # it ended, or another worker was faster
            return False
        if again:
            kept = {name: old.user_attrs[name] for name in ("folder", "preset") if name in old.user_attrs}
            rungs = {str(percent): score for percent, score in old.intermediate_values.items()}
            kept |= {"rungs": old.user_attrs.get("rungs", {}) | rungs, "attempt": attempt + lost}
            kept[EARLIER] = old.user_attrs.get(EARLIER, 0.0) + old.user_attrs.get(SECONDS, 0.0)
            self._study.enqueue_trial(old.params, user_attrs=kept)
        return again

    def requeue_lost(self, watch: Watch) -> list[int]:
        """Put the trials of lost workers back; their numbers."""
        running = []
        for trial in self.trials():
            if trial.state.name == "RUNNING":
                owner = trial.user_attrs.get("owner")
                running.append((trial.number, None if owner is None else Owner(*owner), trial.user_attrs.get("beat")))
        return [number for number in watch.lost(running) if self.requeue(number, lost=True)]

    def metric(self) -> tuple[str, str]:
        """The name of the validation metric, and "min" or "max"; empty before the first result."""
        found = self._study.user_attrs.get(METRIC, {})
        return found.get("metric", ""), found.get("better", "min")

    def importance(self) -> dict[str, float]:
        """The importance of each setting for the score of finished trials (PED-ANOVA); empty if there are too few."""
        import optuna

        done = [trial for trial in self.trials() if trial.state.name == "COMPLETE"]
        if len(done) < EXPLAINED or len({trial.value for trial in done}) < 2:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = optuna.importance.get_param_importances(self._study)
        return {name: share for name, share in found.items() if math.isfinite(share)}


def _score(value: float, better: str) -> float:
    return value if better == "min" else -value


def _budget(text: str) -> Budget:
    """The budget that `str` formats."""
    word, _, unit = text.partition(" ")
    if unit == "min":
        return Budget(minutes=float(word))
    return Budget(epochs=int(word)) if unit == "epochs" else Budget()


def _difference(name: str, theirs: Any, mine: Any) -> str:
    """The difference of two configurations in a few words."""
    if isinstance(theirs, Mapping) and isinstance(mine, Mapping):
        for key in (*mine, *theirs):
            if mine.get(key) != theirs.get(key):
                return f"{name} {key}={theirs.get(key, 'fixed')}, not {mine.get(key, 'fixed')}"
    if isinstance(theirs, list) and isinstance(mine, list):
        return f"{name} {' '.join(map(str, theirs)) or 'none'}, not {' '.join(map(str, mine)) or 'none'}"
    return f"{name} {theirs}, not {mine}"


def _is_free(folder: Path, seconds: float = 30.0) -> bool:
    """Whether no process works in a run folder. A trial whose worker was killed stops within a step."""
    if not RunFolder(folder).is_begun:
        return True
    until = time.monotonic() + seconds
    while True:
        try:
            with RunFolder(folder).locked():
                return True
        except OSError:
            if time.monotonic() > until:
                return False
            time.sleep(0.5)
