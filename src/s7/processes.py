"""Processes that train one model together: which of them this one is, and how it joins the others.

`jax.distributed` connects the processes. A launcher describes them in environment variables:

    JAX_COORDINATOR_ADDRESS   host:port of process 0
    JAX_NUM_PROCESSES         how many there are
    JAX_PROCESS_ID            which of them this is, from 0

Slurm (srun) and Open MPI (mpirun) set variables of their own, from which the same follows. JAX is imported on use.
"""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from s7.interrupts import STATUS

# Seconds until a process that waits for the others gives up. The launcher of this package notices at once if one of its
# processes fails; those that are merely slow to start, on a busy machine, are waited for.
PATIENCE, PATIENCE_LAUNCHED = 20, 300
# Seconds until a process that was cut off without a sign, such as a loss of power, counts as lost.
HEARTBEAT = 30
# Set by the launcher of this package, which watches its processes and reports the one that failed.
LAUNCHED = "S7_LAUNCHED"
# The exit status of a process that ends because another one did.
LOST = 75

ADDRESS, COUNT, INDEX = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
# Number of processes, number of this process, and a variable that is set only where they apply.
_LAUNCHERS = {
    "slurm": ("SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_NODELIST"),
    "ompi": ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK"),
}
_joined = False


class ProcessLost(ConnectionError):
    """Another process of the same training has ended."""


@dataclass(frozen=True)
class Place:
    """The place of a process among those that train together.

    Attributes:
        index: The number of this process, from 0.
        count: The number of processes.
        address: host:port of process 0; None if JAX finds it from the variables of the launcher.
        launcher: The name of the launcher as JAX knows it; None if the variables of JAX are set.
    """

    index: int
    count: int
    address: str | None = None
    launcher: str | None = None


def place(environment: Mapping[str, str] = os.environ) -> Place | None:
    """The place that the environment gives this process; None for a process on its own.

    Raises:
        ValueError: If a variable is missing or is not valid.
    """
    address = environment.get(ADDRESS)
    if COUNT in environment or INDEX in environment:
        for name in (COUNT, INDEX, ADDRESS):
            if name not in environment:
                raise ValueError(f"{name} is not set; set {ADDRESS}, {COUNT} and {INDEX}, or none of them")
        return _place(environment, COUNT, INDEX, address, None)
    for launcher, (count, index, present) in _LAUNCHERS.items():
        if present in environment and count in environment:
            return _place(environment, count, index, address, launcher)
    if address is not None:
        raise ValueError(f"{COUNT} is not set; set {ADDRESS}, {COUNT} and {INDEX}, or none of them")
    return None


def _place(
    environment: Mapping[str, str], count: str, index: str, address: str | None, launcher: str | None
) -> Place | None:
    numbers = {}
    for name in (count, index):
        text = environment.get(name, "")
        if not text.isdecimal():
            raise ValueError(f"{name}={text!r}: expected a whole number")
        numbers[name] = int(text)
    if not numbers[index] < max(numbers[count], 1):
        raise ValueError(f"{index}={numbers[index]}: expected a number below {count}={numbers[count]}")
    if address is not None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{ADDRESS}={address!r}: expected host:port")
    return Place(numbers[index], numbers[count], address, launcher) if numbers[count] > 1 else None


def join(place: Place, at_timeout: Callable[[], None] = lambda: None) -> None:
    """Connect this process with the others. Must be called before JAX computes anything.

    Args:
        place: The place of this process.
        at_timeout: Called before this process ends because others did not join in time.

    Raises:
        OSError: If the port of process 0 is in use, or process 0 cannot be reached.
    """
    global _joined
    if os.environ.get(LAUNCHED):
        _stop_without_launcher()
    # JAX ends the process with a stack trace when it loses its patience, so this is sooner.
    waiting = threading.Timer(_patience() + 1, _give_up, (place, at_timeout))
    waiting.daemon = True
    waiting.start()
    try:
        if place.address is not None:
            if place.index == 0:
                _check_port(place.address)
            else:
                _await_coordinator(place)
        _keep_stdout()
        _share_cores()
        _initialize(place)
    finally:
        waiting.cancel()
    _joined = True
    sys.excepthook = _end_after(sys.excepthook)


def _share_cores() -> None:
    """Let the threads that this process starts from now on wait for a core until the running one blocks.

    Gloo's network thread polls in a loop while another thread holds the lock of a connection. If a message wakes it
    just then and it takes the core from that thread, both are delayed until the scheduler interferes, which takes 4 ms.
    Threads of the policy SCHED_BATCH do not take the core from others when they wake.
    """
    if hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):  # not allowed here; then messages take longer
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _initialize(place: Place) -> None:
    import jax

    jax.config.update("jax_enable_preemption_service", False)  # it would take SIGTERM for itself
    jax.distributed.initialize(
        place.address,
        None if place.launcher else place.count,
        None if place.launcher else place.index,
        cluster_detection_method=_detection(place),
        initialization_timeout=4 * PATIENCE_LAUNCHED,
        heartbeat_timeout_seconds=HEARTBEAT,
    )


def leave(status: int) -> None:
    """End a process that failed; one that did not ends with the others.

    At exit, JAX waits for all processes. One that failed may be the reason why another never arrives.
    """
    if _joined and status != 0:
        end(status)


def end(status: int) -> NoReturn:
    """End this process at once, with its output written."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # whoever read it may have ended
            stream.flush()
    os._exit(status)


def _end_after(show: Callable[..., object]) -> Callable[..., None]:
    """A hook for exceptions that nobody handles, which shows them and then ends this process."""

    def hook(*error: Any) -> None:
        show(*error)
        end(1)

    return hook


def _detection(place: Place) -> str:
    # JAX recognises Open MPI before version 5 only; later versions need the address.
    return "deactivate" if place.launcher is None else place.launcher


def _check_port(address: str) -> None:
    port = int(address.rpartition(":")[2])
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise OSError(f"{address}: cannot listen on port {port} ({error.strerror}); choose another port") from None


def _await_coordinator(place: Place) -> None:
    assert place.address is not None
    host, _, port = place.address.rpartition(":")
    deadline = time.monotonic() + _patience()
    while True:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=2):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise OSError(_unreachable(place)) from None
            time.sleep(0.1)


def _patience() -> float:
    return PATIENCE_LAUNCHED if os.environ.get(LAUNCHED) else PATIENCE


def _unreachable(place: Place) -> str:
    at = place.address or "the address that the launcher gives"
    return (
        f"process {place.index} of {place.count}: no answer from process 0 at {at} in {_patience()} s; "
        f"start all processes, and check {ADDRESS}"
    )


def _give_up(place: Place, at_timeout: Callable[[], None]) -> None:
    at_timeout()
    text = _unreachable(place)
    if place.index == 0:
        text = f"process 0 of {place.count}: not all processes joined within {_patience()} s; start all of them"
    print(f"s7: {text}", file=sys.stderr)
    end(2)


def _keep_stdout() -> None:
    """Keep standard output for this program: the library that connects processes prints there."""
    sys.stdout.flush()
    ours = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    old = sys.stdout
    sys.stdout = open(  # noqa: SIM115
        ours, "w", buffering=1, closefd=False, encoding=old.encoding, errors=old.errors
    )


def _stop_without_launcher() -> None:
    """Stop training, with a checkpoint, when the launcher has ended: it holds the other end of standard input."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        # Processes that do not stop together are of no use.
        time.sleep(60)
        os._exit(STATUS)

    threading.Thread(target=watch, daemon=True, name="s7 launcher").start()
