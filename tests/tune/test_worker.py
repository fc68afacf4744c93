"""Workers: trials, pruning, failures, interrupts, and workers that are killed."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from s7.job import Job
from s7.presets.user_file import PresetFile
from s7.tune.search import Search
from s7.tune.summary import Summary
from s7.tune.worker import Listener

from .conftest import config, read_json

# A worker in a process of its own: journal folder or storage, and name.
WORKER = """
import sys
from pathlib import Path
from s7.tune.search import Search
from s7.tune.worker import Worker
from tests.tune.conftest import STUB, config
out, url, name = Path(sys.argv[1]), sys.argv[2] or None, sys.argv[3] or None
Worker(Search.open(config(), out, url, name), program=STUB, trials=3).run()
"""


def test_a_search_finds_better_settings_than_the_preset(open_search, work, tmp_path):
    search = open_search()
    summary = work(search, trials=12)
    assert [trial.number for trial in summary.trials] == list(range(12))
    assert summary.trials[0].preset
    assert summary.trials[0].values == {"train.learning_rate": 0.03}
    assert summary.trials[0].rungs == {"0.25": 2 * summary.trials[0].value, "0.5": 2 * summary.trials[0].value}
    assert summary.best.value < summary.preset.value
    assert {trial.outcome for trial in summary.trials} == {"finished", "pruned"}
    assert all("not among the better half" in trial.reason for trial in summary.trials if trial.outcome == "pruned")
    assert "learning_rate" in summary.text()
    # The files say the same.
    assert Summary.read(search.out) == summary
    assert read_json(search.out / "tune.json")["best"] == summary.best.number
    preset = PresetFile.read(search.out / "best.toml")
    assert (preset.task, preset.model, preset.preset) == ("fitzhugh-nagumo", "s7", "ours")
    assert preset.settings["train"]["learning_rate"] == pytest.approx(summary.best.values["train.learning_rate"], 1e-3)
    assert preset.settings["train"]["epochs"] == Job("fitzhugh-nagumo").training().epochs  # not those of a trial
    # The same seed gives the same trials.
    again = Search.open(config(), tmp_path / "again")
    assert [one.values for one in work(again, trials=3).trials] == [one.values for one in summary.trials[:3]]


def test_trials_that_diverge_or_fail_are_recorded_with_their_reason(open_search, work):
    search = open_search(space="train.learning_rate=1e-6:10:log")
    summary = work(search, trials=9)
    reasons = {trial.outcome: trial.reason for trial in summary.trials}
    assert reasons["diverged"] == "the loss is nan"
    assert reasons["failed"] == "out of memory"
    assert search.counted() == len(summary.trials) == 9


def test_a_worker_gives_up_if_every_trial_fails(open_search, work):
    search = open_search(space="train.learning_rate=1e-6:1e-5:log")
    with pytest.raises(OSError, match=r"5 trials in a row failed; the last one: out of memory \(see .*log.txt\)"):
        work(search)
    assert search.counted() == 5


def test_an_interrupted_trial_is_resumed_by_the_same_command(open_search, work, calls, tmp_path):
    class Interrupt(Listener):
        def on_event(self, candidate, event):
            if event.name == "rung":
                os.kill(os.getpid(), signal.SIGTERM)

    hold = tmp_path / "out" / "hold"
    search = open_search()
    hold.touch()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            work(search, trials=1, listener=Interrupt())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [trial.outcome for trial in Summary.read(search.out).trials] == ["requeued"]
    hold.unlink()
    summary = work(open_search(), trials=1)
    assert [trial.outcome for trial in summary.trials] == ["requeued", "finished"]
    assert summary.trials[1].rungs.keys() == {"0.25", "0.5"}
    assert summary.preset is not None
    assert calls(search, "0000") == "xr"


def test_a_trial_is_put_back_when_time_is_over(open_search, work, calls, tmp_path):
    search = open_search()
    search.allow(minutes=0.5 / 60)
    (tmp_path / "out" / "hold").touch()
    summary = work(search)
    assert [trial.outcome for trial in summary.trials] == ["requeued"]
    assert summary.best is None
    assert "none has a result yet" in summary.text()
    assert search.spending().left == 0
    # The time is that of all workers, so the same command does not continue; a larger one does.
    joined = open_search()
    assert work(joined) == summary
    (tmp_path / "out" / "hold").unlink()
    joined.allow(minutes=1)
    assert [trial.outcome for trial in work(joined, trials=1).trials] == ["requeued", "finished"]
    assert calls(search, "0000") == "xr"
    assert 59.5 - 30 < search.spending().left < 59.5


def test_a_killed_worker(tmp_path, work, storage_url, calls, request):
    """One of two workers is killed; the other one resumes its trial."""
    out, name = tmp_path / "out", "killed"
    out.mkdir()
    (out / "hold").touch()
    arguments = [sys.executable, "-c", WORKER, str(out), storage_url or "", name if storage_url else ""]
    with subprocess.Popen(arguments) as other:
        while not (out / "trials" / "0000" / "seen").exists():
            assert other.poll() is None
            time.sleep(0.05)
        search = Search.open(config(), out, storage_url, name if storage_url else None)
        request.addfinalizer(search.close)
        other.kill()
    threading.Timer(0.3, (out / "hold").unlink).start()
    summary = work(search, trials=3)
    assert [trial.outcome for trial in summary.trials] == ["requeued", *["finished"] * 3]
    assert summary.trials[1].folder == "trials/0000"
    assert calls(search, "0000") == "xr"


@pytest.fixture(params=["journal", "postgresql"])
def storage_url(request) -> str | None:
    return None if request.param == "journal" else request.getfixturevalue("postgresql")
