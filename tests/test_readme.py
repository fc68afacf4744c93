"""The examples in the documentation run and print what they say."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(program: str, folder: Path = ROOT) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_ENABLE")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_readme_example_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    check = "\nassert np.allclose(stream.answer(), model(x[0], s7.gaps(times[0])), atol=1e-4)"
    printed = run(example + check, tmp_path).splitlines()
    assert "True" in printed
    assert any(line.startswith(("['up'", "['down'")) for line in printed)


def test_selective_memory_example_runs(tmp_path):
    program = f"""
import sys
sys.argv[1:] = ["--out", {str(tmp_path / "figure.svg")!r}]
from examples.selective_memory import main
main()
"""
    assert "validation RMSE 0.0" in run(program)
    assert (tmp_path / "figure.svg").stat().st_size > 10_000


def test_the_examples_of_the_layer_page_run():
    page = ROOT / "docs" / "the-layer.md"
    assert doctest.DocTestParser().get_examples(page.read_text())
    run(f"import doctest, sys; sys.exit(doctest.testfile({str(page)!r}, module_relative=False).failed)")


def test_links_between_pages_resolve():
    for page in (ROOT / "README.md", *ROOT.glob("docs/*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
