"""docs/events.md: its table lists all formats."""

from s7.events.formats import EventFormat
from tests.programs import ROOT


def test_the_table_lists_all_formats():
    page = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| `")]
    formats = EventFormat.registry.builtin
    assert {row[0].strip("`") for row in rows} == set(formats)
    for title, _, _, written, _, needs in rows:
        name = title.strip("`")
        assert written.split(", ") == (list(formats[name].written_as) or [""])
        assert needs == (f"`s7-ssm[{formats[name].extra}]`" if formats[name].extra else "")
