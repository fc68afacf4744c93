"""The Python blocks of every page run from top to bottom and print what is expected."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.programs import ROOT

FOLDER = ROOT / "docs"
PAGES = {path.relative_to(FOLDER).with_suffix("").as_posix(): path.read_text() for path in FOLDER.rglob("*.md")}
BLOCKS = {page: re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE) for page, text in PAGES.items()}
# Pages whose blocks another test runs: with a server, and by the commands.
ELSEWHERE = {"live": "tests/live/test_server.py", "your-own-task": "tests/tasks/test_tasks.py"}

MODEL = """
import jax, numpy as np, s7
model = s7.S7Model(
    encoder=s7.TokenEncoder(9), head=s7.Mean(2), width=4, state=2, depth=1, time_unit=1.0, key=jax.random.key(0)
)
"""
# What a page takes for granted.
BEFORE = {
    "events": """
import s7
for name in ("recording.raw", "long.raw"):
    s7.write_events(name, s7.Events([1, 2, 3], [4, 5, 6], [7, 8, 9], [0, 1, 1], (640, 480)))
from pathlib import Path
first_bytes, more_bytes = (data := Path("recording.raw").read_bytes())[:60], data[60:]
Path("a.mine").write_bytes(b"MINE" + bytes(12))
""",
    "onnx": MODEL
    + """
import os
from s7.export.onnx import write_onnx
os.mkdir("exported")
write_onnx(model, "exported/model.onnx")
events = [(3, 0.5), (1, 0.25)]
""",
    "edge": MODEL
    + """
from pathlib import Path
from s7.export.stablehlo import write_stablehlo
write_stablehlo(model, Path("."))
event, gap, state = 3, 0.5, jax.tree.leaves(model.init_state())
""",
    # The trials themselves take minutes: tests/study runs some.
    "comparing": """
import s7.study
class Runner(s7.study.Runner):
    def run(self):
        return {trial.folder.path.name: "not run" for trial in self.study.trials()}
s7.study.Runner = Runner
""",
}
AFTER = {
    "events": '\nassert len(s7.read_events("a.mine")) == 1\n',
    "onnx": "\nassert np.allclose(answer, model(np.array([3, 1]), np.array([0.5, 0.25])), atol=1e-5)\n",
    "edge": "\nassert np.allclose(answer, model.step(3, model.init_state(), 0.5)[0], atol=1e-5)\n",
}
PRINTED = {
    "index": ["True", "(3,)", "(2,)"],
    "estimators": ["True", "(20,)"],
    "training": ["['accuracy', 'loss']"],
    "events": ["Events(3 events, 640×480 pixels, t = 7 to 9 µs)"],
    "irregular-sensors": ["40 (1,)", "2.0", "True"],
    "event-cameras": [
        "Events(200 events, 16×16 pixels, t = *",
        "(200,) True",
        "(2,)",
        "('left', 'right') (2,)",
    ],
    "long-text": ["(1,)", "True"],
    "equinox": ["(20, 1) (8,)", "True", "True"],
    "sharing": ["(10,)", "favourable unfavourable"],
    "streaming": ["True", "*negative*", "10", "20 20"],
    "questions": [*("(2, 2)", "True", "(4,)", "True", "True", "True", "True", "True", "True", "(6, 2)", "True")],
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """What each page prints, and its error if it has one."""
    programs = {
        page: "\n".join([BEFORE.get(page, ""), *blocks, AFTER.get(page, "")])
        for page, blocks in BLOCKS.items()
        if blocks and page not in ELSEWHERE
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_ENABLE")}
    command = [sys.executable, "-m", "tests.docs.pages", str(tmp_path_factory.mktemp("pages"))]
    done = subprocess.run(
        command, input=json.dumps(programs), capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("page", sorted(page for page, blocks in BLOCKS.items() if blocks and page not in ELSEWHERE))
def test_the_blocks_of_a_page_run(outcome, page):
    assert not outcome[page]["error"], outcome[page]["error"]
    if page in PRINTED:
        pattern = "\n".join(PRINTED[page])
        wanted = re.escape(pattern).replace(r"\*", ".*")
        assert re.fullmatch(wanted, outcome[page]["printed"].strip()), outcome[page]["printed"]


def test_blocks_have_a_language():
    """A block without a language would not be run."""
    languages = {
        page: set(re.findall(r"^```(\w*)\n.+?^```$", text, re.DOTALL | re.MULTILINE)) for page, text in PAGES.items()
    }
    assert {page for page, found in languages.items() if not found <= {"python", "c", "cpp", "yaml"}} == set()
