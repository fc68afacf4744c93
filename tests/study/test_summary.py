"""Means over seeds, tables and comparisons."""

import json
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_ind

from s7.study import Summary
from s7.study.summary import difference


def test_a_summary_ranks_the_models(make_study, run):
    study = make_study("s5", "s7")
    run(study)
    summary = Summary.of(study, {})
    assert (summary.metric, summary.split, summary.baselines) == ("mse", "test", {"persistence": {"mse": 4.0}})
    first, second = summary.ranked()
    assert (first.name, first.test, second.name) == ("s7", [2.0, 2.1], "s5")
    assert (first.epochs, first.minutes) == (1.5, 1.5)
    lines = summary.table().splitlines()
    assert lines[0].split()[:6] == ["model", "test", "MSE", "seeds", "vs", "s5"]
    assert lines[1].startswith("s7")
    assert "better" in lines[1]
    assert "2.050 ± 0.071" in lines[1]
    assert lines[3].startswith("persistence")
    assert lines[-1] == "This model ignores time gaps: s5"


def test_single_runs_have_no_verdict(make_study, run):
    study = make_study("s5", "s7", seeds=1)
    run(study)
    assert "vs s5" not in Summary.of(study, {}).table()


def test_the_record_compares_with_the_first_variant(make_study, run):
    study = make_study("s5", "s7")
    run(study)
    record = json.loads(json.dumps(Summary.of(study, {}).record()))
    assert record["compared_with"] == "s5"
    assert record["scores"][1]["difference"] == pytest.approx(-1.0)
    assert record["scores"][1]["verdict"] == "better"
    assert record["scores"][0]["verdict"] is None
    assert (record["scores"][0]["test_mean"], record["scores"][0]["valid_mean"]) == (3.05, 2.05)


def test_a_summary_is_read_as_written(make_study, run, tmp_path):
    study = make_study("s5", "s7")
    run(study)
    summary = Summary.of(study, {})
    (tmp_path / "comparison.json").write_text(json.dumps(summary.record()))
    assert Summary.read(tmp_path / "comparison.json") == summary


def test_a_study_without_results_has_a_summary(make_study):
    summary = Summary.of(make_study("s7"), {"s7-1": "out of memory"})
    assert "no result" in summary.table()
    assert "s7: seed 1: out of memory" in summary.ablation()


RUNS = st.lists(st.floats(-3, 3).map(lambda value: round(value, 3)), min_size=2, max_size=6, unique=True)


@given(RUNS, RUNS)
def test_differences_have_the_p_value_of_welch(mine, theirs):
    by, p = difference(mine, theirs)
    assert by == pytest.approx(fmean(mine) - fmean(theirs))
    assert p == pytest.approx(ttest_ind(mine, theirs, equal_var=False).pvalue, abs=1e-9)


def test_differences_of_few_or_equal_runs():
    assert difference([1.0], []) is None
    assert difference([3.0], [1.0]) == (2.0, None)
    assert difference([1.0, 1.0], [1.0, 1.0]) == (0.0, 1.0)
    assert difference([2.0, 2.0], [1.0, 1.0]) == (1.0, 0.0)


def test_an_ablation_shows_whether_a_change_matters(make_study, run):
    study = make_study("s7", "s5")
    run(study)
    lines = Summary.of(study, {}).ablation().splitlines()
    assert lines[2].split()[-3:] == ["+1", "worse", "1,234"]
    assert "p < 0.05 in Welch's t-test" in lines[-1]
