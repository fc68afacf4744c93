"""README.md: its example runs, and the links of all pages resolve."""

import re

from tests.programs import ROOT, run_program


def test_readme_example_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    check = """
import equinox
assert np.allclose(stream.answer(), equinox.filter_jit(model)(x[0], s7.gaps(times[0])), atol=1e-4)
"""
    printed = run_program(example + check, tmp_path).splitlines()
    assert "True" in printed
    assert any(line.startswith(("['up'", "['down'")) for line in printed)


def test_links_between_pages_resolve():
    for page in (ROOT / "README.md", *ROOT.glob("docs/*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
