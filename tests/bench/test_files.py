"""The benchmark of event files."""

import pytest

from s7.bench import files
from s7.bench.table import Table


def test_every_format_is_measured():
    rows = list(files.rows(events=4000, runs=1))
    assert list(dict.fromkeys(row["format"] for row in rows)) == list(files.FILES)
    assert [row["implementation"] for row in rows[:3]] == ["blocks", "whole", "copy"]
    assert all(row["million_events_per_s"] > 0 and 3000 < row["events"] < 5000 for row in rows)
    assert "evt3" in Table("files").line(rows[0])


def test_an_unknown_format_is_rejected():
    with pytest.raises(ValueError, match="no file of the format tiff to measure; known: evt3"):
        list(files.rows(["tiff"]))
