"""The page: each point of the theory with its verdict, its picture, and what was found on the way."""

import re
from collections.abc import Sequence
from pathlib import Path

from s7 import __version__
from s7.publishing.text import count
from s7.report.headline import card
from s7.report.markup import Safe, figure, paragraph, section, tag
from s7.report.style import CSS
from s7.storage import write_atomically
from s7.theory.check import Check
from s7.theory.pictures import picture

ABOUT = """Numbers can refute a theorem and cannot prove one. Each point is an inequality or an identity that
could have failed, with the constants of the proofs written out, measured on the code that models are made of.
That it holds means that no counterexample was found where one was looked for. Where a printed statement needs
words that the paper does not have, the counterexample is shown."""
_VERDICTS = """
ul.points { list-style: none; padding: 0; max-width: 44rem; } .points li { margin: .6rem 0; padding-left: 4rem; }
.points b { float: left; margin-left: -4rem; font-weight: 600; color: var(--c3); } .points b.fails { color: var(--c5); }
.points span { color: var(--soft); font-size: .95rem; display: block; }
"""


def write(checks: Sequence[Check], out: Path, command: str) -> list[Path]:
    """The page as HTML, or as Markdown with its pictures beside it where its name ends in .md; the page is last."""
    if out.suffix != ".md":
        write_atomically(out, html(checks, command).encode())
        return [out]
    pictures = {}
    for check in checks:
        path = out.parent / "figures" / f"{out.stem}-{check.name}.svg"
        write_atomically(path, standalone(picture(check)))
        pictures[check.name] = path
    write_atomically(out, markdown(checks, command, pictures).encode())
    return [*pictures.values(), out]


def html(checks: Sequence[Check], command: str) -> str:
    """The page for a browser."""
    cards = [card("holds" if check.passed else "fails", check.title) for check in checks]
    links = [tag("li", tag("a", check.title, href=f"#{check.name}")) for check in checks]
    body = "\n".join(_section(check) for check in checks)
    footer = tag("footer", paragraph(f"Made by s7 {__version__}: ", tag("code", command)))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The theory, numerically – s7</title>
<style>{CSS}{_VERDICTS}</style>
</head>
<body>
<main>
<header>{tag("h1", "The theory, numerically")}{paragraph(headline(checks), class_="lead")}</header>
{tag("div", *cards, class_="cards")}
{paragraph(ABOUT)}
{tag("nav", tag("ul", *links), aria_label="Contents")}
{body}
{footer}
</main>
</body>
</html>
"""


def headline(checks: Sequence[Check]) -> str:
    """How many hold."""
    points = [point for check in checks for point in check.points]
    holding = sum(point.holds for point in points)
    return f"{holding} of {count(len(points), 'point')} hold, in {count(len(checks), 'check')}."


def _section(check: Check) -> Safe:
    points = [
        tag("li", _verdict(point.holds), f"{point.claim}.", tag("span", f"{point.measured}.")) for point in check.points
    ]
    parts = [paragraph(check.statement), tag("ul", *points, class_="points")]
    parts.append(figure(picture(check), check.name, check.caption))
    parts += [paragraph(tag("b", "Found. "), finding) for finding in check.findings]
    parts.append(paragraph(tag("b", "What this cannot show. "), check.limits, class_="note"))
    return section(check.name, check.title, *parts)


def _verdict(holds: bool) -> Safe:
    return tag("b", "holds") if holds else tag("b", "fails", class_="fails")


def markdown(checks: Sequence[Check], command: str, pictures: dict[str, Path]) -> str:
    """The same page as Markdown. Lists and no tables, for the claims are full of vertical bars."""
    lines = [
        "# The theory, numerically",
        "",
        f"    {command}",
        "",
        f"makes this page. {headline(checks)}",
        "",
        _one_line(ABOUT),
    ]
    for check in checks:
        lines += ["", f"## {check.title}", "", _one_line(check.statement), ""]
        lines += [f"- **{'holds' if p.holds else 'fails'}**: {p.claim}. Measured: {p.measured}." for p in check.points]
        lines += ["", f"![{check.title}](figures/{pictures[check.name].name})", "", _one_line(check.caption)]
        lines += ["", "Found:", "", *(f"- {finding}" for finding in check.findings)]
        lines += ["", f"What this cannot show: {_one_line(check.limits)}"]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    # A line that begins with the minus of a formula would be a list.
    return " ".join(text.split())


def standalone(svg: Safe) -> bytes:
    """A picture of the page as a file of its own: the light colours, a size and a ground."""
    light = dict(reversed(re.findall(r"(--\w+): (#\w+)", CSS)))
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert box is not None, "matplotlib writes one"
    opening, rest = re.sub(r"var\((--\w+)\)", lambda found: light[found[1]], svg).split(">", 1)
    size = f'xmlns="http://www.w3.org/2000/svg" width="{box[1]}pt" height="{box[2]}pt"'
    ground = f'<rect width="100%" height="100%" fill="{light["--card"]}"/>'
    return f"{opening.replace('<svg', f'<svg {size}', 1)}>{ground}{rest}\n".encode()
