"""Several runs: same rules for all, a crash of one, going on, tables, ablations."""

import json
import math
import os
import signal
import sys
from pathlib import Path

import pytest

from s7.cli.main import main
from s7.config import ModelConfig
from s7.encoders import LinearEncoder
from s7.heads import PerStep
from s7.job import Job, _model_config
from s7.settings import merge, table_of
from s7.study import Study, Summary, Variant
from s7.study.ablations import ABLATIONS, variants
from s7.study.runner import Listener, Runner
from s7.study.study import StudyConfig
from s7.study.summary import difference
from s7.tasks import TASKS

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

# Stands for `s7 train`: lstm never comes to its end, gru is killed, mamba waits to be stopped, the others are done.
PROGRAM = """
import json, os, pathlib, signal, sys
words = sys.argv[1:]
value = lambda name: words[words.index(name) + 1]
folder, model, seed = pathlib.Path(value("--out")), value("--model"), int(value("--seed"))
with open(folder / "calls", "a") as file:
    file.write("x")
def save(*_):
    (folder / "saved").touch()
    sys.exit(130)
signal.signal(signal.SIGTERM, save)
print(json.dumps({"epoch": 1, "valid": {"mse": 2.0}, "best": True}), flush=True)
print("not JSON", flush=True)
if model == "lstm":
    sys.exit("s7 train: something went wrong")
if model == "gru":
    os.kill(os.getpid(), signal.SIGKILL)
if model == "mamba":
    signal.pause()
result = json.loads(os.environ["RESULT"])
score = {"s7": 1.0, "s5": 2.0}[model] + seed / 10
result |= {"valid": {"mse": score}, "test": {"mse": score + 1}, "gaps": "not used" if model == "s5" else "used"}
(folder / "config.toml").write_text("")
(folder / "result.json").write_text(json.dumps(result))
"""


class Heard(Listener):
    def __init__(self):
        self.said = []

    def epoch(self, trial, line):
        self.said.append((trial.variant.name, line["epoch"]))

    def end(self, trial, failure):
        self.said.append((trial.variant.name, failure))


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setenv("RESULT", json.dumps(RESULT))

    def make(*models: str, seeds: int = 2, **rules) -> Study:
        return Study(StudyConfig("walker2d", **rules), tuple(map(Variant, models)), seeds, tmp_path / "out")

    return make


def run(study: Study, **changes) -> dict[str, str]:
    study.open()
    return Runner(study, program=(sys.executable, "-c", PROGRAM), **changes).run()


def calls(study: Study, name: str) -> int:
    return len((study.out / name / "calls").read_text())


def test_a_run_that_fails_does_not_stop_the_others(study):
    heard = Heard()
    held = study("lstm", "gru", "s7", seeds=1)
    failures = run(held, listener=heard)
    assert failures == {"lstm-0": "s7 train: something went wrong", "gru-0": "killed by signal 9"}
    assert heard.said == [
        ("lstm", 1),
        ("lstm", "s7 train: something went wrong"),
        ("gru", 1),
        ("gru", "killed by signal 9"),
        ("s7", 1),
        ("s7", None),
    ]
    summary = Summary.of(held, failures)
    assert [score.name for score in summary.ranked()] == ["s7", "lstm", "gru"]
    table = summary.table()
    assert "no result" in table
    assert "lstm: seed 0: s7 train: something went wrong" in table


def test_interrupted_it_lets_the_run_save_and_starts_no_other(study, request):
    # Where the tests run in the background, a shell may have had it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    class Interrupt(Listener):
        def epoch(self, trial, line):
            os.kill(os.getpid(), signal.SIGINT)

    held = study("mamba", "s7", seeds=1)
    with pytest.raises(KeyboardInterrupt):
        run(held, listener=Interrupt())
    assert (held.out / "mamba-0" / "saved").exists()
    assert not (held.out / "s7-0").exists()


def test_called_again_only_what_is_not_done_is_run(study):
    held = study("lstm", "s7", seeds=1)
    run(held)
    run(held)
    assert (calls(held, "s7-0"), calls(held, "lstm-0")) == (1, 2)
    more = study("s7", "s5", seeds=2)
    assert run(more) == {}
    assert (calls(more, "s7-0"), calls(more, "s7-1"), calls(more, "s5-1")) == (1, 1, 1)


def test_two_at_a_time(study):
    held = study("s7", "s5")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core only")
    assert run(held, jobs=2) == {}
    assert all(trial.folder.is_finished for trial in held.trials())


def test_runs_under_other_rules_are_not_mixed(study):
    run(study("s7", seeds=1, minutes=3.0))
    with pytest.raises(ValueError, match=r"out: its runs were made with minutes 3.0, not 5.0; choose another folder"):
        run(study("s7", seeds=1, minutes=5.0))
    with pytest.raises(ValueError, match=r"set nothing set, not train\.batch_size=4"):
        run(study("s7", seeds=1, minutes=3.0, set=("train.batch_size=4",)))


def test_a_plan_that_is_none(study, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "plan.json").write_text("[")
    with pytest.raises(ValueError, match=r"plan.json: not a plan of s7 compare"):
        run(study("s7"))


def test_the_command_of_a_run_is_its_job(study, tmp_path):
    held = Study(
        StudyConfig("walker2d", minutes=2.0, set=("train.batch_size=4", "model.form.rank=8"), test=False),
        (Variant(variant="half the rank", settings={"model": {"form": {"kind": "Factored", "rank": 4}}}),),
        1,
        tmp_path,
    )
    (trial,) = held.trials()
    words = held.command(trial, Path("data"))
    assert words[:2] == ["train", "walker2d"]
    for option in (
        "--variant half the rank",
        "--minutes 2",
        "--no-test",
        "--data data",
        f"--out {tmp_path}/half-the-rank-0",
    ):
        assert option in " ".join(words)
    given = words[words.index("--set") + 1 :]
    assert given == ["train.batch_size=4", 'model.form={kind = "Factored", rank = 4}']
    assert held.job(trial.variant, 0).tables["model"]["form"]["rank"] == 4


def test_the_tally(study):
    held = study("s5", "s7")
    run(held)
    summary = Summary.of(held, {})
    assert (summary.metric, summary.split, summary.baselines) == ("mse", "test", {"persistence": {"mse": 4.0}})
    first, second = summary.ranked()
    assert (first.name, first.test, second.name) == ("s7", [2.0, 2.1], "s5")
    assert (first.epochs, first.minutes) == (1.5, 1.5)
    lines = summary.table().splitlines()
    assert lines[0].split()[:3] == ["model", "test", "MSE"]
    assert lines[1].startswith("s7")
    assert "2.050 ± 0.071" in lines[1]
    assert lines[3].startswith("persistence")
    assert lines[-1] == "no notion of time, so the gaps between events are not used: s5"
    record = json.loads(json.dumps(summary.record()))
    assert record["compared_with"] == "s5"
    assert record["scores"][1]["difference"] == pytest.approx(-1.0)
    assert record["scores"][1]["verdict"] == "better"
    assert record["scores"][0]["verdict"] is None


def test_differences_are_measured_in_the_seeds_noise():
    assert difference([1.0], []) is None
    assert difference([3.0], [1.0]) == (2.0, None)
    by, errors = difference([1.0, 3.0], [2.0, 6.0])
    assert by == -2
    assert errors == pytest.approx(2 / math.sqrt(1 + 4))
    assert difference([1.0, 1.0], [1.0, 1.0]) == (0.0, 0.0)
    assert difference([2.0, 2.0], [1.0, 1.0]) == (1.0, math.inf)


def test_an_ablation_says_whether_it_matters(study, tmp_path):
    held = study("s7", "s5")
    run(held)
    lines = Summary.of(held, {}).ablation().splitlines()
    assert lines[2].split()[-3:] == ["+1", "worse", "1,234"]
    assert "more than 2 standard errors" in lines[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--models", "s7,lstn"], "no model 'lstn'; did you mean 'lstm'?"),
        (["--models", ","], "--models: expected at least one name"),
        (["--models", "s7,s7"], "s7 is listed twice"),
        (["--models", "s7", "--seeds", "0"], "--seeds: expected a whole number of at least 1"),
        (["--models", "s7", "--minutes", "0"], "--minutes: expected a positive number"),
        (["--models", "s7", "--jobs", "0"], "--jobs: expected a whole number"),
        (["--models", "s7", "--jobs", "9999"], "jobs=9999: only"),
        (["--models", "s7", "--set", "train.epoch=3"], "did you mean 'epochs'?"),
    ],
)
def test_bad_input_is_said_before_anything_is_made(arguments, message, tmp_path, capsys):
    assert main(["compare", "fitzhugh-nagumo", *arguments, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def resolved(task: str, preset: str = "ours", **model) -> dict:
    """The settings of a model in full, with any encoder and head."""
    table = {name: q for name, q in Job(task, preset=preset).tables["model"].items() if name not in ("encoder", "head")}
    return table_of(_model_config(merge(table, model), {"encoder": LinearEncoder(1), "head": PerStep(1)}))


@pytest.mark.parametrize("task", TASKS)
def test_every_ablation_of_every_task_can_be_built(task):
    base = resolved(task)
    for variant in variants(base, irregular=True):
        job = Job(task, settings=variant.settings, variant=variant.variant)
        job.check()
        changed = {name: q for name, q in job.tables["model"].items() if name not in ("encoder", "head")}
        config = _model_config(changed, {"encoder": LinearEncoder(1), "head": PerStep(1)})
        assert isinstance(config, ModelConfig)
        assert (table_of(config) != base) == (variant.variant != "as set"), variant.name


def test_ablations_change_what_they_say():
    names = [variant.name for variant in variants(resolved("walker2d"), irregular=False)]
    assert names[0] == "as set"
    assert {"no reparameterization", "a=0.5 b=0.5", "a=1 b=1", "Λ static", "B static", "no gain"} <= set(names)
    assert not {"a=1 b=0.5", "dt ignored"} & set(names)
    assert not any("pooling" in name for name in names)
    pools = {name for name in ABLATIONS if "pooling" in name}
    assert pools - set(variant.name for variant in variants(resolved("nmnist"), irregular=True)) == {"pooling: mean"}
    plain = ABLATIONS["no reparameterization"](resolved("walker2d"))
    assert plain == {"transition": {"kind": "Plain", "selective": True, "gain": "rate", "tau": [1.0, 50.0]}}
    assert ABLATIONS["a=1 b=1"](resolved("walker2d", transition={"tau": [0.5, 9.0]}))["transition"]["tau"] == [1.0, 9.0]
