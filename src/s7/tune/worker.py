"""A worker: runs trials of a search one after another until the time of the search is spent.

Each trial is a process (see study/process.py). The worker follows its events, compares it with other trials at each
rung, and keeps the summary and the best preset up to date.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

from s7.presets.user_file import PresetFile
from s7.study.messages import Event, Rung
from s7.study.process import ENTRY_POINT, LOG, TrialProcess
from s7.tune import storages
from s7.tune.liveness import BEAT, STALE, Heartbeat, Watch
from s7.tune.search import Candidate, Search
from s7.tune.summary import PRESET, Summary, TrialRecord

# Seconds after which a trial that was asked to stop is killed.
PATIENCE = 60.0
# Failed trials in a row after which the worker gives up: the settings are not the reason.
FAILURES = 5


class Listener:
    """Follows the progress of a worker. Override the methods of interest."""

    def on_start(self, candidate: Candidate) -> None:
        """Called when a trial starts."""

    def on_event(self, candidate: Candidate, event: Event) -> None:
        """Called with each event of the trial."""

    def on_end(self, trial: TrialRecord, summary: Summary) -> None:
        """Called when a trial has ended, with its record and the trials so far."""

    def on_requeue(self, numbers: list[int]) -> None:
        """Called when trials of lost workers were put back."""


@dataclass
class Worker:
    """Runs trials.

    Attributes:
        data: The data folder; None for the default.
        trials: Stop when the search has this many trials, of all workers; None for no limit.
        program: The command that runs a trial.
        beat, stale: Seconds between signs of life, and without one until another worker is lost.
    """

    search: Search
    data: Path | None = None
    trials: int | None = None
    listener: Listener = field(default_factory=Listener)
    program: tuple[str, ...] = ENTRY_POINT
    beat: float = BEAT
    stale: float = STALE
    _failures: int = field(default=0, init=False)

    def run(self) -> Summary:
        """Run trials. On Ctrl-C, and when the time of the search is spent, a running trial saves its state and is put
        back.

        Returns:
            The summary of all trials, which is also written to the folder of the search.
        """
        watch = Watch(self.stale)
        with storages.one_line_errors(self.search.where):
            while True:
                lost = self.search.requeue_lost(watch)
                if lost:
                    self.listener.on_requeue(lost)
                full = self.trials is not None and self.search.counted() >= self.trials
                if full or not self.search.spending().has_room:
                    return self._update()
                self._run_one()

    def _run_one(self) -> None:
        candidate = self.search.next()
        try:
            replace(self.search.config.job, settings=candidate.settings).check()
        except ValueError as error:
            self.search.end(candidate, "invalid", str(error))
            self._ended(candidate)
            return
        self.listener.on_start(candidate)
        try:
            self._follow(candidate)
        except BaseException:
            self.search.put_back(candidate)
            self._update()
            raise
        self._ended(candidate)

    def _follow(self, candidate: Candidate) -> None:
        """Run the process of a trial and record how it ends."""
        verdict: list[str] = []  # why the process was asked to stop
        spec = self.search.spec(candidate, self.data)
        with TrialProcess(spec, self.program) as process:

            def stop(why: str) -> None:
                verdict.append(why)
                process.stop(PATIENCE)

            def beat(count: int) -> float | None:
                if not self.search.beat(candidate, count):
                    stop("taken over")
                    return None
                pause = self._pause()
                if not pause:
                    stop("time is over")
                return pause or None

            try:
                with Heartbeat(beat, self._pause()):
                    for event in process.events():
                        if isinstance(event, Rung) and not verdict and not self.search.at_rung(candidate, event):
                            stop(f"not among the better half after {event.fraction:.0%} of the budget")
                        self.listener.on_event(candidate, event)
            except BaseException:
                process.stop(PATIENCE)
                raise
        self._record(candidate, process, verdict[0] if verdict else "")

    def _pause(self) -> float:
        """The seconds until the next sign of life; 0 if the time of the search is spent.

        All running trials spend it together, so the last beat comes sooner.
        """
        try:
            spending = self.search.spending()
        except Exception:  # a database that cannot be reached just now
            return self.beat
        left = spending.left
        if left is None:
            return self.beat
        return min(self.beat, max(0.01, left / max(1, spending.pace))) if left else 0.0

    def _record(self, candidate: Candidate, process: TrialProcess, verdict: str) -> None:
        failure = process.failure
        if failure is None:
            self.search.finish(candidate)
        elif verdict == "taken over":
            return
        elif verdict == "time is over":
            self.search.put_back(candidate)
        elif verdict:
            self.search.end(candidate, "pruned", verdict)
        elif process.was_killed:  # such as for too little memory, by another process of this machine
            self.search.put_back(candidate, lost=True)
        elif failure.diverged:
            self.search.end(candidate, "diverged", failure.message)
        else:
            self.search.end(candidate, "failed", failure.message)

    def _ended(self, candidate: Candidate) -> None:
        summary = self._update()
        trial = next(one for one in summary.trials if one.number == candidate.number)
        self.listener.on_end(trial, summary)
        self._failures = self._failures + 1 if trial.outcome == "failed" else 0
        if self._failures >= FAILURES:
            log = candidate.folder / LOG
            raise OSError(f"{FAILURES} trials in a row failed; the last one: {trial.reason} (see {log})")

    def _update(self) -> Summary:
        """Write the summary and the best preset."""
        search, summary = self.search, Summary.of(self.search)
        summary.write(search.out)
        best = summary.best
        if best is not None:
            write_preset(search, summary, best, search.out / PRESET)
        return summary


def write_preset(search: Search, summary: Summary, trial: TrialRecord, path: Path) -> None:
    """Write the settings of a trial as a preset file."""
    job, space = search.config.job, search.config.space
    settings = replace(job, settings=space.settings(job, search.tidy(trial.values))).tables
    comment = (
        f"Found by s7 tune: trial {trial.number} of {len(summary.trials)}, "
        f"validation {summary.metric} {trial.value:.6g} with seed {job.seed} after {search.budget} of training."
    )
    PresetFile(job.task, job.model, job.preset, settings).write(path, comment)
