"""The stored results that docs/results.md and docs/tables.md are written from."""

import json

from benchmarks import results
from benchmarks.long_studies import LONG_STUDIES
from benchmarks.stored import CURVE_POINTS, RESULTS, ROOT, spread
from benchmarks.studies import update_scores
from benchmarks.study_entry import StudyEntry

from s7.publishing import plots
from s7.records import Epoch
from s7.tables.filling import sheets
from s7.tables.page import as_markdown
from s7.tables.results import read

# The tasks of docs/tables.md whose data are not available.
NO_DATA = ("eigenworms", "retrieval", "shd", "ssc")


def test_the_pages_show_the_stored_results(monkeypatch):
    monkeypatch.setattr(plots, "save", lambda path, *drawing: path)
    assert results.page().text() == results.PAGE.read_text(encoding="utf-8"), "run python -m benchmarks.results"
    command = "s7 tables --markdown --runs docs/results --out docs/tables.md"
    tables = as_markdown(sheets([], read([RESULTS]), lambda task: task not in NO_DATA), command)
    assert tables == (ROOT / "docs" / "tables.md").read_text(encoding="utf-8"), f"run {command}"


def test_scores_of_some_models_are_added_or_replaced(tmp_path):
    stored, rerun = tmp_path / "stored.json", tmp_path / "rerun.json"
    for path, first, second in ((stored, ("s7", 1), ("s5", 2)), (rerun, ("s5", 3), ("cru", 4))):
        scores = [{"name": name, "test": [value]} for name, value in (first, second)]
        path.write_text(json.dumps({"metric": "mse", "scores": scores}))
    update_scores(stored, rerun)
    table = json.loads(stored.read_text())
    assert table["metric"] == "mse"
    assert [(score["name"], score["test"]) for score in table["scores"]] == [("s7", [1]), ("s5", [3]), ("cru", [4])]


def test_the_models_of_a_study():
    assert StudyEntry("one", "compare walker2d --models s7,s5 --minutes 1").models == ["s7", "s5"]
    assert StudyEntry("two", "ablate walker2d").models == []
    assert all(entry.models or entry.is_ablation for entry in LONG_STUDIES)


def test_curves_keep_the_best_epoch_and_the_last():
    history = tuple(Epoch(n, {}, {"mse": abs(n - 613) / 7}, best=n <= 613) for n in range(1, 1001))
    kept = spread(history)
    assert len(kept) <= CURVE_POINTS + 1
    assert (kept[-1].epoch, min(epoch.valid["mse"] for epoch in kept)) == (1000, 0.0)
    assert spread(history[:3]) == tuple(
        Epoch(n, {}, {"mse": float(f"{abs(n - 613) / 7:.5g}")}, best=True) for n in (1, 2, 3)
    )
    assert spread(()) == ()
