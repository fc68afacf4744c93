"""The contents of the wheel."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def packaged():
    """Paths in the wheel, as far as they exist before the native library is built."""
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    return {file.distribution_path for file in builder.recurse_included_files()}


@pytest.mark.parametrize(
    "pattern",
    [
        *("**/*.py", "**/*.pyi", "py.typed", "presets/*.toml", "publishing/templates/*.jinja", "live/page/*"),
        *("native/*.cc", "native/*.h*", "pretrained/*/*"),
    ],
)
def test_every_file_of_the_package_is_in_the_wheel(packaged, pattern):
    files = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "s7").glob(pattern)}
    assert files
    assert files <= packaged


def test_only_the_package_is_in_the_wheel(packaged):
    assert {path.split("/")[0] for path in packaged} == {"s7"}
