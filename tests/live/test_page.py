"""The page, as text and in Chromium."""

import re

import pytest

pytest.importorskip("websockets", reason="the package websockets is not installed")

from s7.live.limits import Limits
from s7.live.page import page, policy

from .chromium import PROGRAM, browser
from .conftest import running

# Whether a canvas has pixels that are not grey.
IS_COLOURED = """(id) => {
  const canvas = document.getElementById(id);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  for (let at = 0; at < data.length; at += 4) if (Math.abs(data[at] - data[at + 2]) > 60) return true;
  return false;
}"""


def test_the_page_is_one_file_without_external_resources():
    text = page()
    assert "/* script */" not in text
    assert not re.search(r'(?:src|href)="(?!data:)', text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "unsafe" not in policy()


def test_every_element_that_the_script_uses_exists():
    text = page()
    used = set(re.findall(r'\$\("([\w-]+)"\)', text)) | set(re.findall(r'getElementById\("([\w-]+)"\)', text))
    assert used <= set(re.findall(r'id="([\w-]+)"', text))


@pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")
def test_a_recording_plays_in_chromium(served, recording, tmp_path):
    with running(served, Limits(lag=60), file=recording, speed=0.25) as server, browser(tmp_path) as tab:
        tab.look(width=400, height=900)
        tab.open(server.page)
        tab.wait("document.getElementById('status-text')?.textContent === 'live'")
        assert tab.evaluate("document.getElementById('model').textContent") == "tiny"
        tab.wait("document.getElementById('recording').textContent === 'waving.txt, finished'")
        # The scores changed while it played, and the last ones are shown.
        assert tab.evaluate("new Set(state.charts.scores.points.map(([, , scores]) => scores[0])).size") >= 3
        shown = tab.evaluate("[...document.querySelectorAll('#bars .value')].map((cell) => cell.textContent)")
        assert sum(float(text.removesuffix(" %")) for text in shown) == pytest.approx(100, abs=0.2)
        count, dropped = tab.evaluate("['count', 'dropped'].map((id) => document.getElementById(id).textContent)")
        assert sum(int(text.replace(",", "")) for text in (count, dropped)) == 2000
        assert tab.evaluate(f"['events', 'score-chart', 'open-chart'].every({IS_COLOURED})")
        # Controls: replay, pause, speed, and a connection that is lost.
        tab.evaluate("document.getElementById('replay').click()")
        tab.wait("document.getElementById('play').textContent === 'Pause'")
        tab.evaluate("document.getElementById('play').click()")
        tab.wait("document.getElementById('play').textContent === 'Play'")
        tab.evaluate("{ const s = document.getElementById('speed'); s.value = ''; s.onchange({target: s}) }")
        tab.evaluate("document.getElementById('play').click()")
        tab.wait("document.getElementById('recording').textContent.endsWith('finished')")
        session = tab.evaluate("sessionStorage.getItem('session')")
        tab.evaluate("(state.socket.close(4999), state.socket.onclose({code: 1006, reason: ''}))")
        tab.wait("document.getElementById('status-text').textContent === 'live' && state.socket.readyState === 1")
        assert tab.evaluate("sessionStorage.getItem('session')") == session
        # An upload through the page.
        tab.evaluate("upload(new File(['0 1 2 1\\n500 3 4 0\\n900 3 4 1\\n'], 'three.txt'))")
        tab.wait("document.getElementById('recording').textContent === 'three.txt, finished'")
        assert tab.evaluate("document.getElementById('count').textContent") == "3"
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert tab.complaints == []
