"""`s7 models`."""

import json

from s7.cli.main import main


def test_models_are_listed(capsys):
    assert main(["models"]) == 0
    assert "ode-lstm" in capsys.readouterr().out
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["model"] == "s7"
