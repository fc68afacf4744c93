"""`s7 bench block`. No test depends on a speed."""

import json
from dataclasses import replace

import pytest

from s7 import native
from s7.bench import block
from s7.bench.block import BlockCase
from s7.settings import build, table_of

TINY = BlockCase("tiny", 2, 6, 4, 3, replace(block.FACTORED, dropout=0.5))


@pytest.fixture
def in_this_process(monkeypatch):
    """Without child processes and matrix products."""
    monkeypatch.setattr(block, "thread_speedup", lambda case, runs: 1.5)
    monkeypatch.setattr(block, "sgemm_rate", lambda: 100.0)


def test_rows_have_all_fields(in_this_process):
    rows = list(block.rows([TINY], runs=1))
    assert [row["implementation"] for row in rows] == ["native", "xla"][not native.available() :]
    for row in rows:
        assert (row["case"], row["batch"], row["length"], row["width"], row["state"]) == ("tiny", 2, 6, 4, 3)
        assert row["thread_speedup"] == (1.5 if row["implementation"] == "native" else None)
        assert row["dropout_share"] < 1
        for part, times in (("forward", 1), ("gradient", 3)):
            assert row[f"{part}_ratio"] == pytest.approx(row[f"{part}_ns"] / rows[0][f"{part}_ns"])
            assert row[f"{part}_gflops"] == pytest.approx(2 * times * row["multiply_adds"] / row[f"{part}_ns"])
            assert row[f"{part}_of_sgemm"] == pytest.approx(row[f"{part}_gflops"] / 100)


@pytest.mark.parametrize("case", block.CASES[1:], ids=lambda case: case.name)
def test_the_other_cases_run(case, in_this_process):
    small = replace(case, batch=2, length=8, width=4, state=2, tokens=min(case.tokens, 5))
    for row in block.rows([small], runs=1):
        assert (row["dropout_share"] is None) == (case.config.dropout == 0)


def test_cases_survive_json():
    for case in block.CASES:
        assert build(BlockCase, json.loads(json.dumps(table_of(case))), "case") == case


@pytest.mark.skipif(not native.available(), reason="no native kernels")
def test_the_speed_up_is_measured_in_other_processes(monkeypatch):
    asked = []
    monkeypatch.setattr(block, "usable_cores", lambda: 2)
    monkeypatch.setattr(block, "_in_child", lambda case, runs, threads: asked.append(threads) or 3.0 / threads)
    assert block.thread_speedup(TINY, 1) == 2.0
    assert asked == [1, 2, 1, 2]
    monkeypatch.setattr(block, "usable_cores", lambda: 1)
    assert block.thread_speedup(TINY, 1) is None


@pytest.mark.skipif(not native.available(), reason="no native kernels")
def test_a_child_measures_the_case():
    assert block._in_child(TINY, 1, 1) > 0
