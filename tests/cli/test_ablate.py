"""`s7 ablate`."""

import json

from s7.cli.main import main
from s7.study import Runner

from .processes import SMALL


def test_ablations_are_selected_and_compared(data, tmp_path, capsys, monkeypatch):
    started = []

    def finish(runner: Runner) -> dict[str, str]:
        """Write a result for each trial instead of training."""
        for trial in runner.study.trials():
            started.append((trial.variant.name, trial.variant.settings))
            trial.folder.path.mkdir(parents=True)
            metrics = {"mse": 1.0 + len(started)}
            result = {"metric": "mse", "better": "min", "valid": metrics, "test": metrics}
            (trial.folder.path / "result.json").write_text(json.dumps(result))
        return {}

    monkeypatch.setattr(Runner, "run", finish)
    out = tmp_path / "out"
    options = ["--only", "no gate,dt ignored", "--seeds", "1", "--data", str(data), "--out", str(out), "--set", *SMALL]
    assert main(["ablate", "walker2d", *options]) == 0
    changes = {"no gate": {"model": {"gate": False}}, "dt ignored": {"model": {"gaps": "ignored"}}}
    assert started == [("as set", {}), *changes.items()]
    output = capsys.readouterr().out
    assert "difference: relative to as set" in output
    record = json.loads((out / "comparison.json").read_text())
    assert [score["difference"] for score in record["scores"]] == [None, 1.0, 2.0]


def test_unknown_ablations_are_rejected(data, tmp_path, capsys):
    options = ["--data", str(data), "--out", str(tmp_path / "out"), "--set", *SMALL]
    assert main(["ablate", "walker2d", "--only", "no gat", *options]) == 2
    assert "--only: no ablation 'no gat'; did you mean 'no gate'?" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
