"""Each run in a process of its own: none can spoil another, and the peak of memory is its own."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from s7.study.study import Study, Trial

LOG = "log.txt"


class Listener:
    """Hears how the runs go. This one says nothing; override what is of interest."""

    def begin(self, trial: Trial, number: int, total: int) -> None:
        """A run starts."""

    def epoch(self, trial: Trial, line: dict[str, Any]) -> None:
        """A run has done an epoch."""

    def end(self, trial: Trial, failure: str | None) -> None:
        """A run came to its end, or did not."""


@dataclass
class Runner:
    """Makes the runs of a study that are not done, `jobs` at a time, each on its share of the cores."""

    study: Study
    data: Path | None = None
    jobs: int = 1
    listener: Listener = field(default_factory=Listener)
    program: tuple[str, ...] = (sys.executable, "-m", "s7")

    def __post_init__(self):
        if self.jobs < 1:
            raise ValueError(f"jobs={self.jobs}: must be at least 1")
        self._shares = _shares(self.jobs)
        self._stopped = threading.Event()
        self._processes: set[subprocess.Popen] = set()

    def run(self) -> dict[str, str]:
        """What went wrong, by the name of the folder. A run that fails does not keep the others from theirs."""
        trials = [trial for trial in self.study.trials() if not trial.folder.is_finished]
        shares = list(self._shares)
        failures: dict[str, str] = {}

        def one(number: int, trial: Trial) -> None:
            if self._stopped.is_set():
                return
            cores = shares.pop()
            try:
                self.listener.begin(trial, number, len(trials))
                failure = self._one(trial, cores)
                if failure:
                    failures[trial.folder.path.name] = failure
                if not self._stopped.is_set():
                    self.listener.end(trial, failure)
            finally:
                shares.append(cores)

        with ThreadPoolExecutor(self.jobs) as pool:
            waiting = [pool.submit(one, number, trial) for number, trial in enumerate(trials, 1)]
            try:
                for future in waiting:
                    future.result()
            except KeyboardInterrupt:
                self._stopped.set()
                for process in list(self._processes):
                    process.terminate()  # it saves what it has, and ends
                raise
        return failures

    def _one(self, trial: Trial, cores: Sequence[int]) -> str | None:
        """Runs; None if it came to its end, otherwise what is known about why not."""
        if cores:
            os.sched_setaffinity(0, cores)  # of this thread, and so of the process that it starts
        trial.folder.path.mkdir(parents=True, exist_ok=True)
        log = trial.folder.path / LOG
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                [*self.program, *self.study.command(trial, self.data)],
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | _threads(cores),
                start_new_session=True,  # an interrupt of a terminal would reach it a second time
            ) as process,
        ):
            self._processes.add(process)
            assert process.stdout is not None
            for text in process.stdout:
                line = _parsed(text)
                if line is not None and "valid" in line and "best" in line:
                    self.listener.epoch(trial, line)
            status = process.wait()
            self._processes.discard(process)
        if trial.folder.is_finished:
            return None
        said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        if said:
            return said[-1]
        return f"killed by signal {-status}" if status < 0 else f"exit status {status}"


def _shares(jobs: int) -> list[list[int]]:
    """The cores that this process may use, dealt out."""
    if not hasattr(os, "sched_getaffinity"):
        return [[] for _ in range(jobs)]
    cores = sorted(os.sched_getaffinity(0))
    if jobs > len(cores):
        raise ValueError(f"jobs={jobs}: only {len(cores)} cores are available, and every run needs its own")
    return [cores[n::jobs] for n in range(jobs)]


def _threads(cores: Sequence[int]) -> dict[str, str]:
    return {"S7_THREADS": str(len(cores))} if cores and "S7_THREADS" not in os.environ else {}


def _parsed(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None
