"""docs/estimators.md: its examples run as printed."""

import re

import pytest

from tests.programs import ROOT, run_program

EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "estimators.md").read_text(), re.DOTALL)


@pytest.mark.parametrize(("number", "printed"), [(0, "True"), (1, "(20,)")])
def test_an_example_of_the_page_runs(number, printed, tmp_path):
    assert run_program(EXAMPLES[number], tmp_path).strip() == printed
