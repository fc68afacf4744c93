"""The page of `s7 verify`: each check with its verdict, its figure, and its findings."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from s7.publishing import pages, plots
from s7.publishing.markdown import Document
from s7.publishing.pages import Card, Page, Paragraph, Part, Section, Verdicts
from s7.theory.check import Check, headline
from s7.theory.figures import FIGURES
from s7.version import __version__

TITLE = "The theory, checked numerically"
ABOUT = (
    "Numerical checks can refute a theorem but not prove it. Each point below is an inequality or an identity that "
    "could have failed, with the constants of the proofs written out, measured on the code that models are made of. "
    "That it holds means that the search found no counterexample. Where a printed statement needs a condition that "
    "the paper does not state, the counterexample is shown."
)


def write(checks: Sequence[Check], out: Path, command: str) -> Path:
    """Write the page as HTML, or as Markdown with the figures in a folder next to it if its name ends in .md."""
    if out.suffix != ".md":
        return pages.write(page(checks, command), out)
    figures = {}
    for check in checks:
        path = out.parent / "figures" / f"{out.stem}-{check.name}.svg"
        figures[check.name] = plots.save(path, FIGURES[check.name], check.curves)
    return markdown(checks, command, figures).write(out)


def page(checks: Sequence[Check], command: str) -> Page:
    """The page for a browser."""
    return Page(
        TITLE,
        [_section(check) for check in checks],
        lead=headline(checks),
        cards=[Card("holds" if check.passed else "fails", check.title) for check in checks],
        intro=[Paragraph(ABOUT)],
        footer=Markup("Made by s7 {}: <code>{}</code>").format(__version__, command),
    )


def _section(check: Check) -> Section:
    parts: list[Part] = [
        Paragraph(check.statement),
        Verdicts([(point.holds, point.claim, point.measured) for point in check.points]),
        pages.Figure(f"{check.name}-figure", plots.draw(check.name, FIGURES[check.name], check.curves), check.caption),
        *(Paragraph(Markup("<b>Finding.</b> {}").format(finding)) for finding in check.findings),
        Paragraph(Markup("<b>Limits.</b> {}").format(check.limits), note=True),
    ]
    return Section(check.name, check.title, parts)


def markdown(checks: Sequence[Check], command: str, figures: Mapping[str, Path]) -> Document:
    """The same page as Markdown. It has lists instead of tables because the claims are full of vertical bars."""
    document = Document(TITLE)
    document.made_by(command)
    document.paragraph(headline(checks))
    document.paragraph(ABOUT)
    for check in checks:
        document.heading(check.title)
        document.paragraph(check.statement)
        document.list(
            f"**{'holds' if p.holds else 'fails'}**: {p.claim}. Measured: {p.measured}." for p in check.points
        )
        document.figure(check.title, figures[check.name])
        document.paragraph(check.caption)
        if check.findings:
            document.paragraph("Findings:")
            document.list(check.findings)
        document.paragraph(f"Limits: {check.limits}")
    return document
