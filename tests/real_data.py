"""The location of real data for tests: $S7_DATA, or shared/data next to the project."""

import os
from pathlib import Path

import pytest

from s7.data.folder import DataFolder


def real_place(*names: str) -> Path:
    """The folder that holds one of these files; without one the test is skipped."""
    named = os.environ.get("S7_DATA")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    for place in ([Path(named)] if named else []) + [beside]:
        if any((place / name).exists() for name in names):
            return place
    pytest.skip(f"{' or '.join(names)} is neither in $S7_DATA nor in shared/data beside the project")


def real_file(*names: str) -> Path:
    """The first of these files that is there."""
    found = DataFolder(real_place(*names)).find(*names)
    assert found is not None
    return found
