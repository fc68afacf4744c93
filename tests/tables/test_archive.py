"""Archives of run records: they round trip, and damage is reported with the file name."""

from pathlib import Path

import pytest

from s7.records import Epoch, Result, RunRecord
from s7.tables import archive

STORED = Path(__file__).parents[2] / "docs" / "results" / "runs.jsonl.xz"


def record(seed: int) -> RunRecord:
    """A finished run."""
    result = Result(task="walker2d", model="s7", protocol="strict", seed=seed, test={"mse": 0.1 + seed}, title="–")
    return RunRecord({"task": "walker2d"}, (Epoch(1, {"mse": 1.0}, {"mse": 2.0}),), result)


def test_an_archive_round_trips(tmp_path):
    path = tmp_path / "runs.jsonl.xz"
    assert archive.read(path) == {}
    archive.write(path, {"b": record(1), "a": record(0)})
    assert archive.read(path) == {"a": record(0), "b": record(1)}
    before = path.read_bytes()
    archive.add(path, {"a": record(0)})
    assert path.read_bytes() == before
    archive.add(path, {"c": record(2)})
    assert list(archive.read(path)) == ["a", "b", "c"]


def test_unfinished_runs_are_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"^a: the run is not finished$"):
        archive.write(tmp_path / "runs.jsonl.xz", {"a": RunRecord({})})


@pytest.mark.parametrize("damage", [b"", b"not xz", None])
def test_damage_is_reported(tmp_path, damage):
    path = tmp_path / "runs.jsonl.xz"
    archive.write(path, {"a": record(0)})
    path.write_bytes(path.read_bytes()[:-9] if damage is None else damage)
    with pytest.raises(ValueError, match=r"runs.jsonl.xz: not an archive of run records \([^\n]*\)$"):
        archive.read(path)


def test_the_stored_archive_is_small_and_complete():
    assert STORED.stat().st_size < 300_000
    stored = archive.read(STORED)
    assert len(stored) > 250
    assert stored["text-0"].history
    # Only runs that were asked not to use the test data have no test metrics.
    assert all(
        record.result is not None and (record.result.test or not record.config.get("test", True))
        for record in stored.values()
    )
