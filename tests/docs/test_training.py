"""docs/training.md: its examples run as printed."""

import re

import pytest

from tests.programs import ROOT, run_program

EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "training.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_guide_runs(number, tmp_path):
    printed = run_program(EXAMPLES[number], tmp_path)
    assert printed.strip() == ("['accuracy', 'loss']" if number == 0 else "")
