"""The place of a process among those that train together, and errors before they are connected."""

import os
import socket
import threading

import numpy as np
import pytest

from s7 import processes
from s7.processes import Place, place
from s7.training.checkpoint import require_same
from s7.training.group import Group

JAX = {"JAX_COORDINATOR_ADDRESS": "node1:1234", "JAX_NUM_PROCESSES": "4", "JAX_PROCESS_ID": "3"}
SLURM = {"SLURM_NTASKS": "2", "SLURM_PROCID": "1", "SLURM_STEP_NODELIST": "node[1-2]", "SLURM_JOB_ID": "7"}
MPI = {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "0"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        (JAX, Place(3, 4, "node1:1234")),
        (JAX | SLURM, Place(3, 4, "node1:1234")),
        (SLURM, Place(1, 2, None, "slurm")),
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, None),  # in a batch script, outside of srun
        (MPI, Place(0, 3, None, "ompi")),
        (MPI | {"JAX_COORDINATOR_ADDRESS": "node1:1234"}, Place(0, 3, "node1:1234", "ompi")),
        (MPI | {"OMPI_COMM_WORLD_SIZE": "1"}, None),
    ],
)
def test_the_environment_gives_the_place(environment, expected):
    assert place(environment) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"JAX_PROCESS_ID": "4"}, "JAX_PROCESS_ID=4: expected a number below JAX_NUM_PROCESSES=4"),
        ({"JAX_NUM_PROCESSES": "two"}, "JAX_NUM_PROCESSES='two': expected a whole number"),
        ({"JAX_PROCESS_ID": None}, "JAX_PROCESS_ID is not set; set "),
        ({"JAX_COORDINATOR_ADDRESS": "node1"}, "JAX_COORDINATOR_ADDRESS='node1': expected host:port"),
        ({"JAX_NUM_PROCESSES": None, "JAX_PROCESS_ID": None}, "JAX_NUM_PROCESSES is not set"),
    ],
)
def test_a_wrong_environment_is_an_error(change, message):
    with pytest.raises(ValueError, match=message):
        place({name: value for name, value in (JAX | change).items() if value is not None})


def test_a_port_in_use_and_a_missing_coordinator_are_errors(monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE", 0.2)
    with socket.socket() as taken:
        taken.bind(("", 0))
        port = taken.getsockname()[1]
        # Bound but not listening: process 0 cannot use it, and the others get no answer.
        with pytest.raises(OSError, match=f"cannot listen on port {port} .*in use.*; choose another port"):
            processes.join(Place(0, 2, f"127.0.0.1:{port}"))
        with pytest.raises(OSError, match=f"process 1 of 2: no answer from process 0 at 127.0.0.1:{port}"):
            processes.join(Place(1, 2, f"127.0.0.1:{port}"))


class Told(Group):
    """A group whose first process has these settings."""

    def from_first(self, value):
        return {"seed": 0, "train": {"epochs": 2, "pack": None}}

    def gather(self, array):
        return np.array([False, True])


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="only Linux has this policy")
def test_threads_of_joined_processes_do_not_interrupt_each_other():
    def policy():
        processes._share_cores()
        found.append(os.sched_getscheduler(0))

    found = []
    thread = threading.Thread(target=policy)
    thread.start()
    thread.join()
    assert found == [os.SCHED_BATCH]
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_processes_with_other_settings_are_errors():
    with pytest.raises(ValueError, match=r"process 1 of 2 was started with train\.epochs=3, not 2 as process 0"):
        require_same(Told(1, 2), {"seed": 0, "train": {"epochs": 3, "pack": None}})
    with pytest.raises(ValueError, match="process 1 of 2 was started with other settings or data"):
        require_same(Told(0, 2), {"seed": 0, "train": {"epochs": 2, "pack": None}})
