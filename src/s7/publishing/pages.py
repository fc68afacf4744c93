"""HTML pages: a `Page` is made of sections, a `Section` of parts, and a template renders each of them.

Every part has a macro of its name in `templates/parts.html.jinja`. Text is escaped; `markupsafe.Markup` is not.

    page = Page("Results", sections=[Section("speed", "Speed", [Paragraph("Measured twice."), Table(heads, rows)])])
    write(page, Path("results.html"))
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from s7.publishing.colours import DARK, LIGHT
from s7.storage import write_atomically
from s7.version import __version__

# Text, which is escaped, or HTML: Markup, a part, an SVG.
Content = Any


class Part:
    """Something on a page. In a template, `{{ part }}` renders it."""

    def __html__(self) -> Markup:
        """The HTML of the macro that has the name of the class."""
        return getattr(_environment().get_template("parts.html.jinja").module, type(self).__name__.lower())(self)


@dataclass(frozen=True)
class Paragraph(Part):
    """A paragraph; a `note` is smaller and paler."""

    content: Content
    note: bool = False


@dataclass(frozen=True)
class Code(Part):
    """A block of code, or a command to copy."""

    content: str


@dataclass(frozen=True)
class Card(Part):
    """A number and its label."""

    value: str
    label: str
    large: bool = False


@dataclass(frozen=True)
class Figure(Part):
    """A figure with its caption. `name` is its id."""

    name: str
    svg: Content
    caption: Content


@dataclass(frozen=True)
class Swatch(Part):
    """A label with a dot in the colour of the n-th series, which ties a row of a table to a line of a figure."""

    label: str
    series: int


@dataclass(frozen=True)
class Table(Part):
    """A table whose first column names its rows. Rows listed in `best` are bold.

    `kind` is its look: "numbers" keeps cells on one line, "text" wraps long cells, "settings" is two columns of text.
    """

    heads: Sequence[Content]
    rows: Sequence[Sequence[Content]]
    caption: Content = ""
    best: Sequence[int] = ()
    kind: str = "numbers"


@dataclass(frozen=True)
class Cell:
    """A cell of a confusion matrix: its text, its share of the row (0 to 1), and whether it is on the diagonal."""

    text: str
    share: float
    hit: bool


@dataclass(frozen=True)
class Confusion(Part):
    """A confusion matrix: for each true class its name, its recall (text and share), its size and its cells."""

    caption: Content
    classes: Sequence[str]
    rows: Sequence[tuple[str, Cell, str, Sequence[Cell]]]
    compact: bool = False


@dataclass(frozen=True)
class Verdicts(Part):
    """A list of claims: whether each holds, the claim, and the measurement."""

    items: Sequence[tuple[bool, str, str]]


@dataclass(frozen=True)
class Section(Part):
    """A part of the page with a heading, an id to link to, and parts or further sections."""

    name: str
    title: str
    parts: Sequence[Part]
    level: int = 2


@dataclass(frozen=True)
class Page:
    """A page. `intro` is shown after the cards and before the table of contents."""

    title: str
    sections: Sequence[Section]
    eyebrow: str = ""
    lead: Content = ""
    cards: Sequence[Card] = ()
    intro: Sequence[Part] = ()
    footer: Content = ""


def render(page: Page) -> str:
    """The page as self-contained HTML without scripts."""
    return _environment().get_template("page.html.jinja").render(page=page, light=LIGHT, dark=DARK, version=__version__)


def write(page: Page, out: Path) -> Path:
    """Write the page to a file atomically."""
    write_atomically(out, render(page).encode())
    return out


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("s7.publishing"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
