"""`s7 compare`."""

import json

import pytest

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


def test_a_preset_file_can_take_the_place_of_a_model(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(
        "task = 'walker2d'\n[model]\nkind = 'gru'\nwidth = 9\n[train]\nlearning_rate = 0.25\n"
    )
    settings = ["--data", str(data), "--out", "out", "--seeds", "1", "--set", "model.width=4", "train.batch_size=16"]
    assert main(["compare", "walker2d", "--models", "gru,mine.toml", "--epochs", "1", *settings]) == 0
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines() if "MB" in line} == {"gru", "mine.toml"}
    changes = json.loads((tmp_path / "out" / "mine.toml-0" / "result.json").read_text())["set"]
    assert {"model.width=4", "train.learning_rate=0.25", "train.epochs=1"} <= set(changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file"),
        ("task = 'pendulum'", "mine.toml: for pendulum, not for walker2d"),
        ("preset = 'paper'", "mine.toml: settings over the preset paper; compare with --preset paper"),
        ("[model]\nkind = 'gruu'", "no model 'gruu'"),
    ],
)
def test_preset_files_that_do_not_fit(text, message, data, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "mine.toml").write_text(text)
    assert main(["compare", "walker2d", "--models", "gru,mine.toml", "--data", str(data)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()
