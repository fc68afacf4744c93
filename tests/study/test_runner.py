"""Running trials: failures, interrupts, resuming, cores."""

import os
import signal

import pytest

from s7.cli.main import main
from s7.study import Runner, Summary
from s7.study.messages import TrialSpec
from s7.study.process import SPEC
from s7.study.runner import Listener


class Recorder(Listener):
    def __init__(self):
        self.heard = []

    def on_epoch(self, trial, event):
        self.heard.append((trial.variant.name, event.epoch, event.epochs, event.valid))

    def on_end(self, trial, failure):
        self.heard.append((trial.variant.name, failure))


def test_a_failed_trial_does_not_stop_the_others(make_study, run):
    recorder = Recorder()
    study = make_study("lstm", "gru", "cfc", "s7", seeds=1)
    failures = run(study, listener=recorder)
    reasons = {"lstm": "something went wrong", "gru": "killed by SIGKILL", "cfc": "Fatal: the last line of the log"}
    assert failures == {f"{model}-0": reason for model, reason in reasons.items()}
    expected = []
    for model, failure in (*reasons.items(), ("s7", None)):
        expected += [(model, 1, 2, {"mse": 2.0}), (model, failure)]
    assert recorder.heard == expected
    summary = Summary.of(study, failures)
    assert [score.name for score in summary.ranked()] == ["s7", "lstm", "gru", "cfc"]
    assert "no result" in summary.table()
    assert "lstm: seed 0: something went wrong" in summary.table()


def test_an_interrupt_lets_the_running_trial_save_and_starts_no_other(make_study, run, request):
    # A shell that runs the tests in the background may have set SIGINT to be ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    class Interrupt(Listener):
        def on_epoch(self, trial, event):
            os.kill(os.getpid(), signal.SIGINT)

    study = make_study("mamba", "s7", seeds=1)
    with pytest.raises(KeyboardInterrupt):
        run(study, listener=Interrupt())
    assert (study.out / "mamba-0" / "saved").exists()
    assert not (study.out / "s7-0").exists()


def test_only_unfinished_trials_are_run_again(make_study, run, calls):
    study = make_study("lstm", "s7", seeds=1)
    run(study)
    run(study)
    assert (calls(study, "s7-0"), calls(study, "lstm-0")) == (1, 2)
    larger = make_study("s7", "s5", seeds=2)
    assert run(larger) == {}
    assert (calls(larger, "s7-0"), calls(larger, "s7-1"), calls(larger, "s5-1")) == (1, 1, 1)


def test_two_trials_at_a_time(make_study, run):
    study = make_study("s7", "s5")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    assert run(study, jobs=2) == {}
    assert all(trial.folder.is_finished for trial in study.trials())


def test_a_trial_gets_its_specification(make_study, run, tmp_path):
    study = make_study("s7", seeds=1, minutes=2.0, test=False, settings={"train": {"batch_size": 4}})
    run(study, data=tmp_path)
    folder = study.out / "s7-0"
    assert TrialSpec.read(folder / SPEC) == TrialSpec(
        "walker2d",
        str(folder),
        settings={"train": {"batch_size": 4}},
        minutes=2.0,
        test=False,
        data=str(tmp_path),
    )


def test_the_number_of_jobs_is_checked(make_study):
    with pytest.raises(ValueError, match="jobs=0: must be at least 1"):
        Runner(make_study("s7"), jobs=0)
    with pytest.raises(ValueError, match="jobs=9999: only"):
        Runner(make_study("s7"), jobs=9999)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--models", "s7,lstmm"], "no model 'lstmm'; did you mean 'lstm'?"),
        (["--models", "s7,s7"], "s7 is listed twice"),
        (["--models", "s7", "--jobs", "9999"], "jobs=9999: only"),
        (["--models", "s7", "--set", "train.epoch=3"], "did you mean 'epochs'?"),
    ],
)
def test_errors_are_reported_before_anything_is_written(arguments, message, tmp_path, capsys):
    assert main(["compare", "fitzhugh-nagumo", *arguments, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
