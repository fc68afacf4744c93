"""A hook of MkDocs: pages for the files outside docs/ that the documentation links to.

Pages in docs/ link to source files by their path in the repository, such as ../src/s7/layer.py. The site has a page
with the contents of each linked file, so that these links also work there.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

FOLDER = "source"
LANGUAGES = {".py": "python", ".c": "c", ".cc": "cpp", ".h": "cpp", ".hpp": "cpp", ".toml": "toml", ".json": "json"}
_LINK = re.compile(r"(?<=\]\()(\.\./[^)#\s]+)")


def outside(page: str, link: str) -> str | None:
    """Return the path, relative to the repository, of a link that leaves docs/; None for other links.

    Args:
        page: The path of the page, relative to docs/.
        link: The relative link on it.
    """
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if path.startswith("docs/") else path


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each linked source file that exists. MkDocs reports links to the others."""
    root = Path(config.docs_dir).parent
    pages = [file for file in files.documentation_pages() if file.abs_src_path]
    links = {outside(page.src_uri, link) for page in pages for link in _LINK.findall(page.content_string)}
    for path in sorted(filter(None, links)):
        if (root / path).is_file():
            files.append(File.generated(config, f"{FOLDER}/{path}.md", content=source_page(root, path)))
    return files


def source_page(root: Path, path: str) -> str:
    """Return the page of a source file, in Markdown."""
    text = (root / path).read_text(encoding="utf-8")
    language = LANGUAGES.get(Path(path).suffix, "text")
    header = f"---\ntitle: {Path(path).name}\nsearch:\n  exclude: true\nhide:\n  - toc\n---\n\n# `{path}`\n\n"
    return f"{header}~~~~~~ {language}\n{text}\n~~~~~~\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that leave docs/ to the pages of their files."""
    uri = page.file.src_uri

    def pointed(match: re.Match) -> str:
        path = outside(uri, match[1])
        target = f"{FOLDER}/{path}.md"
        if path is None or files.get_file_from_path(target) is None:
            return match[1]
        return posixpath.relpath(target, posixpath.dirname(uri) or ".")

    return markdown if uri.startswith(f"{FOLDER}/") else _LINK.sub(pointed, markdown)
