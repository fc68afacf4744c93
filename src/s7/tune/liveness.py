"""Whether the worker of a running trial is still alive.

A worker writes its identity and a counter, its beat, to the trial that it runs, and increments the counter while the
trial runs. Another worker considers it lost

- at once if it ran on the same machine and its process no longer exists, or
- when the counter has not changed for `STALE` seconds by the observer's own clock, so that the clocks of different
  machines need not agree.

This needs nothing but attributes of trials, so it works with every storage.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

# Seconds between beats, and without one until a worker is lost.
BEAT = 15.0
STALE = 120.0


class Owner(NamedTuple):
    """The process of a worker: its machine, its number and when it started, as numbers are used again."""

    machine: str
    pid: int
    started: str

    @classmethod
    def here(cls) -> "Owner":
        """This process."""
        return cls(_machine(), os.getpid(), _start_time(os.getpid()))

    @property
    def is_gone(self) -> bool:
        """Whether the process is known not to exist any more. False if it ran on another machine."""
        return self.machine == _machine() and _start_time(self.pid) != self.started


class Sighting(NamedTuple):
    """The latest beat of a trial that was seen, and when."""

    beat: int | None
    at: float


class Watch:
    """Notices workers that are lost.

    Args:
        stale: Seconds without a beat after which a worker is lost.
        clock: The time in seconds.
    """

    def __init__(self, stale: float = STALE, clock: Callable[[], float] = time.monotonic):
        self._stale, self._clock = stale, clock
        self._seen: dict[int, Sighting] = {}

    def lost(self, running: Iterable[tuple[int, Owner | None, int | None]]) -> list[int]:
        """The numbers of running trials whose worker is lost, given number, owner and beat of each."""
        now, found = self._clock(), []
        for number, owner, beat in running:
            seen = self._seen.get(number)
            if seen is None or seen.beat != beat:
                self._seen[number] = seen = Sighting(beat, now)
            if (owner is not None and owner.is_gone) or now - seen.at > self._stale:
                found.append(number)
        return found


class Heartbeat:
    """Calls a function again and again in a thread while a trial runs.

    Args:
        beat: Called with 1, 2, …; it returns the seconds until the next call, or None for no other call.
        pause: Seconds until the first call.
    """

    def __init__(self, beat: Callable[[int], float | None], pause: float = BEAT):
        self._beat, self._pause = beat, pause
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="s7 heartbeat")

    def __enter__(self) -> "Heartbeat":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        count, pause = 0, self._pause
        while not self._ended.wait(pause):
            count += 1
            found = self._beat(count)
            if found is None:
                return
            pause = found


def _machine() -> str:
    """The host, its boot and the namespace of process numbers; processes of other containers are not visible."""
    parts = [socket.gethostname()]
    for read in (
        lambda: Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        lambda: os.readlink("/proc/self/ns/pid"),
    ):
        try:
            parts.append(read())
        except OSError:
            continue
    return " ".join(parts)


def _start_time(pid: int) -> str:
    """When a process started, as the kernel counts; "" if there is no such process, "?" if that is not known."""
    try:
        # The name in parentheses may contain anything; state is field 3 and the start time field 22.
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if words[0] == "Z" else words[19]
    except OSError:
        pass
    if Path("/proc/self/stat").exists():
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        pass
    return "?"
