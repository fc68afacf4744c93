"""Studies whose trials are run by a stub instead of a training."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from s7.study import Runner, Study, StudyConfig, Variant

RESULT = {
    "metric": "mse",
    "better": "min",
    "baselines": {"persistence": {"mse": 4.0}},
    "parameters": 1234,
    "steps": 30,
    "steps_per_epoch": 20,
    "seconds": 90.0,
    "steps_per_second": 0.5,
    "peak_memory_mb": 300,
    "gaps": "used",
}

# A substitute for s7.study.trial. The model determines the outcome: lstm fails, gru is killed, cfc exits, mamba waits
# to be stopped; s7 and s5 finish.
PROGRAM = """
import json, os, pathlib, signal, sys
spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
folder, model, seed = pathlib.Path(spec["folder"]), spec["model"], spec["seed"]
with open(folder / "calls", "a") as file:
    file.write("x")
def save(*_):
    (folder / "saved").touch()
    sys.exit(130)
signal.signal(signal.SIGTERM, save)
def send(event, **values):
    print(json.dumps({"event": event} | values), flush=True)
send("started", resumed=False)
send("epoch", epoch=1, epochs=2, valid={"mse": 2.0}, best=True)
print("not an event", flush=True)
if model == "lstm":
    send("failed", message="something went wrong")
    sys.exit(1)
if model == "gru":
    print("a message that does not matter", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
if model == "cfc":
    sys.exit("Fatal: the last line of the log")
if model == "mamba":
    signal.pause()
result = json.loads(os.environ["RESULT"])
score = {"s7": 1.0, "s5": 2.0}[model] + seed / 10
result |= {"valid": {"mse": score}, "test": {"mse": score + 1}, "gaps": "not used" if model == "s5" else "used"}
(folder / "config.toml").write_text("format = 2")
(folder / "result.json").write_text(json.dumps(result))
send("finished", valid=result["valid"], test=result["test"])
"""


@pytest.fixture
def make_study(tmp_path, monkeypatch) -> Callable[..., Study]:
    """Makes a study of walker2d in a temporary folder."""
    monkeypatch.setenv("RESULT", json.dumps(RESULT))

    def make(*models: str, seeds: int = 2, **config) -> Study:
        return Study(StudyConfig("walker2d", **config), tuple(map(Variant, models)), seeds, tmp_path / "out")

    return make


@pytest.fixture
def run() -> Callable[..., dict[str, str]]:
    """Runs a study with the stub and returns the failures."""

    def run(study: Study, **options) -> dict[str, str]:
        study.open()
        return Runner(study, program=(sys.executable, "-c", PROGRAM), **options).run()

    return run


@pytest.fixture
def calls() -> Callable[[Study, str], int]:
    """How often the trial in a folder was started."""
    return lambda study, name: len((Path(study.out) / name / "calls").read_text())
