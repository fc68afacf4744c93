"""Interrupted studies continue from their finished runs in another checkout."""

import json

import pytest
from benchmarks.stored import RESULTS
from benchmarks.studies import UNFINISHED
from benchmarks.study_entry import StudyEntry
from benchmarks.unfinished import pack, unpack

FINISHED = ("study.json", "search/study.json", "search/s7-0/config.toml", "search/s7-0/result.json")
BEGUN = ("s7-0/config.toml", "s7-0/metrics.jsonl", "s7-0/last.safetensors", "search/s7-0/best.safetensors")


def write(study, *names):
    for name in names:
        path = study / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{study.name}: {name}")


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_finished_runs_of_interrupted_studies_are_packed_and_restored(tmp_path):
    runs, archive, elsewhere = tmp_path / "runs", tmp_path / "unfinished.tar.xz", tmp_path / "elsewhere"
    write(runs / "one", *FINISHED, *BEGUN)
    write(runs / "complete", *FINISHED, "comparison.json")
    pack(runs, archive)
    before = archive.read_bytes()
    unpack(elsewhere, archive)
    assert files(elsewhere) == {f"one/{name}": f"one: {name}" for name in FINISHED}
    pack(elsewhere, archive)
    assert archive.read_bytes() == before
    # What is there already is newer.
    write(elsewhere / "one", "s7-0/result.json")
    (elsewhere / "one" / FINISHED[-1]).write_text("newer")
    unpack(elsewhere, archive)
    assert (elsewhere / "one" / FINISHED[-1]).read_text() == "newer"


def test_the_archive_is_removed_when_all_studies_are_complete(tmp_path):
    write(tmp_path / "runs" / "one", *FINISHED)
    pack(tmp_path / "runs", tmp_path / "archive")
    assert (tmp_path / "archive").exists()
    write(tmp_path / "runs" / "one", "comparison.json")
    pack(tmp_path / "runs", tmp_path / "archive")
    assert not (tmp_path / "archive").exists()
    unpack(tmp_path / "runs", tmp_path / "archive")


@pytest.mark.parametrize(("stored", "missing", "done"), [("s7,s5", [], True), ("s5", ["s7"], False), ("", [], False)])
def test_a_group_runs_what_has_no_results(stored, missing, done, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.study_entry.RESULTS", tmp_path)
    entry = StudyEntry("one", "compare walker2d --models s7,s5")
    if stored:
        entry.summary.write_text(json.dumps({"scores": [{"name": name} for name in stored.split(",")]}))
    assert (entry.missing, entry.is_done) == (missing, done)


def test_the_archive_of_this_project_is_small():
    assert UNFINISHED.parent == RESULTS
    assert not UNFINISHED.exists() or UNFINISHED.stat().st_size < 300_000
