"""What the documents show runs as it is printed."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(program: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_ENABLE")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readmes_example_runs_as_printed():
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert run(example).strip() == "True"


def test_the_layers_page_prints_what_it_says():
    page = ROOT / "docs" / "the-layer.md"
    assert doctest.DocTestParser().get_examples(page.read_text())
    run(f"import doctest, sys; sys.exit(doctest.testfile({str(page)!r}, module_relative=False).failed)")


def test_the_pages_links_lead_somewhere():
    for page in (ROOT / "README.md", *ROOT.glob("docs/*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
