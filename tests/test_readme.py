"""What the documents show runs as it is printed."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(program: str, folder: Path = ROOT) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_ENABLE")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("number", [0, 1])
def test_the_readmes_examples_run_as_printed(number, tmp_path):
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(examples) == 2
    assert run(examples[number], tmp_path).strip() == "True"


def test_the_layers_page_prints_what_it_says():
    page = ROOT / "docs" / "the-layer.md"
    assert doctest.DocTestParser().get_examples(page.read_text())
    run(f"import doctest, sys; sys.exit(doctest.testfile({str(page)!r}, module_relative=False).failed)")


def test_the_pages_links_lead_somewhere():
    for page in (ROOT / "README.md", *ROOT.glob("docs/*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
