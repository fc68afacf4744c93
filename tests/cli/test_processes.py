"""`s7 train --processes N`: the metrics of one process, kill -9, and resuming with another number of processes."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from .processes import SMALL, numbers, run, start, temporary_files


def workers(launcher: int) -> list[int]:
    """The processes that a launcher has started, in their order."""
    return [int(word) for word in subprocess.check_output(["pgrep", "-P", str(launcher)], text=True).split()]


def test_a_killed_process_ends_the_job_and_another_number_resumes_it(finished, data, tmp_path):
    # Three processes do not divide a batch of 16 evenly. The job of more processes is the shorter one.
    folder = tmp_path / "run"
    settings = ("--data", data, "--out", folder, "--set", "train.epochs=60", *SMALL)
    job = start("train", "walker2d", *settings, "--processes", 3)
    while not (folder / "last.safetensors").exists() and job.poll() is None:
        time.sleep(0.02)
    os.kill(workers(job.pid)[1], signal.SIGKILL)
    _, err = job.communicate(timeout=60)
    again = f"s7 train walker2d --out {folder} --resume --processes 3"
    assert (job.returncode, err) == (2, f"s7 train: process 1 of 3 was ended by SIGKILL; to continue: {again}\n")
    assert not (folder / "result.json").exists()

    status, out, err = run("train", "walker2d", "--data", data, "--out", folder, "--resume", "--processes", 2, "--json")
    assert (status, err) == (0, "")
    assert all(line.startswith("{") for line in out.splitlines())
    (history, result), (expected_history, expected) = numbers(folder), numbers(finished[0])
    for name in ("train", "valid"):
        for mine, theirs in zip(history, expected_history, strict=True):
            assert mine[name] == pytest.approx(theirs[name], rel=1e-4)
    assert result["test"] == pytest.approx(expected["test"], rel=1e-4)
    assert result["data_sha256"] == expected["data_sha256"]
    assert temporary_files(folder) == []


# `s7` in a process that waits for the others for half a second.
IMPATIENT = """
import sys
from s7 import processes
from s7.cli.main import main

processes.PATIENCE = 0.5
sys.exit(main(sys.argv[1:]))
"""


def test_a_run_whose_processes_do_not_all_start_leaves_no_folder(tmp_path):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    place = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "0"}
    command = [sys.executable, "-c", IMPATIENT, "train", "fitzhugh-nagumo", "--out", str(tmp_path / "runs" / "one")]
    done = subprocess.run(command, env=os.environ | place, capture_output=True, text=True, timeout=60, check=False)
    message = "s7: process 0 of 2: not all processes joined within 0.5 s; start all of them\n"
    assert (done.returncode, done.stderr) == (2, message)
    assert list(tmp_path.iterdir()) == []
