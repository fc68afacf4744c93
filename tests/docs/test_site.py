"""The site: every page is in its navigation, the reference has every public name, and it builds without warnings."""

import os
import re
import sys
from importlib import import_module
from pathlib import Path
from subprocess import run

import pytest

from tests.programs import ROOT

DOCS = ROOT / "docs"
CONFIG = (ROOT / "mkdocs.yml").read_text()
REFERENCE = {
    name: page.name
    for page in DOCS.glob("api/*.md")
    for name in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)
}
# Packages whose `__all__` is public.
PACKAGES = [
    *("s7", "s7.baselines", "s7.data", "s7.report", "s7.sharing", "s7.sklearn", "s7.study", "s7.tasks", "s7.training"),
]


def documented(name: str):
    """The object of a full name, such as s7.training.Trainer."""
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError):
        return import_module(name)


def test_every_page_is_in_the_navigation():
    navigation = CONFIG.split("\nnav:\n")[1].split("\n\n")[0]
    listed = re.findall(r"(?:: |- )(\S+\.md)$", navigation, re.MULTILINE)
    pages = {path.relative_to(DOCS).as_posix() for path in [*DOCS.glob("*.md"), *DOCS.glob("api/*.md")]}
    missing = sorted(pages - set(listed))
    assert not missing, f"add {', '.join(missing)} to nav in mkdocs.yml"
    assert sorted(set(listed) - pages) == [], "pages in nav in mkdocs.yml that do not exist"
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_has_every_public_name(package):
    described = {id(documented(name)) for name in REFERENCE}
    module = import_module(package)
    missing = [name for name in module.__all__ if id(getattr(module, name)) not in described]
    assert not missing, f"add {', '.join(f'::: {package}.{name}' for name in missing)} to a page in docs/api"


def test_the_site_uses_no_other_servers():
    assert "font: false" in CONFIG
    assert not re.search(r"https?://", CONFIG + (DOCS / "site.css").read_text())


def test_the_site_builds_without_warnings(tmp_path):
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is missing; pip install 's7-ssm[docs]'")
    options = ["--strict", "--quiet", "--config-file", str(ROOT / "mkdocs.yml"), "--site-dir", str(tmp_path / "site")]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = run([sys.executable, "-m", "mkdocs", "build", *options], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    pages = {path: path.read_text() for path in (tmp_path / "site").rglob("*.html")}
    assert len(pages) > 30
    reference = [text for path, text in pages.items() if path.parent.name == "api"]
    for name in REFERENCE:
        assert any(f'id="{name}"' in text for text in reference), name
    for path, text in pages.items():
        external = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?//[^"]*"', text)
        assert external == [], path


def test_source_files_that_pages_link_to_have_pages():
    sys.path.insert(0, str(DOCS))
    try:
        source_pages = import_module("source_pages")
    finally:
        sys.path.remove(str(DOCS))
    assert source_pages.outside("the-layer.md", "../src/s7/layer.py") == "src/s7/layer.py"
    assert source_pages.outside("api/models.md", "../the-layer.md") is None
    assert "~~~~~~ python" in source_pages.source_page(Path(ROOT), "src/s7/version.py")
