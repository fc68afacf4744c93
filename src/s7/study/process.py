"""The process of a trial, as its study sees it: started with a specification, it sends events until it ends."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from s7.run_folder import RunFolder
from s7.study.messages import Event, Failed, TrialSpec, read_event

SPEC = "trial.json"
LOG = "log.txt"
ENTRY_POINT = (sys.executable, "-m", "s7.study.trial")


class TrialProcess:
    """Runs a trial in its own process, so that a crash cannot affect the others.

        with TrialProcess(spec) as process:
            for event in process.events():
                ...
        process.failure     # None if the trial is finished

    Args:
        spec: The specification, which is written to the trial's folder.
        program: The command that runs a trial; the path of the specification is appended.
        cores: The cores that the process may use; empty for all.
    """

    def __init__(self, spec: TrialSpec, program: tuple[str, ...] = ENTRY_POINT, cores: Sequence[int] = ()):
        self._spec, self._program, self._cores = spec, program, cores
        self._folder = Path(spec.folder)
        self._failed: Failed | None = None

    def __enter__(self) -> "TrialProcess":
        if self._cores:
            os.sched_setaffinity(0, self._cores)  # of this thread, and of the process that it starts
        self._folder.mkdir(parents=True, exist_ok=True)
        self._spec.write(self._folder / SPEC)
        self._log = (self._folder / LOG).open("wb")
        self._process = subprocess.Popen(
            [*self._program, str(self._folder / SPEC)],
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=os.environ | _thread_limit(self._cores),
            start_new_session=True,  # otherwise Ctrl-C in a terminal would reach the trial directly, too
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the process to end."""
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.wait()
        self._log.close()

    def events(self) -> Iterator[Event]:
        """The events of the trial until it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = read_event(line)
            if isinstance(event, Failed):
                self._failed = event
            if event is not None:
                yield event
        self._process.wait()

    def stop(self, patience: float | None = None) -> None:
        """Ask the trial to save its state and exit. It is killed if it still runs after `patience` seconds."""
        self._process.terminate()
        if patience is not None:
            killer = threading.Timer(patience, self._process.kill)
            killer.daemon = True
            killer.start()

    @property
    def was_killed(self) -> bool:
        """Whether a signal ended the process. Known once it has ended."""
        return self._process.wait() < 0

    @property
    def failure(self) -> Failed | None:
        """Why the trial failed; None if it is finished. Known once the process has ended."""
        status = self._process.wait()
        if status == 0 and RunFolder(self._folder).is_finished:
            return None
        return self._failed or Failed(_reason(status, self._folder / LOG))


def _reason(status: int, log: Path) -> str:
    """Why a process ended that sent no reason itself: its signal, or the last line of its log."""
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else f"exit status {status}"


def _thread_limit(cores: Sequence[int]) -> dict[str, str]:
    return {"S7_THREADS": str(len(cores))} if cores and "S7_THREADS" not in os.environ else {}
