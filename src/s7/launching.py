"""Starts several processes of one command on this machine, which train one model together, and watches them.

Process 0 writes to the terminal. The error of another process is shown if it is the reason why the job ended.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from types import FrameType
from typing import IO, NamedTuple

from s7.processes import ADDRESS, COUNT, INDEX, LAUNCHED, LOST

# Seconds for the remaining processes to end after one has failed, before they are killed.
GRACE = 3.0


class Verdict(NamedTuple):
    """How a job ended: its exit status, what to say about it unless process 0 has, and whether a process was lost."""

    status: int
    text: str = ""
    lost: bool = False


class Workers:
    """The processes of a job.

    Args:
        command: The arguments of the program.
        count: The number of processes.
        module: The program, as `python -m` takes it.
    """

    def __init__(self, command: Sequence[str], count: int, module: str = "s7"):
        self._errors: list[IO[str] | None] = []
        self._workers: list[subprocess.Popen] = []
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        each = len(cores) // count
        shared = {ADDRESS: f"127.0.0.1:{_free_port()}", COUNT: str(count), LAUNCHED: "1"}
        warnings = [f"-W{one}" for one in sys.warnoptions]
        for index in range(count):
            errors = None if index == 0 else tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
            worker = subprocess.Popen(
                [sys.executable, *warnings, "-m", module, *command],
                env=os.environ | shared | {INDEX: str(index)},
                stdin=subprocess.PIPE,  # it ends with this process, however that ends
                stdout=None if index == 0 else subprocess.DEVNULL,
                stderr=errors,
                process_group=0,  # a signal from the terminal reaches it once, through this process
            )
            if each:
                # Cores of its own, which determine how many threads it starts.
                os.sched_setaffinity(worker.pid, cores[index * each : (index + 1) * each])
            self._errors.append(errors)
            self._workers.append(worker)

    @property
    def pids(self) -> list[int]:
        """The processes' numbers in the system."""
        return [worker.pid for worker in self._workers]

    def run(self) -> Verdict:
        """Wait until all processes have ended; if one fails, end the others."""
        before = {number: signal.signal(number, self._relay) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while any(worker.poll() is None for worker in self._workers):
                if any(worker.poll() for worker in self._workers):
                    self._end()
                    break
                time.sleep(0.05)
            return self._verdict()
        finally:
            self._end(0)
            self._close()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _verdict(self) -> Verdict:
        """By the process whose end was the reason for that of the others."""
        statuses = [worker.returncode for worker in self._workers]
        if not any(statuses):
            return Verdict(0)
        # A process that has lost another one ends itself, or JAX aborts it.
        consequences = (0, LOST, -signal.SIGABRT)
        first = next((n for n, status in enumerate(statuses) if status not in consequences), None)
        if first is None:
            first = next(n for n, status in enumerate(statuses) if status)
        status = statuses[first]
        if status < 0:
            name = signal.Signals(-status).name
            return Verdict(2, f"process {first} of {len(statuses)} was ended by {name}", lost=True)
        if status == LOST:
            return Verdict(2, "the connection between the processes was lost", lost=True)
        return Verdict(status, "" if first == 0 else self._said(first))

    def _said(self, index: int) -> str:
        errors = self._errors[index]
        assert errors is not None
        errors.seek(0)
        lines = errors.read().strip().splitlines()
        return lines[-1] if lines else f"process {index} ended with status {self._workers[index].returncode}"

    def _relay(self, number: int, frame: FrameType | None) -> None:
        for worker in self._workers:
            if worker.poll() is None:
                worker.send_signal(number)

    def _end(self, grace: float = GRACE) -> None:
        """Wait a little for all processes, then kill those that are left."""
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline and any(worker.poll() is None for worker in self._workers):
            time.sleep(0.05)
        for worker in self._workers:
            if worker.poll() is None:
                worker.kill()
        for worker in self._workers:
            worker.wait()

    def _close(self) -> None:
        for worker, errors in zip(self._workers, self._errors, strict=True):
            assert worker.stdin is not None
            worker.stdin.close()
            if errors is not None:
                errors.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
