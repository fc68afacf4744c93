"""Damaged files of all formats give events or one line. `make fuzz` damages ten million bytes."""

import pytest

from tests.events import fuzz
from tests.real_data import real_place


def test_damaged_files_give_events_or_one_line(tmp_path):
    try:
        place = real_place("event_files/sample.aedat4")
    except pytest.skip.Exception:  # all other formats are damaged without it
        place = None
    counts = fuzz.fuzz(50_000, 1, place, tmp_path)
    assert counts["files"] >= 50
    assert counts["evt3-events.raw: error"]
