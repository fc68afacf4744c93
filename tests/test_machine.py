"""The machine: clocks."""

import time

import pytest

from s7 import machine


@pytest.mark.parametrize(
    ("threads", "cores", "clock"),
    [
        ("1", 2, time.process_time),
        ("2", 1, time.perf_counter),
        ("", 1, time.process_time),
        ("", 2, time.perf_counter),
    ],
)
def test_one_thread_is_measured_in_processor_time(monkeypatch, threads, cores, clock):
    monkeypatch.setenv("S7_THREADS", threads)
    monkeypatch.setattr(machine, "usable_cores", lambda: cores)
    assert machine.working_clock() is clock
