"""Runs the trials of a study, each in its own process, so that a crash cannot affect the others."""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from s7.study.messages import EpochDone
from s7.study.process import ENTRY_POINT, TrialProcess
from s7.study.study import Study, Trial


class Listener:
    """Follows the progress of a study. Override the methods of interest; they are called from several threads."""

    def on_start(self, trial: Trial, number: int, total: int) -> None:
        """Called when a trial starts: `number` counts from 1 to `total`."""

    def on_epoch(self, trial: Trial, event: EpochDone) -> None:
        """Called when a trial has finished an epoch."""

    def on_end(self, trial: Trial, failure: str | None) -> None:
        """Called when a trial is finished, with None, or has failed, with the reason."""


@dataclass
class Runner:
    """Runs the unfinished trials of a study, `jobs` at a time, each on its share of the cores.

    Attributes:
        data: The data folder; None for the default.
        program: The command that runs a trial; the path of its specification is appended.
    """

    study: Study
    data: Path | None = None
    jobs: int = 1
    listener: Listener = field(default_factory=Listener)
    program: tuple[str, ...] = ENTRY_POINT

    def __post_init__(self):
        if self.jobs < 1:
            raise ValueError(f"jobs={self.jobs}: must be at least 1")
        self._core_sets = _core_sets(self.jobs)
        self._stopped = threading.Event()
        self._processes: set[TrialProcess] = set()

    def run(self) -> dict[str, str]:
        """Run the trials. On Ctrl-C, the running trials save their state and no other is started.

        Returns:
            The reasons of failures, by the name of the trial's folder.
        """
        trials = [trial for trial in self.study.trials() if not trial.folder.is_finished]
        free = list(self._core_sets)
        failures: dict[str, str] = {}

        def run_one(number: int, trial: Trial) -> None:
            if self._stopped.is_set():
                return
            cores = free.pop()
            try:
                self.listener.on_start(trial, number, len(trials))
                failure = self._run_trial(trial, cores)
                if failure:
                    failures[trial.folder.path.name] = failure
                if not self._stopped.is_set():
                    self.listener.on_end(trial, failure)
            finally:
                free.append(cores)

        with ThreadPoolExecutor(self.jobs) as pool:
            futures = [pool.submit(run_one, number, trial) for number, trial in enumerate(trials, 1)]
            try:
                for future in futures:
                    future.result()
            except KeyboardInterrupt:
                self._stopped.set()
                for process in list(self._processes):
                    process.stop()  # the trial saves its state and exits
                raise
        return failures

    def _run_trial(self, trial: Trial, cores: Sequence[int]) -> str | None:
        """Run one trial; the reason if it failed."""
        with TrialProcess(self.study.spec(trial, self.data), self.program, cores) as process:
            self._processes.add(process)
            for event in process.events():
                if isinstance(event, EpochDone):
                    self.listener.on_epoch(trial, event)
            self._processes.discard(process)
        failure = process.failure
        return None if failure is None else failure.message


def _core_sets(jobs: int) -> list[list[int]]:
    """The available cores, shared out among the jobs."""
    if not hasattr(os, "sched_getaffinity"):
        return [[] for _ in range(jobs)]
    cores = sorted(os.sched_getaffinity(0))
    if jobs > len(cores):
        raise ValueError(f"jobs={jobs}: only {len(cores)} cores are available, and every run needs its own")
    return [cores[n::jobs] for n in range(jobs)]
