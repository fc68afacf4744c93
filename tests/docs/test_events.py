"""docs/events.md: its examples run, and its table lists all formats."""

import re

import s7
from s7.events.formats import EventFormat
from tests.programs import ROOT, run_program

PAGE = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
READ, STREAM, OWN = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_run(tmp_path):
    events = s7.Events([1, 2, 3], [4, 5, 6], [7, 8, 9], [0, 1, 1], (640, 480))
    for name in ("recording.raw", "long.raw"):
        s7.write_events(tmp_path / name, events)
    start = 'first_bytes, more_bytes = (data := open("recording.raw", "rb").read())[:60], data[60:]\n'
    (tmp_path / "a.mine").write_bytes(b"MINE" + bytes(12))
    last = '\nassert len(s7.read_events("a.mine")) == 1\n'
    printed = run_program(READ + start + STREAM + OWN + last, tmp_path)
    assert printed.strip() == repr(events)


def test_the_table_lists_all_formats():
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| `")]
    formats = EventFormat.registry.builtin
    assert {row[0].strip("`") for row in rows} == set(formats)
    for title, _, _, written, _, needs in rows:
        name = title.strip("`")
        assert written.split(", ") == (list(formats[name].written_as) or [""])
        assert needs == (f"`s7-ssm[{formats[name].extra}]`" if formats[name].extra else "")
