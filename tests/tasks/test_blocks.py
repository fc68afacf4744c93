"""Blocks of generated data: in order, from any process, with progress messages."""

import math
import os

import pytest

from s7.tasks import blocks
from s7.tasks.blocks import make_blocks
from tests.listening import silent


@pytest.mark.parametrize("processes", [None, 2])
def test_blocks_are_in_order(processes):
    assert make_blocks(math.factorial, 7, silent, processes) == [math.factorial(n) for n in range(7)]


def test_few_blocks_are_made_in_this_process_and_many_in_others(monkeypatch):
    # Local functions cannot be sent to another process.
    assert make_blocks(lambda block: os.getpid(), blocks.FEW - 1, silent) == [os.getpid()] * (blocks.FEW - 1)
    started = []
    pool = blocks.ProcessPoolExecutor
    monkeypatch.setattr(blocks, "usable_cores", lambda: 2)
    monkeypatch.setattr(blocks, "ProcessPoolExecutor", lambda n, **how: started.append(n) or pool(n, **how))
    assert len(make_blocks(math.factorial, blocks.FEW, silent)) == blocks.FEW
    assert started == [2]


def test_progress_is_reported_at_intervals(monkeypatch):
    heard = []
    monkeypatch.setattr(blocks, "EVERY", -1.0)
    make_blocks(math.factorial, 4, heard.append)
    assert [text.partition(",")[0] for text in heard] == ["25 % generated", "50 % generated", "75 % generated"]
    assert all(text.endswith(" s left") for text in heard)


def test_an_error_in_a_block_is_the_callers():
    for processes in (1, 2):
        with pytest.raises(ValueError, match="math domain error"):
            make_blocks(math.log, 3, silent, processes)


def test_a_killed_process_is_reported():
    with pytest.raises(ChildProcessError, match="a process that generates data died"):
        make_blocks(os._exit, 2, silent, processes=2)
