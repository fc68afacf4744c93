"""`s7 compare`."""

import json

from s7.cli.main import main

from .processes import SMALL


def test_two_models_are_trained_and_compared(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = ["--data", str(data), "--out", str(tmp_path / "out"), "--seeds", "1", "--set", *SMALL]
    assert main(["compare", "walker2d", "--models", "s7,lstm", "--epochs", "1", *settings]) == 0
    output = capsys.readouterr().out
    assert "This model ignores time gaps: lstm" in output
    assert {line.split()[0] for line in output.splitlines() if "MB" in line} == {"s7", "lstm"}
    record = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [score["model"] for score in record["scores"]] == ["s7", "lstm"]
    for score in record["scores"]:
        result = json.loads((tmp_path / "out" / f"{score['model']}-0" / "result.json").read_text())
        assert score["test"] == [result["test"]["mse"]]
        assert "train.epochs=1" in result["set"]
    assert (tmp_path / "out" / "report.html").exists()
