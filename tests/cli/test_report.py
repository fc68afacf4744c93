"""`s7 report`."""

import pytest

from .processes import run


def test_a_report_is_one_html_page(finished):
    pytest.importorskip("matplotlib")
    status, out, err = run("report", finished[0])
    assert status == 0, err
    assert out.strip() == f"report: {finished[0] / 'report.html'}"
    assert "<svg" in (finished[0] / "report.html").read_text()
