"""The process of a trial: its events, failures, and stopping."""

import io
import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from s7.records import RunRecord
from s7.study.messages import EpochDone, Failed, Finished, Rung, Started, Stopped, TrialSpec, read_event
from s7.study.trial import Events, run
from tests.rollouts import write_rollouts

SMALL = {
    "model": {"width": 4, "state": 3, "depth": 1, "form": {"rank": 2}},
    "data": {"copies": 1},
    "train": {"batch_size": 16, "epochs": 2},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder with a few short rollouts of walker2d."""
    return write_rollouts(tmp_path_factory.mktemp("data"))


@pytest.fixture
def spec(data, tmp_path):
    def make(**changes) -> TrialSpec:
        defaults: dict[str, Any] = {"settings": SMALL, "data": str(data), "seed": 3}
        return TrialSpec("walker2d", str(tmp_path / "run"), **(defaults | changes))

    return make


def trial_events(spec: TrialSpec) -> tuple[int, list]:
    stream = io.StringIO()
    status = run(spec, Events(stream))
    return status, [read_event(line) for line in stream.getvalue().splitlines()]


def test_a_trial_reports_its_epochs_and_result(spec, tmp_path):
    status, events = trial_events(spec(variant="small", rungs=(0.5,)))
    assert status == 0
    started, rung, first, second, finished = events
    assert started == Started(resumed=False)
    assert isinstance(first, EpochDone)
    assert (first.epoch, first.epochs, second.epoch) == (1, 2, 2)
    record = RunRecord.read(tmp_path / "run")
    assert isinstance(rung, Rung)
    assert (rung.fraction, rung.step, rung.better) == (0.5, record.history[0].step, "min")
    assert rung.value == first.valid[rung.metric]
    assert second.valid == record.history[1].valid
    assert finished == Finished(record.result.valid, record.result.test)
    assert (record.variant, record.seed) == ("small", 3)


def test_events_are_the_only_output_of_the_process(spec, tmp_path):
    spec().write(tmp_path / "trial.json")
    arguments = [sys.executable, "-W", "error", "-m", "s7.study.trial", str(tmp_path / "trial.json")]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    events = [read_event(line) for line in done.stdout.splitlines()]
    assert [type(event) for event in events] == [Started, EpochDone, EpochDone, Finished]


def test_a_stopped_trial_saves_and_is_resumed(spec, tmp_path):
    settings = SMALL | {"train": {"batch_size": 16, "epochs": 30}}
    spec(settings=settings).write(tmp_path / "trial.json")
    arguments = [sys.executable, "-m", "s7.study.trial", str(tmp_path / "trial.json")]
    events = []
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            events.append(read_event(line))
            if isinstance(events[-1], EpochDone) and events[-1].epoch == 1:
                process.send_signal(signal.SIGTERM)
    assert process.returncode == 130
    assert events[-1] == Stopped()
    for changes, message in (
        ({"seed": 4}, "holds a run with seed 3, not 4; choose another folder"),
        ({"settings": SMALL}, "holds a run with train.epochs=30; choose another folder"),
    ):
        status, (failed,) = trial_events(spec(**({"settings": settings} | changes)))
        assert status == 1
        assert message in failed.message
    status, events = trial_events(spec(settings=settings))
    assert (status, events[0]) == (0, Started(resumed=True))
    assert events[1].epoch > 1
    assert len(RunRecord.read(tmp_path / "run").history) == 30


def test_a_trial_ends_when_its_study_is_gone(spec, capsys):
    class Closed(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    assert run(spec(), Events(Closed())) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "lstmm"}, "no model 'lstmm'; did you mean 'lstm'?"),
        ({"settings": {"train": {"epoch": 3}}}, "did you mean 'epochs'?"),
        ({"data": "/nowhere"}, "is not in /nowhere"),
    ],
)
def test_a_failure_is_one_line(spec, changes, message, monkeypatch, capsys):
    monkeypatch.delenv("S7_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere")
    status, events = trial_events(spec(**changes))
    assert status == 1
    assert isinstance(events[-1], Failed)
    assert message in events[-1].message
    assert "\n" not in events[-1].message
    assert "Traceback" in capsys.readouterr().err  # in the log


def test_specifications_and_events_are_read_as_written(spec, tmp_path):
    spec(minutes=1.5, rungs=(0.5,)).write(tmp_path / "trial.json")
    assert TrialSpec.read(tmp_path / "trial.json") == spec(minutes=1.5, rungs=(0.5,))
    (tmp_path / "trial.json").write_text(json.dumps({"tusk": "walker2d"}))
    with pytest.raises(ValueError, match=r"trial.json: not the specification of a trial"):
        TrialSpec.read(tmp_path / "trial.json")
    rung = Rung(0.5, 3, 1.0, "mse", 2.0, "min")
    for event in (Started(True), EpochDone(1, 2, {"mse": 1.0}, True), rung, Finished({}, {}), Stopped(), Failed("x")):
        assert read_event(event.to_line()) == event
        assert read_event(event.to_line()[:-3]) is None
    for line in ("", "3", "{}", '{"event": "other"}', '{"event": "failed", "reason": "x"}', "null"):
        assert read_event(line) is None
