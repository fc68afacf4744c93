"""The report about a search of settings."""

import json

import pytest

from s7.cli.main import main
from s7.tune.summary import Summary, TrialRecord

CONFIG = {
    "task": "pendulum",
    "model": "s7",
    "preset": "ours",
    "protocol": "strict",
    "seed": 0,
    "space": {"model.norm": "layer,rms", "model.width": "16:64:8", "train.learning_rate": "0.001:0.1:log"},
    "budget": "4 epochs",
    "rungs": [0.25, 0.5],
}


@pytest.fixture
def summary() -> Summary:
    trials = [
        TrialRecord(
            n,
            "pruned" if n % 3 == 2 else "finished",
            0.01 * (n + 1),
            {"model.norm": ["layer", "rms"][n % 2], "model.width": 16 + 8 * n, "train.learning_rate": 0.002 * (n + 1)},
            {"0.25": 0.1},
            61.0,
            "not among the better half" if n % 3 == 2 else "",
            preset=n == 1,
        )
        for n in range(6)
    ]
    trials.append(TrialRecord(6, "diverged", reason="the loss is <nan>"))
    return Summary(CONFIG, "mse", "min", tuple(trials), {"train.learning_rate": 0.9, "model.width": 0.1})


def test_a_page_shows_history_importance_and_slices(summary, tmp_path, capsys):
    summary.write(tmp_path)
    assert main(["report", str(tmp_path), "--json"]) == 0
    page = (tmp_path / "report.html").read_text()
    assert json.loads(capsys.readouterr().out)["report"].endswith("report.html")
    for part in ("history", "importance", "slices", "best", "trials"):
        assert f'id="{part}"' in page
    assert "7 trials: 4 finished, 2 pruned, 1 diverged" in page
    assert "The test data were not used." in page
    assert "the loss is &lt;nan&gt;" in page
    assert f"s7 train pendulum --preset {tmp_path}/best.toml" in page


def test_a_search_without_results_has_a_page(summary, tmp_path):
    Summary(CONFIG, "", "min", summary.trials[-1:], {}).write(tmp_path)
    assert main(["report", str(tmp_path)]) == 0


def test_a_search_is_reported_alone(summary, tmp_path, capsys):
    summary.write(tmp_path)
    assert main(["report", str(tmp_path), str(tmp_path / "run")]) == 2
    assert "a search of settings; make a report of it alone" in capsys.readouterr().err
    (tmp_path / "tune.json").write_text("{}")
    assert main(["report", str(tmp_path)]) == 2
    assert "tune.json: not the summary of a search" in capsys.readouterr().err


def test_the_terminal_shows_the_best_trials_and_the_preset(summary):
    lines = summary.text().splitlines()
    assert lines[0] == "7 trials: 4 finished, 2 pruned, 1 diverged"
    assert lines[2].split() == ["trial", "valid", "MSE", "norm", "width", "learning_rate"]
    assert lines[3].split() == ["0", "0.01", "layer", "16", "0.002"]
    assert lines[4].split()[:3] == ["1", "(preset)", "0.02"]
    assert lines[-1] == "importance: learning_rate 90%, width 10%"
