"""HTML pages: text is escaped, parts are rendered, figures take the colours of the page."""

import xml.etree.ElementTree as ElementTree

from markupsafe import Markup
from matplotlib.figure import Figure

from s7.publishing import pages, plots
from s7.publishing.colours import DARK, LIGHT, ROLES
from s7.publishing.pages import Card, Code, Page, Paragraph, Section, Swatch, Table, Verdicts


def line(values) -> Figure:
    """A line in the first colour."""
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot(values, color=plots.COLOURS[0], label="<&>")
    figure.legend()
    return figure


def test_text_is_escaped_and_markup_is_not():
    parts = [
        Paragraph("<b>"),
        Paragraph(Markup("<i>{}</i>").format("<u>")),
        Code("a && b"),
        Verdicts([(True, "<", ">")]),
    ]
    parts.append(Table(["<th>"], [[Swatch("<x>", 2), "<y>"]]))
    html = pages.render(Page("<title>", [Section("one", "<One>", parts)], lead="<lead>", cards=[Card("<v>", "<l>")]))
    for raw in ("<b><", "<u>", "a && b", "<x>", "<y>", "<One>", "<lead>", "<v>", "<th>"):
        assert raw not in html
    for escaped in ("<p>&lt;b&gt;</p>", "<i>&lt;u&gt;</i>", "a &amp;&amp; b", "var(--c3)", "<td>&lt;y&gt;</td>"):
        assert escaped in html


def test_long_cells_may_wrap():
    """The table of differing settings was cut off at the right."""
    html = pages.render(Page("t", [Section("s", "s", [Table([], [["model.stages", "short", "a" * 80]])])]))
    assert f'<td>short</td><td class="long">{"a" * 80}</td>' in html
    assert "td.long { white-space: normal;" in html


def test_contents_link_to_sections():
    html = pages.render(Page("t", [Section("a", "A", []), Section("b", "B", [])]))
    assert '<a href="#a">A</a>' in html
    assert '<section id="b">' in html


def test_both_themes_have_every_colour():
    assert set(LIGHT) == set(DARK)
    assert set(ROLES) < set(LIGHT)


def test_figures_in_a_page_use_its_colours():
    svg = plots.draw("name", line, [1, 2, 3])
    assert "var(--c1)" in svg
    assert "#0101" not in svg
    assert f"<div>{svg}</div>" == Markup("<div>{}</div>").format(svg)


def test_figures_in_files_stand_alone(tmp_path):
    path = plots.save(tmp_path / "figures" / "line.svg", line, [1, 2, 3])
    text = path.read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert LIGHT["c1"] in text
    assert "var(" not in text
    before = path.read_bytes()
    assert plots.save(path, line, [1, 2, 3]).read_bytes() == before


def test_long_labels_are_broken():
    assert plots.wrapped("position of the torso along the walking direction", 16).count("\n") == 3
    assert plots.wrapped("s7") == "s7"
