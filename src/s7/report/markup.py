"""The page's building blocks: what is read from files is escaped here, and nowhere else."""

import html
from collections.abc import Sequence


class Safe(str):
    """A string that is HTML already."""

    __slots__ = ()


def text(value: object) -> Safe:
    """A value as HTML: escaped, unless it is HTML already."""
    return value if isinstance(value, Safe) else Safe(html.escape(str(value)))


def tag(name: str, *children: object, **attributes: object) -> Safe:
    """An element. `class_` is class, and `aria_label` is aria-label."""
    listed = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Safe(f"<{name}{listed}>{''.join(map(text, children))}</{name}>")


def paragraph(*parts: object, class_: str | None = None) -> Safe:
    """Text."""
    return tag("p", *parts, class_=class_)


def section(name: str, title: str, *parts: object, level: int = 2) -> Safe:
    """A part of the page that can be linked to."""
    return tag("section", tag(f"h{level}", title), *(Safe(f"\n{text(part)}") for part in parts), id=name)


def figure(svg: Safe, name: str, caption: object) -> Safe:
    """A picture with its caption, which also stands for it where it cannot be seen."""
    labelled = Safe(svg.replace("<svg ", f'<svg role="img" aria-labelledby="{name}-caption" ', 1))
    box = tag("div", labelled, class_="wide", tabindex="0")
    return tag("figure", box, tag("figcaption", caption, id=f"{name}-caption"))


def table(
    heads: Sequence[object],
    rows: Sequence[Sequence[object]],
    *,
    caption: object = "",
    class_: str | None = None,
    marked: Sequence[int] = (),
) -> Safe:
    """A table whose first column names its rows; `marked` rows are set in bold."""
    head = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in heads))) if heads else Safe()
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(tag("td", cell) for cell in row[1:]),
            class_="best" if n in marked else None,
        )
        for n, row in enumerate(rows)
    ]
    above = tag("caption", caption) if caption else Safe()
    whole = tag("table", above, head, tag("tbody", *(Safe(f"\n{row}") for row in body)), class_=class_)
    return tag("div", whole, class_="wide", tabindex="0")


def dot(variable: str) -> Safe:
    """A spot of colour, to tie a row to a line in a figure."""
    return Safe(f'<span class="dot" style="background: var({variable})"></span>')
